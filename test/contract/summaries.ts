import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { MAX_SUMMARIZED } from '../../src/store/rows/written-trace.ts';
import type { Store, StoredTrace } from '../../src/store/store.ts';
import { anObservation, aTenant, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import type { SharesStore } from './place.ts';

/** A store that finishes its background work, and its clock. */
export type OpenForSummaries = SharesStore &
  ((
    t: Test,
  ) => Promise<{ readonly clock: FakeClock; readonly store: Store; finish(): Promise<void> }>);

const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number) => ({ ms: T0 + ms, ns: 0 });
const NO_TIMES = { startTime: null, endTime: null };

async function write(store: Store, list: readonly Observation[], receivedAt = T0): Promise<void> {
  const observations = list.map((observation, index) => ({ ...observation, index }));
  const source = nativeBatch(list.length, { receivedAt });
  await store.traces.write({ kind: 'observations', source, observations });
}

const traceOf = (store: Store, id = 'trace-1'): Promise<StoredTrace | undefined> =>
  store.traces.getTrace(P, id);

/** The rules for the row of a trace, which summarizes its observations. */
export function summaries(t: Test, open: OpenForSummaries): void {
  t.test('a trace has the facts of its observations, those of the root first', async (t) => {
    const { store } = await open.shared();
    await write(store, [
      anObservation({
        ...{ id: 'root', name: 'top', kind: 'chain', sessionId: 's', startTime: at(0) },
        ...{ endTime: at(2500), customFields: { env: 'root', team: 'a' } },
        details: { environment: 'production', tags: ['b'] },
      }),
      anObservation({
        ...{ id: 'call', parentId: 'root', model: 'm2', status: 'error', sessionId: 'other' },
        ...{ userId: 'u', startTime: at(100), endTime: at(900), usage: { input_tokens: 3 } },
        customFields: { env: 'call', extra: '1' },
        details: {
          ...{ release: 'r', environment: 'other', ttftMs: 50, tags: ['a', 'b'] },
          cost: { input: 1, output: 2, total: 3, source: 'sent' },
        },
      }),
      anObservation({
        id: 'more',
        parentId: 'root',
        model: 'm1',
        startTime: at(1),
        endTime: at(2),
      }),
    ]);
    t.same(await traceOf(store), {
      ...{ id: 'trace-1', name: 'top', status: 'success', state: 'finished', source: 'native' },
      ...{ startTime: at(0), endTime: at(2500), latencyMs: 2500, ttftMs: 150 },
      ...{ observationCount: 3, errorCount: 1, models: ['m1', 'm2'], tags: ['a', 'b'] },
      ...{ sessionId: 's', userId: 'u', keyId: aTenant().keyId, environment: 'production' },
      ...{ release: 'r', customFields: { env: 'root', team: 'a', extra: '1' }, clockSkew: false },
      scores: {},
      inputPreview: null,
      outputPreview: null,
      usage: { input_tokens: 3, total_tokens: 3 },
      cost: { input: 1, output: 2, total: 3 },
    });
  });

  t.test('a trace has the previews of its root, by the ranks of its events', async (t) => {
    const { store } = await open.shared();
    const odd = 'ü \u0000 "x"';
    const previews = (inputPreview: string, outputPreview?: string) => ({
      details: { inputPreview, ...(outputPreview === undefined ? {} : { outputPreview }) },
    });
    await write(store, [
      anObservation({ id: 'root', ...previews(odd) }),
      anObservation({ id: 'child', parentId: 'root', ...previews('of a child', 'of a child') }),
    ]);
    t.match(await traceOf(store), { inputPreview: odd, outputPreview: null });
    await write(store, [anObservation({ id: 'root', version: '1', ...previews('newer', 'out') })]);
    await write(store, [anObservation({ id: 'root', ...previews('older', 'older') })]);
    const { items } = await store.traces.listTraces(P, { limit: 1 });
    t.match(items, [{ inputPreview: 'newer', outputPreview: 'out' }]);
  });

  t.test('a trace has the name that its client gives it, in any order of arrival', async (t) => {
    const { store } = await open.shared();
    const root = anObservation({ id: 'root', name: 'root span' });
    const named = anObservation({
      ...{ id: 'child', parentId: 'root', name: 'child span' },
      details: { traceName: 'checkout' },
    });
    await write(store, [root]);
    t.match(await traceOf(store), { name: 'root span' });
    await write(store, [named]);
    t.match(await traceOf(store), { name: 'checkout' });
    await write(store, [root]);
    t.match(await traceOf(store), { name: 'checkout' });
  });

  t.test('a trace without its root is named after its outermost observation', async (t) => {
    const { store } = await open.shared();
    const span = (id: string, parentId: string, ms: number) =>
      anObservation({ id, parentId, name: id, startTime: at(ms), endTime: at(ms) });
    // Inner spans end first, and so arrive first.
    const inner = ['call', 'step', 'run', 'gateway'].map((id, depth, ids) =>
      span(id, ids[depth + 1] ?? 'elsewhere', 0),
    );
    await write(store, [span('late', 'elsewhere', 1), ...inner]);
    t.match(await traceOf(store), { name: 'gateway' });
    await write(store, [span('early', 'run', -1)]);
    t.match(await traceOf(store), { name: 'early' });
    const cycle = [span('a', 'b', 0), span('b', 'a', 0)];
    await write(
      store,
      cycle.map((one) => ({ ...one, traceId: 'trace-2' })),
    );
    t.match(await traceOf(store, 'trace-2'), { name: 'a' });
  });

  t.test('an observation keeps the malformed values of its events', async (t) => {
    const { store } = await open.shared();
    const ignored = [{ path: 'start_time', reason: 'is no time' }];
    await write(store, [anObservation({ id: 'root', details: { ignored } })]);
    await write(store, [anObservation({ id: 'root', version: '1', details: { provider: 'p' } })]);
    const { items } = await store.traces.listObservations(P, 'trace-1', { limit: 9 });
    t.match(items, [{ details: { ignored, provider: 'p' } }]);
  });

  t.test('usage that a parent repeats counts once', async (t) => {
    const { store } = await open.shared();
    const usage = { input_tokens: 100, output_tokens: 20 };
    await write(store, [anObservation({ id: 'call', parentId: 'client', usage })]);
    await write(store, [anObservation({ id: 'client', usage })]);
    t.match(await traceOf(store), { usage: { ...usage, total_tokens: 120 } });
  });

  t.test('a trace without an end is interrupted when its newest time is old', async (t) => {
    const { store, clock } = await open(t);
    const started = { status: 'running' as const, ended: false, endTime: null };
    const day = 24 * 3_600_000;
    const newest = clock.now() - day;
    await write(store, [
      anObservation({ ...started, id: 'root', startTime: { ms: newest - 5, ns: 0 } }),
      anObservation({
        ...started,
        id: 'child',
        parentId: 'root',
        startTime: { ms: newest, ns: 0 },
      }),
    ]);
    const states = async () => {
      const { items } = await store.traces.listObservations(P, 'trace-1', { limit: 9 });
      return items.map(({ state }) => state);
    };
    t.equal((await traceOf(store))?.state, 'running', 'exactly a day');
    t.same(await states(), ['running', 'running']);
    clock.advance(1);
    t.equal((await traceOf(store))?.state, 'interrupted');
    t.same(await states(), ['interrupted', 'interrupted']);
    const atNewest = { ms: newest, ns: 0 };
    await write(store, [anObservation({ id: 'root', startTime: atNewest, endTime: atNewest })]);
    t.equal((await traceOf(store))?.state, 'finished', 'an end revives it');
    t.same((await states()).sort(), ['finished', 'interrupted']);
    t.equal((await store.traces.getObservation(P, 'child'))?.state, 'interrupted');
    await write(store, [anObservation({ id: 'root', status: 'error', version: '1' })]);
    t.equal((await traceOf(store))?.state, 'error');
  });

  t.test('a child far outside of its root does not move or stretch the trace', async (t) => {
    const { store } = await open.shared();
    const root = anObservation({ id: 'root', startTime: at(0), endTime: at(1000) });
    const child = (id: string, startMs: number, endMs: number) =>
      anObservation({ id, parentId: 'root', startTime: at(startMs), endTime: at(endMs) });
    await write(store, [root, child('a', -5_000, 10), child('b', 601_000, 602_000)]);
    const sane = { startTime: at(-5_000), endTime: at(602_000), clockSkew: false };
    t.match(await traceOf(store), sane, 'within the bounds');
    await write(store, [child('c', -5_001, 10)]);
    t.match(await traceOf(store), { ...sane, clockSkew: true });
    await write(store, [child('d', 601_001, 7_200_000)]);
    t.match(await traceOf(store), { ...sane, clockSkew: true, observationCount: 5 });
  });

  t.test('a start in the far future does not pin a trace to the top', async (t) => {
    const { store } = await open.shared();
    const day = 24 * 3_600_000;
    const future = { startTime: at(day + 1), endTime: at(day + 2) };
    await write(store, [anObservation({ ...future, traceId: 'future' })]);
    await write(store, [anObservation({ startTime: at(day), endTime: null, traceId: 'allowed' })]);
    await write(store, [anObservation({ ...NO_TIMES, traceId: 'none' })], T0 + 1);
    const { items } = await store.traces.listTraces(P, { limit: 9 });
    t.same(
      items.map(({ id }) => id),
      ['allowed', 'none', 'future'],
    );
    t.match(await traceOf(store, 'future'), { startTime: null, clockSkew: true });
  });

  t.test(
    `a trace of ${MAX_SUMMARIZED} is summarized by its write, a larger one later`,
    async (t) => {
      const { store, finish } = await open(t);
      const one = (i: number) =>
        anObservation({ id: `o${i}`, parentId: i === 0 ? null : 'o0', usage: { input_tokens: 1 } });
      await write(
        store,
        Array.from({ length: MAX_SUMMARIZED }, (_, i) => one(i)),
      );
      const usage = { input_tokens: MAX_SUMMARIZED - 1, total_tokens: MAX_SUMMARIZED - 1 };
      t.match(await traceOf(store), { usage, observationCount: MAX_SUMMARIZED });
      await write(store, [one(MAX_SUMMARIZED), one(MAX_SUMMARIZED + 1)]);
      t.equal((await traceOf(store))?.observationCount, MAX_SUMMARIZED + 2);
      await finish();
      t.equal((await traceOf(store))?.usage?.input_tokens, MAX_SUMMARIZED + 1);
      await write(store, [{ ...one(0), usage: { input_tokens: 9999 }, version: '1' }]);
      await finish();
      t.equal((await traceOf(store))?.usage?.input_tokens, 9999);
    },
  );

  t.test('any order of arrival and any split into batches gives the same summary', async (t) => {
    const { store } = await open.shared();
    const ids = ['a', 'b', 'c', 'd', 'e'];
    const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
    const events = fc.tuple(
      ...ids.map((id, i) =>
        fc
          .record({
            parentId: maybe(fc.constantFrom(...ids.slice(0, i), 'unknown')),
            usage: maybe(fc.record({ input_tokens: fc.nat(9), output_tokens: fc.nat(9) })),
            model: maybe(fc.constantFrom('m', 'n')),
            details: maybe(fc.constantFrom({ scope: 'x' }, { scope: 'y', tags: ['t'] })),
          })
          // Distinct starts: the arrival decides between roots with equal ones.
          .map((fields) => anObservation({ ...fields, id, startTime: at(i), endTime: at(20) })),
      ),
    );
    const written = fc.tuple(
      events,
      fc.shuffledSubarray(ids, { minLength: ids.length }),
      fc.integer({ min: 1, max: ids.length }),
    );
    let run = 0;
    await fc.assert(
      fc.asyncProperty(written, async ([list, order, size]) => {
        run++;
        const [inOrder, shuffled] = [`${run}-in-order`, `${run}-shuffled`];
        await write(
          store,
          list.map((one) => ({ ...one, traceId: inOrder })),
        );
        const other = order.map((id) => list.find((one) => one.id === id) ?? anObservation());
        for (let from = 0; from < other.length; from += size) {
          const some = other.slice(from, from + size);
          await write(
            store,
            some.map((one) => ({ ...one, traceId: shuffled })),
          );
        }
        const [first, second] = [await traceOf(store, inOrder), await traceOf(store, shuffled)];
        t.same({ ...second, id: '' }, { ...first, id: '' });
      }),
      { numRuns: 25 },
    );
  });
}
