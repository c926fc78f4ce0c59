import fc from 'fast-check';
import type { Test } from 'tap';
import type { ObservationBatch, SealedBatch } from '../../src/model/batch.ts';
import { observe } from '../../src/model/formats.ts';
import { withinLimits } from '../../src/model/narrow-limits.ts';
import type { Instant, Observation } from '../../src/model/observation.ts';
import { HOUR } from '../../src/store/rollups/fold.ts';
import type { Store } from '../../src/store/store.ts';
import { anObservation, aTenant, rawBatch } from '../helper/batches.ts';
import type { FakeClock } from '../helper/clock.ts';
import { aQuery } from '../helper/query.ts';
import { recount, rollups } from './rollup-oracle.ts';

type OpenForCopies = (t: Test) => Promise<{
  readonly clock: FakeClock;
  readonly store: Store;
  finish(): Promise<void>;
}>;

const T0 = Date.UTC(2026, 0, 15, 12);
const HOURS = { from: T0 / 3_600_000 - 24, to: T0 / 3_600_000 + 24 };
const BY = { actor: 'admin-token', address: null };

/** An instant so many nanoseconds after T0. */
function after(ns: number): Instant {
  const ms = Math.floor(ns / 1e6);
  return { ms: T0 + ms, ns: ns - ms * 1e6 };
}

/** A run, and what the client makes of it. */
type Run = {
  readonly name: string;
  readonly startMicros: number;
  readonly parent: number;
  /** How far the start of the span is off, in nanoseconds. */
  readonly drift: number;
  /** One event for the whole run, or two; the fields that the second event repeats. */
  readonly form: 'whole' | 'two' | 'bare update' | 'update without a trace';
};

type Item = { readonly format: 'runs' | 'otlp_proto'; readonly observation: Observation };

const NO_FIELDS = { name: null, startTime: null, kind: null } as const;

function itemsOf(runs: readonly Run[], hasOwnSpan: boolean): Item[] {
  const items = runs.flatMap((run, i): Item[] => {
    const parentId = i === 0 ? null : `run-${run.parent % i}`;
    const [startTime, endTime] = [
      after(run.startMicros * 1000),
      after(run.startMicros * 1000 + 5e8),
    ];
    const base = { id: `run-${i}`, traceId: 'run-0', parentId, name: run.name, startTime };
    const whole = anObservation({ ...base, endTime, usage: { input_tokens: i }, sentTwice: true });
    const begin = { operation: 'start', status: 'running', ended: false, endTime: null } as const;
    const start = anObservation({ ...base, ...begin, sentTwice: true });
    const update = anObservation({ ...base, endTime, usage: { input_tokens: i }, sentTwice: true });
    const { sentTwice: _, ...bare } = { ...update, ...NO_FIELDS };
    const events = {
      whole: [whole],
      two: [start, update],
      'bare update': [start, bare],
      'update without a trace': [start, { ...bare, traceId: null, parentId: null }],
    }[run.form];
    return [
      ...events.map((observation) => ({ format: 'runs', observation }) as const),
      { format: 'otlp_proto', observation: spanOf(run, i, runs.length > 4 ? i % 2 : 0) },
    ];
  });
  const own = spanOf({ ...(runs[0] as Run), name: 'own' }, 100, 0);
  const { sentTwice: _, ...unmarked } = own;
  return hasOwnSpan ? [...items, { format: 'otlp_proto', observation: unmarked }] : items;
}

function spanOf(run: Run, i: number, trace: number): Observation {
  const traceId = `${trace}`.repeat(32);
  const ns = run.startMicros * 1000;
  return anObservation({
    ...{ id: `${traceId}:${`${i}`.padStart(16, '0')}`, traceId, name: run.name, sentTwice: true },
    ...{ startTime: after(ns + run.drift), endTime: after(ns + run.drift + 5e8) },
    usage: { input_tokens: i },
  });
}

function aRun(): fc.Arbitrary<Run> {
  return fc.record({
    name: fc.constantFrom('call', 'loop'),
    startMicros: fc.constantFrom(1_000_000, 1_000_001, 2_000_000),
    parent: fc.nat({ max: 7 }),
    drift: fc.constantFrom(0, -247, 247),
    form: fc.constantFrom('whole', 'two', 'bare update', 'update without a trace'),
  });
}

/** Splits items into batches of one format. */
function batchesOf(items: readonly Item[], size: number, projectId: string): ObservationBatch[] {
  const batches: ObservationBatch[] = [];
  let rest = items;
  for (;;) {
    const format = rest[0]?.format;
    if (format === undefined) return batches;
    const change = rest.findIndex((item) => item.format !== format);
    const count = Math.min(size, change === -1 ? rest.length : change);
    const observations = rest.slice(0, count).map(({ observation }, index) => ({
      ...observation,
      index,
    }));
    const tenant = aTenant({ projectId });
    const source = rawBatch(format, Buffer.from('{}'), count, { tenant, receivedAt: T0 });
    batches.push({ kind: 'observations', source, observations });
    rest = rest.slice(count);
  }
}

