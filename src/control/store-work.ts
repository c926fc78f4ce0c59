import { systemClock } from '../component/clock.ts';
import type { Clock } from '../component/component.ts';
import type { Store } from '../store/store.ts';
import type { ChangedBy, Project } from '../tenancy/contract.ts';
import { ControlError } from './protocol.ts';

/** What a command about a store works with. */
export type StoreWork = {
  readonly store: Store;
  /** Who asks. */
  readonly by: ChangedBy;
  readonly clock: Clock;
};

/** The same over the control socket and in a store that no daemon owns. */
export type StoreCommand = (work: StoreWork, args: unknown) => Promise<unknown>;

export function storeWork(store: Store): StoreWork {
  return { store, by: { actor: 'cli', address: null }, clock: systemClock };
}

/** The project that is meant: by id, by a name only one has, or the only one there is. */
export async function projectFor(store: Store, wanted: string | undefined): Promise<Project> {
  const projects = await store.projects.list();
  const byId = projects.find((project) => project.id === wanted);
  if (byId !== undefined) return byId;
  const meant =
    wanted === undefined ? projects : projects.filter((project) => project.name === wanted);
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return only;
  if (projects.length === 0) throw new ControlError('no_project', 'the store has no project yet');
  const choice = projects.map((project) => `${project.id} (${project.name})`).join(', ');
  throw new ControlError(
    'unknown_project',
    wanted === undefined
      ? `there are several projects; say which with --project: ${choice}`
      : `there is no single project "${wanted}"; there are: ${choice}`,
  );
}
