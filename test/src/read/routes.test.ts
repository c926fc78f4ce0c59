import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { Pipeline } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { rawEventId } from '../../../src/model/batch.ts';
import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import { printQuery } from '../../../src/query/print.ts';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { STORE, type Store, type TraceFilter } from '../../../src/store/store.ts';
import type { ApiKey } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch, nativeEvent, rawBatch } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import { anObservation, aTrace, fakeTraces, type HeldTraces } from '../../helper/fake-traces.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';

/** Everything belongs to `proj_test`. */
function memoryStore(held: HeldTraces, filters: TraceFilter[] = []): Store {
  const traces = fakeTraces(() => 'proj_test', held, filters);
  const key: Partial<ApiKey> = { id: 'key_test', prefix: 'ws_12345678' };
  return {
    traces,
    projects: { get: async (id: string) => ({ id, name: 'Checkout' }) },
    keys: { list: async () => [key] },
  } as unknown as Store;
}

async function reading(
  t: Test,
  held: HeldTraces,
  more: {
    pipeline?: Partial<Pipeline>;
    filters?: TraceFilter[];
    limits?: Partial<ReadLimits>;
    clock?: FakeClock;
    /** In place of the store's listing of traces. */
    search?: Store['traces']['listTraces'];
  } = {},
) {
  const listeners = testListeners(undefined, more.clock, more.limits);
  const store = memoryStore(held, more.filters);
  if (more.search !== undefined) Object.assign(store.traces, { listTraces: more.search });
  const pipeline = sinkPipeline(createSink(), { offers: [offer(STORE, store)], ...more.pipeline });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  const get = async (path: string, signal: AbortSignal | null = null) => {
    const answered = await fetch(`${urlOf(listener)}/api/v1${path}`, { signal });
    const text = await answered.text();
    return { status: answered.status, text, json: JSON.parse(text) as Record<string, unknown> };
  };
  return { get, listeners };
}

const TRACE = aTrace();

/** A batch of one event whose text no parser and printer would leave as it is. */
const ODD_INPUTS = '{ "n":1.50, "big":12345678901234567890123, "n":2, "\\u0000":"\\ud800" }';
function oddBatch(encoding: 'identity' | 'gzip' = 'identity'): SealedBatch {
  const event = JSON.stringify(nativeEvent({ inputs: 'HERE' })).replace('"HERE"', ODD_INPUTS);
  const body = Buffer.from(`{"events":[${event}]}`);
  return rawBatch('native', encoding === 'gzip' ? gzipSync(body) : body, 1, { encoding });
}

t.test('lists traces by a filter', async (t) => {
  const filters: TraceFilter[] = [];
  const { get } = await reading(t, { traces: [TRACE] }, { filters });
  const { status, json } = await get('/traces');
  t.equal(status, 200);
  t.strictSame(json, {
    traces: [
      {
        id: 'trace-1',
        name: 'chat',
        status: 'success',
        state: 'running',
        start_time: '2026-01-15T00:00:00.000000001Z',
        end_time: null,
        ...{ latency_ms: null, ttft_ms: null, observation_count: 2, error_count: 0, models: [] },
        ...{ session_id: 's', user_id: null, key_id: 'key_1', source: 'otlp', environment: null },
        ...{ release: null, tags: ['a'], custom_fields: {}, usage: { input_tokens: 3 } },
        cost: { input: null, output: 2e-9, total: 0.005, currency: 'USD' },
        scores: {},
        input_preview: 'in',
        output_preview: null,
        clock_skew: false,
      },
    ],
    next_cursor: null,
    searched_to: null,
    partial: false,
  });
  await get(
    '/traces?limit=70&from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00%2B01:00' +
      '&status=error&kind=tool&name=a%20b&q=text+model:m',
  );
  const printed = filters.map(({ query, ...more }) => [query && printQuery(query), more]);
  t.strictSame(printed, [
    ['', { limit: 50, size: 512 }],
    [
      'text model:m start:>=2026-01-01T00:00:00.000Z start:<2026-01-31T23:00:00.000Z ' +
        'status:error kind:tool name:"a b"',
      { limit: 70, size: 512 },
    ],
  ]);
});