type Tree = Record<string, readonly string[]>;

/** The observations of each trace, with their parents. */
async function treesOf(store: Store, project: string): Promise<Tree> {
  const trees: Record<string, readonly string[]> = {};
  const { items } = await store.traces.listTraces(project, { limit: 100 });
  for (const { id, observationCount } of items) {
    const page = await store.traces.listObservations(project, id, { limit: 100 });
    trees[id] = page.items.map((one) => `${one.parentId} ${one.id} ${one.status}`).sort();
    if (page.items.length !== observationCount) throw new Error(`${id} counts wrongly`);
  }
  return trees;
}

/** The rules for runs that a client sends as spans too. */
export function copies(t: Test, open: OpenForCopies): void {
  t.test('any order and split of runs and their spans gives the runs', async (t) => {
    const { store, finish } = await open(t);
    let n = 0;
    const sample = fc.record({
      runs: fc.array(aRun(), { minLength: 1, maxLength: 7 }),
      hasOwnSpan: fc.boolean(),
      size: fc.integer({ min: 1, max: 6 }),
      repeats: fc.boolean(),
      isConcurrent: fc.boolean(),
      seed: fc.infiniteStream(fc.nat()),
    });
    await fc.assert(
      fc.asyncProperty(sample, async ({ runs, hasOwnSpan, size, repeats, isConcurrent, seed }) => {
        const items = itemsOf(runs, hasOwnSpan);
        const shuffled = items
          .map((item) => ({ item, rank: seed.next().value as number }))
          .sort((a, b) => a.rank - b.rank)
          .map(({ item }) => item);
        const [project, expected] = [`proj_a${++n}`, `proj_b${n}`];
        const batches = batchesOf(shuffled, size, project);
        const all = repeats ? [...batches, ...batches] : batches;
        if (isConcurrent) await Promise.all(all.map((batch) => store.traces.write(batch)));
        else for (const batch of all) await store.traces.write(batch);
        const alone = items.filter(
          ({ format, observation }) => format === 'runs' || observation.sentTwice !== true,
        );
        for (const batch of batchesOf(alone, size, expected)) await store.traces.write(batch);
        const found = await treesOf(store, project);
        if (!t.same(found, await treesOf(store, expected))) throw new Error('other trees');
        const counted = await recount(store, project, HOUR);
        const sums = await rollups(store, project, HOURS, HOUR);
        if (!t.same(sums, counted, 'rollups equal a recount')) throw new Error('other rollups');
        if (!t.same(counted, await recount(store, expected, HOUR))) throw new Error('other sums');
      }),
      { numRuns: 25, endOnFailure: true },
    );
    await finish();
  });

  t.test('a span stays while its run has not ended, and is gone afterwards', async (t) => {
    const { store } = await open(t);
    const project = 'proj_c';
    const run: Run = { name: 'a', startMicros: 1, parent: 0, drift: 0, form: 'two' };
    const [start, end, span] = itemsOf([run], false) as [Item, Item, Item];
    const write = async (...items: Item[]): Promise<string[]> => {
      for (const batch of batchesOf(items, 9, project)) await store.traces.write(batch);
      return Object.keys(await treesOf(store, project)).sort();
    };
    const heard: string[][] = [];
    const unwatch = store.changes.watch(project, (ids) => heard.push([...ids].sort()));
    const spans = '0'.repeat(32);
    t.same(await write(span), [spans]);
    t.same(await write(start), [spans, 'run-0'], 'the end may be lost');
    heard.splice(0);
    t.same(await write(end), ['run-0']);
    t.same(heard.splice(0), [['run-0']]);
    t.same(await write(span), ['run-0'], 'also if it arrives again');
    t.same(heard, [], 'which changes no trace');
    unwatch();
    await store.traces.write({ ...(batchesOf([span], 9, 'proj_d')[0] as ObservationBatch) });
    t.same(Object.keys(await treesOf(store, 'proj_d')), [spans], 'another project keeps its span');
  });

  t.test('a span of another name, start or mark is no copy', async (t) => {
    const { store } = await open(t);
    const run: Run = { name: 'a', startMicros: 1, parent: 0, drift: 0, form: 'whole' };
    const [whole] = itemsOf([run], false) as [Item];
    const { sentTwice: _, ...unmarked } = spanOf(run, 3, 3);
    const others = [
      spanOf({ ...run, name: 'b' }, 1, 1),
      spanOf({ ...run, startMicros: 2 }, 2, 2),
      unmarked,
    ].map((observation): Item => ({ format: 'otlp_proto', observation }));
    for (const items of [
      [whole, ...others],
      [...others, whole],
    ]) {
      const project = items[0] === whole ? 'proj_e' : 'proj_f';
      for (const batch of batchesOf(items, 1, project)) await store.traces.write(batch);
      t.equal(Object.keys(await treesOf(store, project)).length, 4);
    }
  });

  t.test('an erasure of a run reaches the spans that repeat it, in any order', async (t) => {
    const { store, finish, clock } = await open(t);
    const [{ id: projectId } = { id: '' }] = await store.projects.list();
    for (const order of ['run first', 'span first', 'span in a queue', 'long name']) {
      const [run, spans] = realBatches(projectId, clock.now(), order);
      const queue = await store.openQueue({ name: order, branches: ['x'], maxBytes: 1e9 });
      if (order === 'span first') await store.traces.write(spans);
      await store.traces.write(run);
      if (order === 'run first' || order === 'long name') await store.traces.write(spans);
      if (order === 'span in a queue') await queue.append(spans.source);
      const ids = [run.source.id, spans.source.id];
      clock.set(clock.now() + 1000);
      const query = aQuery(`id:"run of ${order}"`);
      const { id } = await store.erasures.request(projectId, { query, isDryRun: false }, BY);
      await finish();
      t.match(await store.erasures.get(projectId, id), { state: 'done', traces: 1 }, order);
      const waiting = await queue.lease('x', 10, 1e9);
      const batches = [
        ...(await store.traces.getBatches(projectId, ids)),
        ...waiting.map(({ batch }) => batch),
      ];
      t.same(new Set(batches.map((batch) => batch.id)), new Set([spans.source.id]));
      const bodies = batches.map(({ body }) => body.toString()).join();
      t.notMatch(bodies, 'canary', order);
      t.match(bodies, 'kept', order);
      const { items } = await store.traces.listTraces(projectId, { limit: 100 });
      t.notMatch(
        items.map((trace) => trace.id),
        [`run of ${order}`],
      );
    }
  });

  t.test('a batch of copies goes with the trace of its run', async (t) => {
    const { store, finish, clock } = await open(t);
    const [{ id: projectId } = { id: '' }] = await store.projects.list();
    const [run, spans] = realBatches(projectId, clock.now(), 'x', false);
    await store.traces.write(run);
    await store.traces.write(spans);
    await finish();
    const ids = [run.source.id, spans.source.id];
    t.equal((await store.traces.getBatches(projectId, ids)).length, 2);
    await store.projects.update(projectId, { retentionDays: 1 });
    clock.set(clock.now() + 3 * 86_400_000);
    await finish();
    t.same(await store.traces.getBatches(projectId, ids), []);
  });
}

