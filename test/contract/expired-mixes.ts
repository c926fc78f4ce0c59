import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import type { Test } from 'tap';
import type { Format, SealedBatch } from '../../src/model/batch.ts';
import { observe, placeInBody, sourceEvent } from '../../src/model/formats.ts';
import { ulid } from '../../src/model/ulid.ts';
import type { EventRef, Store } from '../../src/store/store.ts';
import type { TestSpan } from '../helper/batches.ts';
import { aTenant, nativeEvent, otlpJsonBody, otlpProtoBody, rawBatch } from '../helper/batches.ts';
import { aQuery } from '../helper/query.ts';
import type { OpenForErasures } from './erasures.ts';

const DAY_MS = 86_400_000;
const T0 = Date.UTC(2026, 0, 15, 12);
const DAYS = 12;
const BY = { actor: 'admin-token', address: null };
/** Ids of native traces and of runs: short ones, long ones, and such as look like other keys. */
const NAMES = ['a', 'b\\c', ':colon', 'é\u{1f600}', 'x'.repeat(70), '\\x41', '%', 'root'];

type Item = {
  /** The index of its trace in `NAMES`; it does not name the trace in every form. */
  readonly trace: number;
  readonly own: number;
  readonly form: 'named' | 'ordered' | 'child' | 'update' | 'twice';
};
type Mix = { readonly format: Format; readonly isGzip: boolean; readonly items: readonly Item[] };

const items = fc.array(
  fc.record({
    trace: fc.nat(NAMES.length - 1),
    own: fc.nat(2),
    form: fc.constantFrom<Item['form']>('named', 'ordered', 'child', 'update', 'twice'),
  }),
  { minLength: 2, maxLength: 6 },
);
const mixes = fc.record({
  format: fc.constantFrom<Format>('native', 'runs', 'runs', 'otlp_proto', 'otlp_json'),
  isGzip: fc.boolean(),
  items,
});

/** Every text in the batch is of its item alone. */
function batchOf({ format, isGzip, items }: Mix, projectId: string, at: number): SealedBatch {
  const body = bodyOf(format, items, at);
  const encoding = isGzip ? 'gzip' : 'identity';
  const tenant = aTenant({ projectId });
  return rawBatch(format, isGzip ? gzipSync(body) : body, items.length, {
    ...{ id: ulid(at), tenant, receivedAt: at, encoding },
  });
}

function bodyOf(format: Format, items: readonly Item[], at: number): Buffer {
  if (format === 'native') return json({ events: items.map((item, i) => eventOf(item, at + i)) });
  if (format === 'runs') {
    const isPost = ({ form }: Item) => form !== 'update';
    const [post, patch] = [items.filter(isPost), items.filter((item) => !isPost(item))];
    const runs = (list: readonly Item[], from: number) =>
      list.map((item, i) => runOf(item, at + from + i));
    return json({ post: runs(post, 0), patch: runs(patch, post.length) });
  }
  const spans = items.map((item, i) => spanOf(item, at + i));
  const own = { 'service.name': 'mixed' };
  // A client of LangSmith sends some spans as runs too.
  return format === 'otlp_proto'
    ? otlpProtoBody(spans, own)
    : Buffer.from(otlpJsonBody(spans, own).toString().replace('test-scope', 'langsmith'));
}

function json(body: object): Buffer {
  return Buffer.from(JSON.stringify(body));
}

/** Some ids are those of observations of other traces too. */
function eventOf({ trace, own, form }: Item, text: number): object {
  const name = NAMES[trace] ?? '';
  const id = form === 'update' ? `${own}` : `${own} of ${trace}`;
  return nativeEvent({ id, trace_id: name, inputs: `input ${text}` });
}

/** The start that a run and its span have in common. */
const startOf = ({ trace, own }: Item): number => T0 + trace * 1000 + own;

function runOf(item: Item, text: number): object {
  const { trace, own, form } = item;
  const name = NAMES[trace] ?? '';
  const id = own === 0 ? name : `${name.slice(0, 20)} run ${own}`;
  const time = new Date(startOf(item)).toISOString();
  const run = {
    ...{ id, name: `run ${trace} ${own}`, run_type: 'chain', start_time: time },
    inputs: { text: `input ${text}` },
  };
  if (form === 'update') return { id, end_time: time, outputs: { text: `output ${text}` } };
  if (form === 'child') return { ...run, ...(own === 0 ? {} : { parent_run_id: name }) };
  if (form === 'ordered') {
    const order = `20260115T120000000000Z${name}`;
    const isRoot = own === 0;
    return { ...run, dotted_order: isRoot ? order : `${order}.20260115T120000000000Z${id}` };
  }
  if (form === 'named') return { ...run, trace_id: name };
  const metadata = { LANGSMITH_TRACING_MODE: 'hybrid' };
  return { ...run, trace_id: name, end_time: time, extra: { metadata } };
}