t.test('answers 400 to an invalid query parameter and names it', async (t) => {
  const { get } = await reading(t, { traces: [TRACE] });
  for (const [query, named] of [
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['from=yesterday', 'from must be an ISO 8601 time, such as 2026-11-03T00:00:00Z.'],
    ['from=2026-11-03', 'from must be an ISO 8601 time, such as'],
    ['to=2026-02-30T00:00:00Z', 'to'],
    ['status=fine', 'status'],
    ['kind=robot', 'kind'],
    ['session_id=s', 'Unknown query parameter "session_id"'],
    ['limits=1', 'did you mean "limit"?'],
  ] as const) {
    const { status, json } = await get(`/traces?${query}`);
    t.equal(status, 400, query);
    t.equal(json.code, 'invalid_request');
    t.match(String(json.message), named);
  }
  t.equal((await get('/traces/trace-1?payloads=maybe')).status, 400);
  for (const path of ['/traces/t?q=x', '/observations/o?limit=1', '/raw-events/r?x=', '/me?x=1']) {
    t.match(await get(path), { status: 400, json: { code: 'invalid_request' } }, path);
  }
});

t.test('a cursor belongs to its list', async (t) => {
  const traces = ['a', 'b', 'c'].map((id) => ({ ...TRACE, id }));
  const held = { traces, observations: [anObservation(), anObservation({ id: 'o-2' })] };
  const tenant = { projectId: 'proj_test' };
  const pipeline: Partial<Pipeline> = {
    admitRead: () => ({ tenant: aTenant(tenant), release() {} }),
  };
  const { get } = await reading(t, { ...held, traces: [...traces, TRACE] }, { pipeline });
  const first = await get('/traces?limit=1&q=model:m');
  const cursor = String(first.json.next_cursor);
  const second = await get(`/traces?limit=2&q=model%3Am&cursor=${cursor}`);
  t.match(second.json, { traces: [{ id: 'b' }, { id: 'c' }] });
  const observations = await get('/traces/trace-1?limit=1');
  const other = String(observations.json.next_cursor);
  t.match((await get(`/traces/trace-1?cursor=${other}`)).json, { observations: [{ id: 'o-2' }] });
  for (const path of [
    `/traces?limit=1&q=model:n&cursor=${cursor}`,
    `/traces?limit=1&cursor=${cursor}`,
    `/traces?q=model:m&cursor=0${cursor}`,
    `/traces?q=model:m&cursor=${cursor.replace('1.', '2.')}`,
    `/traces?q=model:m&cursor=${cursor}x`,
    '/traces?q=model:m&cursor=forged',
    `/traces?cursor=${other}`,
    `/traces/a?cursor=${other}`,
  ]) {
    t.match(await get(path), { status: 400, json: { code: 'invalid_cursor' } }, path);
  }
  tenant.projectId = 'proj_other';
  t.equal((await get(`/traces?limit=1&q=model:m&cursor=${cursor}`)).status, 400);
});

t.test('answers 400 to a mistake in a query, with its position', async (t) => {
  const { get } = await reading(t, { traces: [TRACE] });
  const { status, json } = await get(`/traces?q=${encodeURIComponent('status:error modle:x')}`);
  t.equal(status, 400);
  t.match(json, {
    code: 'invalid_query',
    message: 'Unknown field "modle" at character 14; did you mean "model"?',
    position: 13,
  });
  const long = await get(`/traces?q=${'x'.repeat(2049)}`);
  t.match(long.json, { code: 'invalid_query', position: 2048 });
  for (const most of ['x', '€', '😀']) {
    const query = encodeURIComponent(most.repeat(2048));
    t.equal((await get(`/traces?q=${query}`)).status, 200, most);
  }
});

