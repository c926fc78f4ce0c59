import fc from 'fast-check';
import type { Test } from 'tap';
import type { Observation } from '../../src/model/observation.ts';
import { PRICED_ROWS, type PricedPlace, type PricedStep } from '../../src/store/pricing.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, nativeBatch, testProject as P } from '../helper/batches.ts';
import type { OpenForSummaries } from './summaries.ts';

const T0 = Date.UTC(2026, 0, 15, 12);
const range = () => ({ projectId: P, from: T0, to: T0 + 60_000 });
const MODULE = new URL('../helper/flat-pricing.ts', import.meta.url).href;
const CALL = { model: 'm', usage: { input_tokens: 10, output_tokens: 5 } };
const NONE = { model: null, usage: null, details: null };

/** Prices of test/helper/flat-pricing.ts: nanos of a token by model. */
function use(store: Store, prices: Readonly<Record<string, number>>): Promise<void> {
  return store.costs.usePricing({ module: MODULE, options: prices });
}

async function write(store: Store, list: readonly Partial<Observation>[]): Promise<void> {
  const startTime = { ms: T0, ns: 0 };
  const observations = list.map((more, index) => ({
    ...anObservation({ startTime, ...NONE, ...more }),
    index,
  }));
  const source = nativeBatch(list.length, { receivedAt: T0 });
  await store.traces.write({ kind: 'observations', source, observations });
}

async function costOf(store: Store, id = 'observation-1') {
  return (await store.traces.getObservation(P, id, 'trace-1'))?.details?.cost;
}

async function traceCost(store: Store, id = 'trace-1') {
  return (await store.traces.getTrace(P, id))?.cost;
}

const computed = (input: number, output: number) => ({
  ...{ input, output, total: input + output },
  source: 'computed' as const,
});

/** Prices a range again, step by step. */
async function priceAll(store: Store, isDryRun = false): Promise<PricedStep[]> {
  const steps: PricedStep[] = [];
  let place: PricedPlace | null = null;
  do {
    const step = await store.costs.priceAgain(range(), place, isDryRun);
    if (step === null) throw new Error('the store has no pricing');
    steps.push(step);
    place = step.next;
  } while (place !== null);
  return steps;
}

function sumOf(steps: readonly PricedStep[], name: 'observations' | 'changed'): number {
  return steps.reduce((sum, step) => sum + step[name], 0);
}

/** The rules for costs that a store computes. */
export function costs(t: Test, open: OpenForSummaries): void {
  t.test('prices an observation whose model and usage arrive in different events', async (t) => {
    const { store } = await open(t);
    await use(store, { m: 2 });
    await write(store, [{ model: 'm', operation: 'start', ended: false }]);
    t.equal(await costOf(store), undefined);
    await write(store, [{ usage: CALL.usage, version: '1' }]);
    t.same(await costOf(store), computed(20, 10));
    t.same(await traceCost(store), { input: 20, output: 10, total: 30 });
    await write(store, [{ usage: { input_tokens: 1, output_tokens: 1 }, version: '2' }]);
    t.same(await costOf(store), computed(2, 2), 'of the merged usage');
    await write(store, [{ model: 'unknown', version: '3' }]);
    t.equal(await costOf(store), undefined);
    t.equal(await traceCost(store), null);
  });

  t.test('a cost that a client sent wins against a computed one of any event', async (t) => {
    const { store } = await open(t);
    const sent = { input: null, output: null, total: 7, source: 'sent' as const };
    const events: Partial<Observation>[] = [
      { ...CALL, details: { cost: sent }, version: '1' },
      { ...CALL, details: { cost: computed(1, 1) }, version: '2' },
      { usage: { input_tokens: 1 }, version: '3' },
    ];
    await use(store, { m: 2 });
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(events, { minLength: 3 }),
        fc.uuid(),
        async (order, traceId) => {
          for (const event of order) await write(store, [{ ...event, traceId }]);
          const found = await store.traces.getObservation(P, 'observation-1', traceId);
          t.same(found?.details?.cost, sent);
        },
      ),
      { numRuns: 10 },
    );
  });

  t.test('gives the same cost in any order of arrival', async (t) => {
    const { store } = await open(t);
    await use(store, { m: 2, n: 3 });
    const events: Partial<Observation>[] = [
      { model: 'm', version: '1' },
      { usage: CALL.usage, version: '2' },
      { model: 'n', version: '3' },
      { ...CALL, details: { cost: computed(20, 10) }, version: '0' },
    ];
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray(events, { minLength: 4 }),
        fc.uuid(),
        async (order, traceId) => {
          for (const event of order) await write(store, [{ ...event, traceId }]);
          const found = await store.traces.getObservation(P, 'observation-1', traceId);
          t.same(found?.details?.cost, computed(30, 15));
          t.same(await traceCost(store, traceId), { input: 30, output: 15, total: 45 });
        },
      ),
      { numRuns: 10 },
    );
  });

  pricingAgain(t, open);
}