/** A request with a run, and one with its span and another span. */
function realBatches(
  projectId: string,
  receivedAt: number,
  name: string,
  hasOther = true,
): [run: ObservationBatch, spans: ObservationBatch] {
  const tenant = aTenant({ projectId });
  const id = `run of ${name}`;
  const runName = name === 'long name' ? 'é'.repeat(5000) : name;
  const environment = { LANGSMITH_OTEL_ENABLED: 'true' };
  const run = {
    ...{ id, trace_id: id, name: runName, run_type: 'chain', inputs: { a: 'canary' } },
    ...{ start_time: '2026-01-15T12:00:00.000001Z', end_time: '2026-01-15T12:00:01Z' },
    extra: { metadata: environment },
  };
  const span = (spanName: string, spanId: string, text: string) => ({
    ...{ traceId: Buffer.from(name.padEnd(16)).subarray(0, 16).toString('hex'), spanId },
    ...{ name: spanName, startTimeUnixNano: `${T0}000752`, endTimeUnixNano: `${T0}999999` },
    attributes: Object.entries({
      'gen_ai.prompt': text,
      'langsmith.metadata.LANGSMITH_OTEL_ENABLED': 'true',
    }).map(([key, stringValue]) => ({ key, value: { stringValue } })),
  });
  const spans = [span(runName, '1'.repeat(16), 'canary')];
  if (hasOther) spans.push(span('other', '2'.repeat(16), 'kept'));
  const otlp = { resourceSpans: [{ scopeSpans: [{ scope: { name: 'langsmith' }, spans }] }] };
  const more = { tenant, receivedAt };
  const sources = [
    rawBatch('runs', Buffer.from(JSON.stringify({ post: [run] })), 1, more),
    rawBatch('otlp_json', Buffer.from(JSON.stringify(otlp)), spans.length, more),
  ] as const;
  const [first, second] = sources;
  return [observed(first), observed(second)];
}

function observed(source: SealedBatch): ObservationBatch {
  return { kind: 'observations', source, observations: observe(source).map(withinLimits) };
}