t.test('reads payload fields back as the text that was sent', async (t) => {
  for (const encoding of ['identity', 'gzip'] as const) {
    const batch = oddBatch(encoding);
    const ref = { batchId: batch.id, position: 0 };
    const held: HeldTraces = {
      traces: [TRACE],
      observations: [anObservation({ payload: { inputs: ref, outputs: ref } })],
      batches: [batch],
    };
    const { get, listeners } = await reading(t, held);
    const one = await get('/observations/o-1');
    t.equal(one.status, 200);
    t.ok(one.text.includes(`"inputs":${ODD_INPUTS}`), one.text);
    t.match(one.json, {
      id: 'o-1',
      trace_id: 'trace-1',
      event_version: '18446744073709551615',
      outputs: { content: 'hi' },
      events: null,
      custom_fields: {},
      project_id: 'proj_test',
      raw_event_ids: [rawEventId(batch.id, 0)],
    });
    const whole = await get('/traces/trace-1?payloads=true');
    t.ok(whole.text.includes(`"inputs":${ODD_INPUTS}`));
    const narrow = await get('/traces/trace-1');
    t.notOk(narrow.text.includes('inputs'));
    t.match(narrow.json, { trace: { id: 'trace-1' }, next_cursor: null });

    const event = await get(`/raw-events/${rawEventId(batch.id, 0)}`);
    t.equal(event.status, 200);
    t.ok(event.text.includes(ODD_INPUTS));
    t.match(event.json, {
      id: rawEventId(batch.id, 0),
      accepted_at: new Date(batch.receivedAt).toISOString(),
      source: 'native',
      key_id: 'key_test',
      event: { trace_id: 'trace-1' },
    });
    await until(() => listeners.reads.heldBytes === 0);
  }
});

t.test('streams a page of a thousand observations', async (t) => {
  const batches = Array.from({ length: 10 }, (_, i) => nativeBatch(100, { id: `batch-${i}` }));
  const observations = Array.from({ length: 1000 }, (_, i) => {
    const ref = { batchId: `batch-${Math.floor(i / 100)}`, position: i % 100 };
    return anObservation({ id: `o-${i}`, payload: { inputs: ref, metadata: ref } });
  });
  const { get, listeners } = await reading(t, { traces: [TRACE], observations, batches });
  const { json } = await get('/traces/trace-1?payloads=true');
  const list = json.observations as { id: string; inputs: unknown }[];
  t.equal(list.length, 1000);
  t.strictSame(
    list.map(({ id }) => id),
    observations.map(({ id }) => id),
  );
  t.ok(list.every(({ inputs }) => JSON.stringify(inputs).includes('hello')));
  await until(() => listeners.reads.heldBytes === 0);
});