function pricingAgain(t: Test, open: OpenForSummaries): void {
  t.test('without prices nothing is priced again', async (t) => {
    const { store } = await open(t);
    t.equal(await store.costs.priceAgain(range(), null, false), null);
  });

  t.test('prices computed and unpriced observations again, once', async (t) => {
    const { store } = await open(t);
    const sent = { input: 1, output: 1, total: 2, source: 'sent' as const };
    await write(store, [
      { ...CALL, details: { cost: computed(10, 5), tags: ['a'] } },
      { ...CALL, id: 'unpriced' },
      { ...CALL, id: 'sent', details: { cost: sent } },
      { id: 'without a model', usage: CALL.usage },
      { ...CALL, id: 'gone', model: 'gone', details: { cost: computed(1, 1) } },
    ]);
    await use(store, { m: 3 });
    const change = { observations: 3, changed: 3, costBefore: 17, costAfter: 90 };
    t.match(await priceAll(store, true), [change], 'a dry run');
    t.same(await costOf(store), computed(10, 5), 'changes nothing');
    t.match(await priceAll(store), [change]);
    t.same(await costOf(store), computed(30, 15));
    const found = await store.traces.getObservation(P, 'observation-1', 'trace-1');
    t.same(found?.details?.tags, ['a']);
    t.same(await costOf(store, 'unpriced'), computed(30, 15));
    t.same(await costOf(store, 'sent'), sent);
    t.equal(await costOf(store, 'gone'), undefined);
    t.match(await traceCost(store), { total: 92 });
    t.match(await priceAll(store), [{ observations: 3, changed: 0 }], 'a repetition');
  });

  t.test('prices the traces that start in the range', async (t) => {
    const { store } = await open(t);
    const at = (ms: number) => ({ ...CALL, traceId: `at ${ms}`, startTime: { ms, ns: 0 } });
    const { from, to } = range();
    await write(store, [at(from - 1), at(from), at(to - 1), at(to)]);
    await use(store, { m: 1 });
    await priceAll(store);
    t.equal(await traceCost(store, `at ${from - 1}`), null);
    t.match(await traceCost(store, `at ${from}`), { total: 15 });
    t.match(await traceCost(store, `at ${to - 1}`), { total: 15 });
    t.equal(await traceCost(store, `at ${to}`), null);
  });

  t.test('prices large traces in parts, and many small ones in bounded steps', async (t) => {
    const { store, finish } = await open(t);
    const large = PRICED_ROWS + 1;
    await write(
      store,
      Array.from({ length: large }, (_, i) => ({ ...CALL, traceId: 'large', id: `call ${i}` })),
    );
    await write(
      store,
      Array.from({ length: PRICED_ROWS }, (_, i) => ({ ...CALL, traceId: `small ${i}` })),
    );
    await use(store, { m: 1 });
    const steps = await priceAll(store);
    t.equal(sumOf(steps, 'changed'), large + PRICED_ROWS);
    t.ok(steps.every(({ observations }) => observations < 2 * PRICED_ROWS));
    t.ok(steps.length >= 3);
    await finish();
    t.match(await traceCost(store, 'large'), { total: 15 * large });
    t.match(await traceCost(store, `small ${PRICED_ROWS - 1}`), { total: 15 });
  });
}
