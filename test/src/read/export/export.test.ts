import t, { type Test } from 'tap';
import { RetryableError } from '../../../../src/model/errors.ts';
import { END_MS } from '../../../../src/read/giving-way.ts';
import { observationJson, traceJson } from '../../../../src/store/observation-json.ts';
import type { StoredObservation, StoredTrace, TraceStore } from '../../../../src/store/store.ts';
import { aTenant, nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { anObservation, aTrace, fakeTraces } from '../../../helper/fake-traces.ts';
import { until } from '../../../helper/until.ts';
import { exporting, linesOf, madeLines, read } from './rig.ts';

const TRACES = 1_203;
const START = Date.UTC(2026, 0, 15);

/** Traces with 0 to 4 observations, and one in the middle that has more than a step. */
function held(traces = TRACES) {
  const all: StoredTrace[] = [];
  const observations: StoredObservation[] = [];
  for (let i = 0; i < traces; i++) {
    const id = `trace-${i}`;
    const count = i === 17 ? 1_234 : i % 5;
    all.push(aTrace({ id, observationCount: count, startTime: { ms: START - i, ns: 0 } }));
    for (let j = 0; j < count; j++) observations.push(anObservation({ traceId: id, id: `o-${j}` }));
  }
  return { traces: all, observations };
}

t.test(
  'exports every trace and observation as JSON lines in the shapes of the lists',
  async (t) => {
    const data = held();
    const { get, listeners } = await exporting(t, data);
    const traces = await get();
    t.match(traces, { status: 200, type: 'application/x-ndjson', isComplete: true, isWhole: true });
    t.equal(traces.text, data.traces.map((each) => `${traceJson(each)}\n`).join(''));
    t.same([traces.rows, traces.next, traces.error], [TRACES, undefined, undefined]);
    const observations = await get({ of: 'observations' });
    const expected = data.observations.map((each) => `${observationJson(each, undefined)}\n`);
    t.equal(observations.text, expected.join(''));
    t.equal(observations.rows, data.observations.length);
    await until(() => listeners.reads.heldBytes === 0 && listeners.reads.exports.taken === 0);
  },
);

t.test('goes on from the token of a part that ended, whatever its size', async (t) => {
  const data = held(60);
  const made = await exporting(t, data);
  const lines = await exporting(t, data, { traces: madeLines(data) });
  for (const [what, get] of [
    ['traces', made.get],
    ['observations', made.get],
    ['observations', lines.get],
  ] as const) {
    const whole = await made.get({ of: what });
    for (const part of [{ limit: '1' }, { limit: '7' }, { limit: '500' }, { max_bytes: '9000' }]) {
      let text = '';
      let after: string | undefined;
      let rows = 0;
      do {
        const some = await get({ of: what, ...part, ...(after === undefined ? {} : { after }) });
        if (part.limit !== undefined) t.ok(some.rows <= Number(part.limit));
        t.equal(some.isComplete, some.next === undefined);
        text += some.text;
        rows += some.rows;
        after = some.next;
        if (what === 'observations' && part.limit === '1' && rows > 100) break;
      } while (after !== undefined);
      t.ok(text === whole.text || rows === 101, `${what} ${JSON.stringify(part)}`);
      t.ok(whole.text.startsWith(text));
    }
  }
});

t.test('an answer that is cut anywhere goes on from its last complete row', async (t) => {
  const data = held(300);
  const rows = await exporting(t, data);
  const lines = await exporting(t, data, { traces: madeLines(data) });
  for (const [what, { get, cut }] of [
    ['traces', rows],
    ['observations', rows],
    ['observations', lines],
  ] as const) {
    const whole = await get({ of: what });
    for (let round = 0; round < 12; round++) {
      let text = '';
      let row: Record<string, unknown> | undefined;
      for (;;) {
        const after = row === undefined ? {} : { after: JSON.stringify(keyOf(row, what)) };
        const bytes = 1 + Math.floor(Math.random() * whole.bytes.length * 0.7);
        const some = await cut({ of: what, ...after }, bytes);
        t.equal(some.status, 200);
        const complete = some.text.slice(0, some.text.lastIndexOf('\n') + 1);
        text += complete;
        row = linesOf(complete).at(-1) ?? row;
        if (some.isComplete || text.length >= whole.text.length) break;
      }
      t.ok(text === whole.text, `${what}: no gap and no double`);
    }
  }
});

function keyOf({ id, trace_id }: Record<string, unknown>, of: string) {
  return of === 'traces' ? { id } : { id, trace_id };
}

t.test('an export that the store ends says where, and goes on', async (t) => {
  const data = held(40);
  const usual = fakeTraces(() => 'proj_test', data);
  let calls = 0;
  const { get } = await exporting(t, data, {
    traces: {
      async listObservations(...asked) {
        if (++calls === 2) throw new RetryableError('storage_failed', 'away');
        return (
          usual.listObservations?.(...asked) ?? { items: [], nextCursor: null, cursorAfter: String }
        );
      },
    },
  });
  const broken = await get({ of: 'observations' });
  t.match(broken, { status: 200, isWhole: true, isComplete: false, error: 'storage_failed' });
  t.ok(broken.rows > 400);
  const rest = await get({ of: 'observations', after: broken.next ?? '' });
  t.equal(rest.isComplete, true);
  t.equal(broken.rows + rest.rows, data.observations.length);
  t.equal(linesOf(broken.text + rest.text).length, data.observations.length);
});

t.test('a store that fails before the first row is an error', async (t) => {
  const { get, listeners } = await exporting(t, held(1), {
    traces: {
      listTraces: async () => {
        throw new RetryableError('storage_failed', 'away');
      },
    },
  });
  t.match(await get(), { status: 503 });
  t.match(await get({ format: 'csv' }), { status: 503 });
  t.equal(listeners.reads.exports.taken, 0);
});

t.test('cuts payloads out of batches, as they are or as texts', async (t) => {
  const batch = nativeBatch(1);
  const payload = { inputs: { batchId: batch.id, position: 0 } };
  const data = {
    traces: [aTrace()],
    observations: [anObservation({ payload })],
    batches: [batch],
  };
  const { get } = await exporting(t, data);
  const [plain = {}] = linesOf((await get({ of: 'observations' })).text);
  t.notOk('inputs' in plain);
  const [whole = {}] = linesOf((await get({ of: 'observations', payloads: 'true' })).text);
  t.match(whole, { inputs: { messages: [{ content: 'hello' }] }, outputs: null });
  const [texts = {}] = linesOf((await get({ of: 'observations', payloads: 'text' })).text);
  t.same(JSON.parse(String(texts.inputs)), whole.inputs);
  t.equal(texts.outputs, null);
  t.same({ ...texts, inputs: 0 }, { ...whole, inputs: 0 });
});

t.test('has the members that are asked for, and those that name a row', async (t) => {
  const { get } = await exporting(t, { traces: [aTrace()], observations: [anObservation()] });
  const [row] = linesOf((await get({ fields: 'cost,name' })).text);
  const cost = { input: null, output: 2e-9, total: 0.005, currency: 'USD' };
  t.same(row, { id: 'trace-1', name: 'chat', cost });
  t.same(linesOf((await get({ of: 'observations', fields: 'custom_fields' })).text), [
    { trace_id: 'trace-1', id: 'o-1', custom_fields: {} },
  ]);
});

t.test('refuses what it cannot export', async (t) => {
  const { get } = await exporting(t, { traces: [aTrace()], observations: [anObservation()] });
  for (const [parameters, code, named] of [
    [{ format: 'xml' }, 'invalid_request', 'must be one of jsonl, csv'],
    [{ of: 'spans' }, 'invalid_request', 'of must be one of'],
    [{ payloads: 'true' }, 'invalid_request', 'of=observations'],
    [{ fields: 'nmae' }, 'invalid_request', 'did you mean \\"name\\"?'],
    [{ fields: 'inputs', of: 'observations' }, 'invalid_request', 'unknown field'],
    [{ limit: '0' }, 'invalid_request', 'limit'],
    [{ max_bytes: '1.5' }, 'invalid_request', 'max_bytes'],
    [{ q: 'modle:x' }, 'invalid_query', 'model'],
    [{ status: 'error' }, 'invalid_request', 'status'],
    [{ after: 'x' }, 'invalid_cursor', 'cursor'],
    [{ after: '{' }, 'invalid_cursor', 'JSON'],
    [{ after: '{"id":1}' }, 'invalid_cursor', 'must have id'],
    [{ after: '{"id":"gone"}' }, 'invalid_cursor', 'not stored'],
    [{ after: '{"id":"o-1"}', of: 'observations' }, 'invalid_cursor', 'trace_id and id'],
  ] as [Record<string, string>, string, string][]) {
    const { status, text } = await get(parameters);
    t.equal(status, 400, JSON.stringify(parameters));
    t.match(text, `"${code}"`);
    t.ok(text.includes(named), text);
  }
});

t.test('a token of another query or of other rows is refused', async (t) => {
  const { get } = await exporting(t, held(5));
  const { next = '' } = await get({ limit: '1' });
  t.equal((await get({ limit: '1', after: next })).status, 200);
  t.equal((await get({ q: 'name:chat', after: next })).status, 400);
  t.equal((await get({ of: 'observations', after: next })).status, 400);
});

/** A list of traces without an end. */
function endless(onStep: () => unknown = () => {}) {
  const data = held();
  const usual = fakeTraces(() => 'proj_test', data);
  const listTraces: TraceStore['listTraces'] = async (projectId, filter) => {
    await onStep();
    const page = await usual.listTraces?.(projectId, { ...filter, cursor: '0' });
    if (page === undefined) throw new Error('the store has no list');
    return { ...page, nextCursor: String(Number(filter.cursor ?? 0) + 1) };
  };
  return { data, options: { traces: { listTraces } } };
}

t.test('bounds the exports of a key and of a project', async (t) => {
  for (const [limits, status] of [
    [{ exports_per_key: 1 }, 429],
    [{ concurrent_exports: 2 }, 429],
  ] as const) {
    const { data, options } = endless();
    const { get, open, listeners } = await exporting(t, data, { ...options, limits });
    const slow = await open({});
    t.equal((await get({ limit: '1' })).status, status);
    slow.destroy();
    await until(() => listeners.reads.exports.taken === 0);
    t.equal((await get({ limit: '1' })).status, 200);
  }
});

/** Two exports of an endless list hold all places, and one of another project begins. */
async function givingWay(t: Test, format: string, onStep?: () => Promise<void>) {
  const { data, options } = endless(onStep);
  const clock = fakeClock();
  const limits = { concurrent_exports: 3, exports_per_key: 2 };
  const made = await exporting(t, data, { ...options, clock, limits });
  const { exports } = made.listeners.reads;
  const begin = async () => {
    const before = exports.taken;
    const answer = made.open({ format });
    await until(() => exports.taken > before);
    return answer;
  };
  return { ...made, clock, exports, begin };
}

for (const format of ['jsonl', 'csv', 'parquet']) {
  t.test(`an export as ${format} ends for one of a project within its share`, async (t) => {
    const { exports, begin, get } = await givingWay(t, format);
    exports.take(aTenant({ projectId: 'one', keyId: 'k1' }));
    const [first, last] = [await begin(), await begin()];
    exports.take(aTenant({ projectId: 'two', keyId: 'k2' }));
    const ended = await read(last);
    t.match(ended, { isWhole: true, isComplete: false, error: undefined, next: String });
    t.equal(first.complete, false, 'the other one is within the share');
    first.destroy();
    await until(() => exports.taken === 2);
    const rest = await get({ format, limit: '1', after: ended.next ?? '' });
    t.match(rest, { status: 200, rows: 1 });
  });
}

t.test('an export whose client does not read is cut for another project', async (t) => {
  const { exports, begin, clock } = await givingWay(t, 'jsonl');
  exports.take(aTenant({ projectId: 'one', keyId: 'k1' }));
  const [first, last] = [await begin(), await begin()];
  exports.take(aTenant({ projectId: 'two', keyId: 'k2' }));
  // It may not wait for its client yet at the first look.
  clock.advance(END_MS);
  clock.advance(END_MS);
  await until(() => exports.taken === 3);
  t.equal((await read(last)).isWhole, false);
  first.destroy();
});

t.test('an export that waits for the store is not cut for another project', async (t) => {
  const held = Promise.withResolvers<void>();
  let isHeld = false;
  const onStep = async () => (isHeld ? held.promise : undefined);
  const { exports, begin, clock, open } = await givingWay(t, 'jsonl', onStep);
  exports.take(aTenant({ projectId: 'one', keyId: 'k1' }));
  const first = await begin();
  isHeld = true;
  const last = open({ format: 'jsonl' });
  await until(() => exports.taken === 3);
  exports.take(aTenant({ projectId: 'two', keyId: 'k2' }));
  for (let i = 0; i < 3; i++) clock.advance(END_MS);
  held.resolve();
  t.match(await read(await last), { isWhole: true, isComplete: false, next: String });
  first.destroy();
});

t.test('does not read ahead of a client that does not read', async (t) => {
  let steps = 0;
  const { data, options } = endless(() => steps++);
  const { open, listeners } = await exporting(t, data, options);
  const answer = await open({});
  let last = -1;
  await until(() => {
    const isStill = steps === last;
    last = steps;
    return isStill && steps > 1;
  });
  t.ok(steps < 200, `${steps} steps`);
  t.equal(listeners.reads.exports.taken, 1);
  answer.destroy();
  await until(() => listeners.reads.exports.taken === 0 && listeners.reads.heldBytes === 0);
});