t.test('answers the tree of a trace: every observation once, in one answer', async (t) => {
  const start = { ms: Date.UTC(2026, 0, 15), ns: 0 };
  const end = { ms: start.ms + 2, ns: 500_000 };
  const usage = { input_tokens: 5 };
  const cost = { input: null, output: null, total: 1500, source: 'sent' as const };
  const observations = [
    anObservation({
      ...{ id: 'root', kind: 'chain', startTime: start, endTime: end, usage },
      details: { provider: 'p', ttftMs: 1.5, inputBytes: 7, cost },
      error: { type: 'T', message: 'm', stacktrace: 'at' },
    }),
    anObservation({ id: 'call', parentId: 'root', usage, details: { cost, outputBytes: 9 } }),
    anObservation({ id: 'loop-1', parentId: 'loop-2', startTime: { ms: 1, ns: 0 } }),
    anObservation({ id: 'loop-2', parentId: 'loop-1', startTime: { ms: 2, ns: 0 } }),
    ...Array.from({ length: 29_996 }, (_, i) => anObservation({ id: `o-${i}`, parentId: 'root' })),
  ];
  const { get, listeners } = await reading(t, { traces: [TRACE], observations });
  const { status, json } = await get('/traces/trace-1?fields=tree');
  t.equal(status, 200);
  t.strictSame(Object.keys(json), ['trace', 'observations']);
  const nodes = json.observations as Record<string, unknown>[];
  t.same(
    nodes.map(({ id }) => id),
    observations.map(({ id }) => id),
  );
  t.strictSame(nodes[0], {
    ...{ id: 'root', parent_id: null, name: 'chat', kind: 'chain', status: 'success' },
    ...{ state: 'finished', start_time: '2026-01-15T00:00:00.000Z' },
    ...{ end_time: '2026-01-15T00:00:00.002500Z', latency_ms: 2.5, ttft_ms: 1.5, model: null },
    ...{ provider: 'p', usage, cost_source: 'sent' },
    cost: { input: null, output: null, total: 1.5e-6, currency: 'USD' },
    ...{ counted: false, cost_counted: false, cycle: false, input_bytes: 7, output_bytes: null },
    ...{ error: { type: 'T', message: 'm' }, updated_at: '1970-01-01T00:00:00.000Z' },
  });
  t.match(nodes[1], { id: 'call', counted: true, output_bytes: 9, latency_ms: null, error: null });
  t.match(nodes[2], { id: 'loop-1', cycle: true, counted: false });
  t.match(nodes[3], { id: 'loop-2', cycle: false });
  await until(() => listeners.reads.heldBytes === 0);
});

t.test(
  'a page of a trace says which calls its totals count, and where a cycle is broken',
  async (t) => {
    const usage = { input_tokens: 5 };
    const observations = [
      anObservation({ id: 'root', usage }),
      anObservation({ id: 'call', parentId: 'root', usage }),
      anObservation({ id: 'loop', parentId: 'loop' }),
    ];
    const { get } = await reading(t, { traces: [TRACE], observations });
    const first = await get('/traces/trace-1?limit=1');
    t.match(first.json.observations, [{ id: 'root', counted: false, cycle: false }]);
    const rest = await get(`/traces/trace-1?cursor=${first.json.next_cursor}`);
    t.match(rest.json.observations, [
      { id: 'call', counted: true, cycle: false },
      { id: 'loop', counted: false, cycle: true },
    ]);
    t.notMatch((await get('/observations/root')).json, { counted: Boolean });
  },
);

t.test('an observation that ends between the totals and the page is counted', async (t) => {
  const usage = { input_tokens: 5 };
  let reads = 0;
  const held = {
    traces: [TRACE],
    /** The first read is the one for the totals. */
    get observations() {
      return [anObservation({ id: 'call', usage: reads++ === 0 ? null : usage })];
    },
  };
  const { get } = await reading(t, held);
  const { json } = await get('/traces/trace-1');
  t.match(json.observations, [{ id: 'call', usage, counted: true }]);
});

t.test(
  'an observation that gets its cost between the totals and the page is counted',
  async (t) => {
    const cost = { input: null, output: null, total: 1500, source: 'computed' as const };
    const usage = { input_tokens: 5 };
    let reads = 0;
    const held = {
      traces: [TRACE],
      get observations() {
        return [anObservation({ id: 'call', usage, details: reads++ === 0 ? null : { cost } })];
      },
    };
    const { get } = await reading(t, held);
    const { json } = await get('/traces/trace-1');
    t.match(json.observations, [{ id: 'call', counted: true, cost_counted: true }]);
  },
);

t.test('a page of a trace says which costs its totals count', async (t) => {
  const cost = { input: null, output: null, total: 1500, source: 'sent' as const };
  const observations = [
    anObservation({ id: 'root', usage: { input_tokens: 9 } }),
    anObservation({ id: 'call', parentId: 'root', usage: { input_tokens: 5 }, details: { cost } }),
    anObservation({ id: 'priced', parentId: 'root', details: { cost } }),
  ];
  const { get } = await reading(t, { traces: [TRACE], observations });
  for (const path of ['/traces/trace-1', '/traces/trace-1?fields=tree']) {
    t.match((await get(path)).json.observations, [
      { id: 'root', counted: true, cost_counted: false },
      { id: 'call', counted: false, cost_counted: true },
      { id: 'priced', counted: true, cost_counted: true },
    ]);
  }
});

