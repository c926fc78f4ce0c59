import { systemClock } from '../component/clock.ts';
import type { Clock } from '../component/component.ts';
import type { ProjectReads } from '../read/project-reads.ts';
import type { Store } from '../store/store.ts';
import type { ChangedBy, Project } from '../tenancy/contract.ts';
import { ControlError } from './protocol.ts';

/** The context of a command about a store. */
export type StoreWork = {
  readonly store: Store;
  /** The actor for the audit log. */
  readonly by: ChangedBy;
  readonly clock: Clock;
  /** The reading requests of the service. */
  readonly reads: ProjectReads;
};

/** The context over the control socket and in a store without a running daemon. */
export type StoreCommand = (work: StoreWork, args: unknown) => Promise<unknown>;

export function storeWork(store: Store, reads: ProjectReads): StoreWork {
  return { store, reads, by: { actor: 'cli', address: null }, clock: systemClock };
}

/** Finds a project by id, by a unique name, or as the only project. */
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
      ? `several projects: name one with --project: ${choice}`
      : `no project, or more than one, matches "${wanted}". Projects: ${choice}`,
  );
}
