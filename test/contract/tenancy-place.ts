import type { Test } from 'tap';
import type { SealedBatch } from '../../src/model/batch.ts';
import type { Store } from '../../src/store/store.ts';
import type { Project } from '../../src/tenancy/contract.ts';
import { anObservation, aTenant, nativeBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';

/** A store under test, whose clock a test owns. */
export type TenancyPlace = { readonly clock: FakeClock; open(): Promise<OpenTenancyPlace> };
type OpenTenancyPlace = {
  readonly store: Store;
  /** Removes at once what is removed in small steps else. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): Promise<void>;
};

type Opened = {
  clock: FakeClock;
  store: Store;
  finish(): Promise<void>;
  reopen(): Promise<Store>;
};
export type OpenTenancy = (t: Test) => Promise<Opened>;

export const DAY = 86_400_000;
export const HOUR = 3_600_000;
export const UNLIMITED = { eventsPerMonth: null, bytesPerHour: null };

/** Opens a store for a test, and closes it after the test. */
export function openingTenancy(place: (t: Test) => Promise<TenancyPlace>): OpenTenancy {
  return async (t) => {
    const at = await place(t);
    let opened = await at.open();
    t.teardown(() => opened.close());
    return {
      clock: at.clock,
      store: opened.store,
      finish: () => opened.finish(),
      reopen: async () => {
        await opened.crash();
        opened = await at.open();
        return opened.store;
      },
    };
  };
}

export async function only(store: Store): Promise<Project> {
  const [project] = await store.projects.list();
  if (project === undefined) throw new Error('a new store has a project');
  return project;
}

/** A batch of a project with one observation of each trace named. */
export function batchOf(
  project: Project,
  clock: FakeClock,
  traces: readonly string[] = ['trace-1'],
  more: Partial<SealedBatch> = {},
): SealedBatch {
  return nativeBatch(
    traces.map((trace_id, i) => ({
      ...{ id: `${trace_id}-${i}`, trace_id, kind: 'span', operation: 'finish', status: 'ok' },
      ...{ inputs: { question: 'why' } },
    })),
    {
      receivedAt: clock.now(),
      usage: { events: traces.length, bytes: 100 },
      tenant: aTenant({ organizationId: project.organizationId, projectId: project.id }),
      ...more,
    },
  );
}

export async function write(
  store: Store,
  source: SealedBatch,
  traces: readonly string[] = ['trace-1'],
): Promise<void> {
  const observations = traces.map((traceId, index) =>
    anObservation({ id: `${traceId}-${index}`, traceId, index }),
  );
  await store.traces.write({ kind: 'observations', source, observations });
}

export async function traceIds(store: Store, project: Project): Promise<string[]> {
  const page = await store.traces.listTraces(project.id, { limit: 100 });
  return page.items.map(({ id }) => id).sort();
}