t.test('a tree beyond the memory of reading is refused, and has no pages', async (t) => {
  const observations = Array.from({ length: 1000 }, (_, i) => anObservation({ id: `o-${i}` }));
  const held: HeldTraces = { traces: [TRACE], observations };
  const short = await reading(t, held, { limits: { read_bytes: 1_048_576 } });
  t.equal((await short.get('/traces/trace-1?fields=tree')).status, 503);
  await until(() => short.listeners.reads.heldBytes === 0);
  const { get } = await reading(t, held);
  for (const [query, named] of [
    ['fields=all', 'fields'],
    ['fields=tree&limit=5', 'limit'],
    ['fields=tree&cursor=1', 'cursor'],
    ['fields=tree&payloads=true', 'payloads'],
  ] as const) {
    const { status, json } = await get(`/traces/trace-1?${query}`);
    t.equal(status, 400, query);
    t.match(String(json.message), named);
  }
  t.equal((await get('/traces/other?fields=tree')).status, 404);
});

t.test('reads a large batch in a thread and does not change it', async (t) => {
  const large = 'x'.repeat(3_000_000);
  const plain = Buffer.from(JSON.stringify({ events: [nativeEvent({ inputs: large })] }));
  for (const [encoding, body] of [
    ['identity', plain],
    ['gzip', gzipSync(plain)],
  ] as const) {
    const batch = rawBatch('native', body, 1, { encoding });
    const ref = { batchId: batch.id, position: 0 };
    const before = Buffer.from(body);
    const { get } = await reading(t, {
      traces: [TRACE],
      observations: [anObservation({ payload: { inputs: ref } })],
      batches: [batch],
    });
    t.equal((await get('/observations/o-1')).json.inputs, large, encoding);
    t.ok(batch.body.equals(before));
  }
});

t.test("answers 404 for unknown, expired and other projects' data", async (t) => {
  const batch = nativeBatch(1);
  const ref = { batchId: 'gone', position: 0 };
  const held: HeldTraces = {
    traces: [TRACE],
    observations: [anObservation({ payload: { inputs: ref } })],
    batches: [batch],
  };
  const { get } = await reading(t, held);
  for (const path of [
    '/traces/other',
    '/observations/other',
    '/observations/o-1?trace_id=other',
    '/raw-events/nonsense',
    `/raw-events/${rawEventId(batch.id, 1)}`,
    `/raw-events/${rawEventId('0'.repeat(26), 0)}`,
  ]) {
    const { status, json } = await get(path);
    t.equal(status, 404, path);
    t.equal(json.code, 'not_found');
  }
  t.match((await get('/observations/o-1')).json, { inputs: null }, 'its payload has expired');

  const tenant = aTenant({ projectId: 'proj_other' });
  const other = await reading(t, held, {
    pipeline: { admitRead: () => ({ tenant, release() {} }) },
  });
  for (const path of [
    '/traces/trace-1',
    '/observations/o-1',
    `/raw-events/${rawEventId(batch.id, 0)}`,
  ]) {
    t.equal((await other.get(path)).status, 404, path);
  }
  t.match((await other.get('/traces')).json, { traces: [] });
});

t.test('every reading request is admitted by the pipeline', async (t) => {
  let asked = 0;
  const { get } = await reading(
    t,
    { traces: [TRACE] },
    {
      pipeline: {
        admitRead() {
          asked++;
          throw new Refusal('forbidden', 'The key may not read.');
        },
      },
    },
  );
  for (const path of ['/traces', '/traces/trace-1', '/observations/o', '/raw-events/r', '/me']) {
    t.equal((await get(path)).status, 403, path);
  }
  t.equal(asked, 5);
});

