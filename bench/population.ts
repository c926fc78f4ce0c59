import { config } from '../extensions/sqlite/config.ts';
import { openSqliteStore } from '../extensions/sqlite/open-store.ts';
import { systemClock } from '../src/component/clock.ts';
import type { Logger, Metrics } from '../src/component/component.ts';
import type { Store } from '../src/store/store.ts';
import { anObservation, aTenant, nativeBatch } from '../test/helper/batches.ts';

/** How many projects and keys a store holds before the daemon starts, and how many of them send. */
export type Population = {
  readonly projects: number;
  readonly keysPerProject: number;
  readonly senders: number;
};

/** Concurrent creations share transactions. */
const TOGETHER = 1000;
const SILENT: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const UNCOUNTED: Metrics = {
  counter: () => ({ add() {} }),
  histogram: () => ({ record() {} }),
  gauge: () => () => undefined,
};

/** Makes a store in the directory; resolves with the keys of those who send, from all over it. */
export async function populate(directory: string, population: Population): Promise<string[]> {
  const { projects, keysPerProject, senders } = population;
  return inStore(directory, async (store) => {
    const ids = await inGroups(projects, async (i) => (await store.projects.create(`p${i}`)).id);
    const tokens = await inGroups(projects * keysPerProject, async (i) => {
      const projectId = ids[i % ids.length] ?? '';
      return (await store.keys.create({ projectId })).token;
    });
    const step = Math.max(1, Math.floor(tokens.length / senders));
    return tokens.filter((_token, i) => i % step === 0).slice(0, senders);
  });
}

const DAY_MS = 86_400_000;
const OBSERVATIONS_A_TRACE = 100;
const TRACES_A_BATCH = 10;

/**
 * Makes a store in the directory with so many observations that are `days` old; resolves with the key of
 * their project.
 */
export async function populateOld(
  directory: string,
  observations: number,
  days: number,
): Promise<string[]> {
  return inStore(directory, async (store) => {
    const { id: projectId, organizationId } = await store.projects.create('old');
    const tenant = aTenant({ projectId, organizationId });
    const receivedAt = Date.now() - days * DAY_MS;
    await inGroups(
      observations / OBSERVATIONS_A_TRACE / TRACES_A_BATCH,
      async (batch) => {
        const rows = Array.from({ length: TRACES_A_BATCH * OBSERVATIONS_A_TRACE }, (_, index) => {
          const traceId = `trace-${batch}-${Math.floor(index / OBSERVATIONS_A_TRACE)}`;
          return anObservation({ id: `${traceId}-${index}`, traceId, index });
        });
        const usage = { events: rows.length, bytes: rows.length };
        const source = nativeBatch(rows.length, { tenant, receivedAt, usage, encoding: 'gzip' });
        await store.traces.write({ kind: 'observations', source, observations: rows });
      },
      4,
    );
    return [(await store.keys.create({ projectId })).token];
  });
}

async function inStore<T>(directory: string, work: (store: Store) => Promise<T>): Promise<T> {
  const opened = await openSqliteStore(
    { clock: systemClock, logger: SILENT, metrics: UNCOUNTED },
    config.parse({ directory, organization: { retention_days: 'unlimited' } }),
  );
  try {
    return await work(opened.store);
  } finally {
    await opened.close();
  }
}

async function inGroups<T>(
  count: number,
  make: (i: number) => Promise<T>,
  together = TOGETHER,
): Promise<T[]> {
  const made: T[] = [];
  while (made.length < count) {
    const start = made.length;
    const size = Math.min(together, count - start);
    made.push(...(await Promise.all(Array.from({ length: size }, (_, i) => make(start + i)))));
  }
  return made;
}