function spanOf(item: Item, text: number): TestSpan {
  const { trace, own, form } = item;
  const start = BigInt(startOf(item)) * 1_000_000n;
  const mode = { 'langsmith.metadata.LANGSMITH_TRACING_MODE': 'hybrid' };
  return {
    ...{ traceId: `${trace + 1}`.repeat(32), spanId: `${own + 1}`.repeat(16) },
    ...{ name: `run ${trace} ${own}`, startNano: start, endNano: start },
    attributes: { 'input.value': `input ${text}`, ...(form === 'twice' ? mode : {}) },
  };
}

/** The rows of each trace as readers find them, with the events that the rows have their fields from, as they were sent. */
async function readAll(store: Store, project: string): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  const { items } = await store.traces.listTraces(project, { limit: 100 });
  for (const { id } of items) {
    const { items: sources } = await store.traces.listSources(project, id, { limit: 100 });
    const events = sources.flatMap(({ events }) => events);
    const ids = [...new Set(events.map(({ batchId }) => batchId))];
    const batches = await store.traces.getBatches(project, ids);
    const byId = new Map(batches.map((batch) => [batch.id, batch]));
    const read = ({ batchId, position }: EventRef): string => {
      const batch = byId.get(batchId);
      const place = batch && placeInBody(batch, position);
      return batch === undefined || place === undefined ? 'gone' : sourceEvent(batch, place);
    };
    found.set(id, JSON.stringify(sources.map((each) => [each, each.events.map(read)])));
  }
  return found;
}

/** A batch of a trace that expires and of one that gets an event each day. */
const SHARED: Mix = {
  ...{ format: 'native', isGzip: false },
  items: [0, NAMES.length - 1].map((trace) => ({ trace, own: 7, form: 'named' })),
};

/** The batches of a day. They are about few traces, so that others expire. */
function batchesOf(list: readonly Mix[], day: number): Mix[] {
  const moved = (trace: number) => (trace % 3) + (Math.floor(day / 2) % 5);
  const mixed = list.map((mix) => ({
    ...mix,
    items: mix.items.map((item) => ({ ...item, trace: moved(item.trace) })),
  }));
  const lasting = SHARED.items.slice(day === 0 ? 0 : 1);
  return [...mixed, { ...SHARED, items: lasting }];
}

/** The rules for batches of any format that kept traces share with expired ones. */
export function expiredMixes(t: Test, open: OpenForErasures): void {
  t.test('whatever expires, readers find kept traces as before', async (t) => {
    const [seed = 0] = fc.sample(fc.integer(), 1);
    t.comment(`seed ${seed}`);
    const days = fc.sample(fc.array(mixes, { minLength: 1, maxLength: 4 }), {
      ...{ seed, numRuns: DAYS },
    });
    const { store, clock, finish } = await open(t);
    const [{ id: project } = { id: '' }] = await store.projects.list();
    await store.projects.update(project, { retentionDays: 3 });
    const sent: string[] = [];
    for (const [day, list] of days.entries()) {
      for (const mix of batchesOf(list, day)) {
        const source = batchOf(mix, project, clock.now());
        await store.traces.write({ kind: 'observations', source, observations: observe(source) });
        sent.push(source.id);
        clock.set(clock.now() + 1000);
      }
      const before = await readAll(store, project);
      if (day % 4 === 3) {
        const query = aQuery('user:nobody');
        await store.erasures.request(project, { query, isDryRun: false }, BY);
      }
      await finish();
      const after = await readAll(store, project);
      for (const [id, text] of after) t.equal(text, before.get(id), `trace ${id}`);
      t.notMatch([...after.values()].join(), '"gone"');
      clock.set(clock.now() + DAY_MS);
    }
    const batches = await store.traces.getBatches(project, sent);
    t.ok(
      batches.some(({ gaps }) => gaps !== undefined),
      'items were cut out',
    );
  });
}