t.test('answers GET /me with a store and without one', async (t) => {
  const { get } = await reading(t, {});
  t.strictSame((await get('/me')).json, {
    project: { id: 'proj_test', name: 'Checkout' },
    key: {
      id: 'key_test',
      prefix: 'ws_12345678',
      permissions: ['ingest:write', 'traces:read'],
    },
  });
  const without = await reading(t, {}, { pipeline: sinkPipeline(createSink()) });
  t.match((await without.get('/me')).json, { project: { id: 'proj_test', name: 'proj_test' } });
  t.equal((await without.get('/traces')).status, 404);
});

t.test('reading respects its limit of bytes', async (t) => {
  const batch = rawBatch(
    'native',
    Buffer.from(JSON.stringify({ events: [nativeEvent({ inputs: 'x'.repeat(300_000) })] })),
    1,
  );
  const held: HeldTraces = {
    traces: [TRACE],
    observations: [anObservation({ payload: { inputs: { batchId: batch.id, position: 0 } } })],
    batches: [batch],
  };
  const { get, listeners } = await reading(t, held, { limits: { read_bytes: 400_000 } });
  t.equal((await get('/traces')).status, 200);
  t.equal((await get('/observations/o-1')).status, 503);
  t.equal((await get('/traces/trace-1?payloads=true')).status, 503);
  await until(() => listeners.reads.heldBytes === 0);
});

t.test('a page ends at its bytes, and the next one begins behind it', async (t) => {
  const observations = Array.from({ length: 250 }, (_, i) =>
    anObservation({ id: `o-${i}`, name: 'x'.repeat(1_000) }),
  );
  const bytes = JSON.stringify({ name: 'x'.repeat(1_000) }).length;
  const held: HeldTraces = { traces: [TRACE], observations };
  const { get } = await reading(t, held, { limits: { page_bytes: 30 * bytes } });
  const seen: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const { json } = await get(`/traces/trace-1?limit=1000&cursor=${cursor}`);
    const page = json.observations as { id: string }[];
    t.ok(page.length > 0 && page.length < 30, 'a whole number of items, at least one');
    seen.push(...page.map(({ id }) => id));
    cursor = json.next_cursor as string | null;
  }
  t.strictSame(
    seen,
    observations.map(({ id }) => id),
  );
  const small = await reading(t, held, { limits: { page_bytes: 1 } });
  t.match((await small.get('/traces/trace-1')).json, { observations: { length: 1 } });
});

/** A store whose search finds one trace after `steps` steps; each is 10 ms of work and 100 ms of the clock. */
function searching(
  steps: number,
  more: { onStep?: () => void; clock?: FakeClock; spentMs?: number } = {},
) {
  let calls = 0;
  const sizes: (number | undefined)[] = [];
  const search: Store['traces']['listTraces'] = async (_project, { cursor = '0', size }) => {
    calls++;
    sizes.push(size);
    more.onStep?.();
    more.clock?.advance(100);
    await new Promise(setImmediate);
    const step = Number(cursor) + 1;
    const items = step === steps ? [TRACE] : [];
    const searchedTo = step >= steps ? null : { ms: steps - step, ns: 0 };
    const nextCursor = step >= steps ? null : String(step);
    return { items, nextCursor, cursorAfter: () => '', searchedTo, spentMs: more.spentMs ?? 10 };
  };
  return { search, sizes, calls: () => calls };
}

t.test('a search goes on in steps until the page is full, or its work is done', async (t) => {
  const clock = fakeClock(0);
  const { search } = searching(5, { clock });
  const { get } = await reading(t, { traces: [TRACE] }, { search, clock });
  const whole = { traces: [{ id: 'trace-1' }], next_cursor: null };
  t.match((await get('/traces?q=x')).json, { ...whole, partial: false, searched_to: null });

  const limited = async (limits: Partial<ReadLimits>) =>
    (await reading(t, { traces: [TRACE] }, { search, clock, limits })).get;
  const short = await limited({ page_time: 30 });
  const first = await short('/traces?q=x');
  const ended = { partial: true, searched_to: '1970-01-01T00:00:00.002Z' };
  t.match(first.json, { ...ended, traces: [], next_cursor: /\.3$/ }, 'exactly its work');
  const rest = await short(`/traces?q=x&cursor=${first.json.next_cursor}`);
  t.match(rest.json, { ...whole, partial: false, searched_to: null });
  const longer = await limited({ page_time: 31 });
  t.match((await longer('/traces?q=x')).json, { next_cursor: /\.4$/, partial: true });
  const late = await limited({ page_timeout: 200 });
  t.match((await late('/traces?q=x')).json, { next_cursor: /\.2$/, partial: false });
});

