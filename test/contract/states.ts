import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation, TraceState } from '../../src/model/observation.ts';
import { TRACE_STATES } from '../../src/model/observation.ts';
import { parseQuery } from '../../src/query/parse.ts';
import type { Store, StoredObservation } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { OpenForQueries } from './queries.ts';

const HOUR = 3_600_000;
/** `stale_after` by default. */
const STALE_AFTER = 24 * HOUR;
const FUTURE = 24 * HOUR;

const open: Partial<Observation> = { operation: 'start', status: 'running', ended: false };
const closed: Partial<Observation> = { operation: 'finish', status: 'success', ended: true };
const failed: Partial<Observation> = { operation: 'error', status: 'error', ended: true };

/** Observations without an end become interrupted, and their end revives them. */
export function states(t: Test, openStore: OpenForQueries): void {
  t.test('any order of starts, ends and times gives the state of the newest time', async (t) => {
    const { store, clock } = await openStore(t);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
        const traceId = `trace-${run++}`;
        let receivedAt = 0;
        for (const { after, id, event, offset } of steps) {
          clock.advance(after);
          receivedAt = clock.now();
          await write(
            store,
            { ...event, ...timesOf(event, receivedAt, offset), id, traceId },
            receivedAt,
          );
          for (const wait of [0, STALE_AFTER - HOUR]) {
            clock.advance(wait);
            await compare(t, store, traceId, receivedAt, clock.now());
          }
        }
      }),
      { numRuns: 15 },
    );
  });

  t.test(
    'a trace without any time is interrupted by its arrival, and an end revives it',
    async (t) => {
      const { store, clock } = await openStore(t);
      const run = { ...open, id: 'root', traceId: 'trace', startTime: null, endTime: null };
      await write(store, run, clock.now());
      const stateOf = async () => (await store.traces.getTrace(P, 'trace'))?.state;
      clock.advance(STALE_AFTER);
      t.equal(await stateOf(), 'running', 'exactly a day');
      clock.advance(1);
      t.equal(await stateOf(), 'interrupted');
      await write(store, { ...run, ...closed }, clock.now());
      t.equal(await stateOf(), 'finished');
    },
  );
}

const step = fc.record({
  after: fc.constantFrom(0, HOUR, 30 * HOUR),
  id: fc.constantFrom('root', 'child'),
  event: fc.constantFrom(open, open, closed, failed),
  offset: fc.constantFrom(null, 0, -30 * HOUR, FUTURE, FUTURE + 1),
});

function timesOf(
  { ended }: Partial<Observation>,
  receivedAt: number,
  offset: number | null,
): Pick<Observation, 'startTime' | 'endTime'> {
  const time = offset === null ? null : { ms: receivedAt + offset, ns: 0 };
  return { startTime: time, endTime: ended === true ? time : null };
}

async function write(
  store: Store,
  { id, ...more }: Partial<Observation>,
  receivedAt: number,
): Promise<void> {
  const parentId = id === 'child' ? 'root' : null;
  const observations = [anObservation({ ...more, id: id ?? 'root', parentId })];
  const source = nativeBatch(1, { receivedAt, tenant: aTenant({ projectId: P }) });
  await store.traces.write({ kind: 'observations', source, observations });
}

async function compare(
  t: Test,
  store: Store,
  traceId: string,
  receivedAt: number,
  now: number,
): Promise<void> {
  const { items } = await store.traces.listObservations(P, traceId, { limit: 9 });
  const times = items
    .flatMap(({ startTime, endTime }) => [startTime?.ms, endTime?.ms])
    .filter((ms) => ms !== undefined && ms <= receivedAt + FUTURE) as number[];
  const newest = times.length === 0 ? receivedAt : Math.max(...times);
  const expected = ({ status, ended }: StoredObservation): TraceState => {
    if (status === 'error') return 'error';
    if (ended) return 'finished';
    return newest < now - STALE_AFTER ? 'interrupted' : 'running';
  };
  for (const one of items) t.equal(one.state, expected(one), one.id);
  const root = items.find(({ parentId }) => parentId === null) ?? items[0];
  if (root === undefined) throw new Error('the trace has no observations');
  const trace = await store.traces.getTrace(P, traceId);
  t.equal(trace?.state, expected(root), 'the state of the trace is that of its root');
  for (const state of TRACE_STATES) {
    const query = parseQuery(`id:${traceId} state:${state}`, { ms: now, ns: 0 });
    const { items: found } = await store.traces.listTraces(P, { limit: 9, query });
    t.equal(found.length, state === expected(root) ? 1 : 0, `state:${state}`);
  }
}