t.test(
  'a step of a search grows while steps are cheap, and shrinks when they are not',
  async (t) => {
    const cheap = searching(5, { spentMs: 10 });
    const { get } = await reading(t, { traces: [TRACE] }, { search: cheap.search });
    await get('/traces?q=x');
    t.same(cheap.sizes, [512, 1024, 2048, 4096, 4096]);
    const limits = { page_time: 1000 };
    const even = searching(3, { spentMs: 20 });
    await (await reading(t, {}, { search: even.search, limits })).get('/traces?q=x');
    t.same(even.sizes, [512, 512, 512]);
    const dear = searching(7, { spentMs: 21 });
    await (await reading(t, {}, { search: dear.search, limits })).get('/traces?q=x');
    t.same(dear.sizes, [512, 256, 128, 64, 32, 32, 32]);
  },
);

t.test('a page ends in front of a step that is too slow for the store', async (t) => {
  const { search } = searching(5);
  const slowAt = (slow: string): Store['traces']['listTraces'] => {
    return async (project, filter) => {
      if ((filter.cursor ?? '0') !== slow) return search(project, filter);
      throw new RetryableError('query_timeout', 'The statement took too long.');
    };
  };
  const later = await reading(t, { traces: [TRACE] }, { search: slowAt('3') });
  const first = await later.get('/traces?q=x');
  t.match(first, { status: 200, json: { traces: [], next_cursor: /\.3$/, partial: true } });
  const next = await later.get(`/traces?q=x&cursor=${first.json.next_cursor}`);
  t.equal(next.status, 504);
  const atOnce = await reading(t, { traces: [TRACE] }, { search: slowAt('0') });
  t.match(await atOnce.get('/traces?q=x'), { status: 504, json: { code: 'query_timeout' } });
});

t.test('a search ends when its client goes away', async (t) => {
  const gone = new AbortController();
  const { search, calls } = searching(1_000_000, {
    onStep: () => calls() === 3 && gone.abort(),
  });
  const { get, listeners } = await reading(t, { traces: [TRACE] }, { search });
  await t.rejects(get('/traces?q=x', gone.signal), { name: 'AbortError' });
  await until(() => listeners.reads.heldBytes === 0);
  const at = calls();
  await pause(20);
  t.equal(calls(), at, 'no further step');
  t.equal((await get('/me')).status, 200);
});

t.test('a key over its number of reads gets 429, another key does not', async (t) => {
  let keyId = 'key_1';
  const release: (() => void)[] = [];
  const { get } = await reading(
    t,
    { traces: [TRACE] },
    {
      limits: { reads_per_key: 2 },
      pipeline: { admitRead: () => ({ tenant: aTenant({ keyId }), release() {} }) },
      async search() {
        await new Promise<void>((resolve) => release.push(resolve));
        return { items: [], nextCursor: null, cursorAfter: () => '', searchedTo: null, spentMs: 1 };
      },
    },
  );
  const waiting = [get('/traces'), get('/traces')];
  await until(() => release.length === 2);
  const refused = await get('/traces');
  t.match(refused, { status: 429, json: { code: 'rate_limited' } });
  keyId = 'key_2';
  t.equal((await get('/me')).status, 200);
  for (const end of release) end();
  for (const answered of await Promise.all(waiting)) t.equal(answered.status, 200);
});
