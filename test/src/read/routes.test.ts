import { gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { Pipeline } from '../../../src/component/component.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { rawEventId } from '../../../src/model/batch.ts';
import { Refusal, StoreError } from '../../../src/model/errors.ts';
import {
  STORE,
  type Store,
  type StoredObservation,
  type StoredTrace,
  type TraceFilter,
} from '../../../src/store/store.ts';
import type { ApiKey } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch, nativeEvent, rawBatch } from '../../helper/batches.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

/** The content of a test's store; everything belongs to `proj_test`. */
type Held = {
  traces?: readonly StoredTrace[];
  observations?: readonly StoredObservation[];
  batches?: readonly SealedBatch[];
};

function memoryStore(held: Held, filters: TraceFilter[] = []): Store {
  const ours = <T>(projectId: string, items: readonly T[] = []): readonly T[] =>
    projectId === 'proj_test' ? items : [];
  const traces: Partial<Store['traces']> = {
    async listTraces(projectId, filter) {
      filters.push(filter);
      if (filter.cursor === 'forged')
        throw new StoreError('invalid_name', 'The cursor is unknown.');
      return { items: ours(projectId, held.traces), nextCursor: 'next' };
    },
    getTrace: async (projectId, id) => ours(projectId, held.traces).find((one) => one.id === id),
    listObservations: async (projectId, traceId) => ({
      items: ours(projectId, held.observations).filter((one) => one.traceId === traceId),
      nextCursor: null,
    }),
    getObservation: async (projectId, id, traceId) =>
      ours(projectId, held.observations).find(
        (one) => one.id === id && (traceId === undefined || one.traceId === traceId),
      ),
    getBatches: async (projectId, ids) =>
      ours(projectId, held.batches).filter(({ id }) => ids.includes(id)),
  };
  const key: Partial<ApiKey> = { id: 'key_test', prefix: 'ws_12345678' };
  return {
    traces,
    projects: { get: async (id: string) => ({ id, name: 'Checkout' }) },
    keys: { list: async () => [key] },
  } as unknown as Store;
}

async function reading(
  t: Test,
  held: Held,
  more: { pipeline?: Partial<Pipeline>; filters?: TraceFilter[]; inFlightBytes?: number } = {},
) {
  const listeners = testListeners(more.inFlightBytes);
  const store = memoryStore(held, more.filters);
  const pipeline = sinkPipeline(createSink(), { offers: [offer(STORE, store)], ...more.pipeline });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  const get = async (path: string) => {
    const answered = await fetch(`${urlOf(listener)}/api/v1${path}`);
    const text = await answered.text();
    return { status: answered.status, text, json: JSON.parse(text) as Record<string, unknown> };
  };
  return { get, listeners };
}

const TRACE: StoredTrace = {
  id: 'trace-1',
  name: 'chat',
  status: 'success',
  startTime: { ms: Date.UTC(2026, 0, 15), ns: 1 },
  endTime: null,
  observationCount: 2,
  usage: { input_tokens: 3 },
};

function observation(more: Partial<StoredObservation> = {}): StoredObservation {
  return {
    projectId: 'proj_test',
    traceId: 'trace-1',
    id: 'o-1',
    parentId: null,
    name: 'chat',
    kind: 'generation',
    status: 'success',
    startTime: { ms: Date.UTC(2026, 0, 15), ns: 0 },
    endTime: null,
    ended: true,
    model: null,
    usage: null,
    sessionId: null,
    userId: null,
    error: null,
    customFields: null,
    external: null,
    details: null,
    version: '18446744073709551615',
    source: 'native',
    payload: {},
    createdAt: 0,
    updatedAt: 0,
    ...more,
  };
}

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
        start_time: '2026-01-15T00:00:00.000000001Z',
        end_time: null,
        observation_count: 2,
        usage: { input_tokens: 3 },
      },
    ],
    next_cursor: 'next',
  });
  await get(
    '/traces?limit=1000&cursor=c&from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00%2B01:00' +
      '&status=error&kind=tool&name=a%20b&q=text',
  );
  t.strictSame(filters, [
    { limit: 50 },
    {
      limit: 1000,
      cursor: 'c',
      from: { ms: Date.UTC(2026, 0, 1), ns: 0 },
      to: { ms: Date.UTC(2026, 0, 31, 23), ns: 0 },
      status: 'error',
      kind: 'tool',
      name: 'a b',
      query: 'text',
    },
  ]);
});

t.test('answers 400 to an invalid query parameter and names it', async (t) => {
  const { get } = await reading(t, { traces: [TRACE] });
  for (const [query, named] of [
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['limit=ten', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['from=yesterday', 'from'],
    ['to=2026-02-30T00:00:00Z', 'to'],
    ['status=fine', 'status'],
    ['kind=robot', 'kind'],
    ['cursor=forged', 'cursor'],
  ] as const) {
    const { status, json } = await get(`/traces?${query}`);
    t.equal(status, 400, query);
    t.equal(json.code, 'invalid_request');
    t.match(String(json.message), named);
  }
  t.equal((await get('/traces/trace-1?payloads=maybe')).status, 400);
});

t.test('reads payload fields back as the text that was sent', async (t) => {
  for (const encoding of ['identity', 'gzip'] as const) {
    const batch = oddBatch(encoding);
    const ref = { batchId: batch.id, position: 0 };
    const held: Held = {
      traces: [TRACE],
      observations: [observation({ payload: { inputs: ref, outputs: ref } })],
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
    t.equal(listeners.bytesInFlight.held, 0);
  }
});

t.test('streams a page of a thousand observations', async (t) => {
  const batches = Array.from({ length: 10 }, (_, i) => nativeBatch(100, { id: `batch-${i}` }));
  const observations = Array.from({ length: 1000 }, (_, i) => {
    const ref = { batchId: `batch-${Math.floor(i / 100)}`, position: i % 100 };
    return observation({ id: `o-${i}`, payload: { inputs: ref, metadata: ref } });
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
  t.equal(listeners.bytesInFlight.held, 0);
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
      observations: [observation({ payload: { inputs: ref } })],
      batches: [batch],
    });
    t.equal((await get('/observations/o-1')).json.inputs, large, encoding);
    t.ok(batch.body.equals(before));
  }
});

t.test("answers 404 for unknown, expired and other projects' data", async (t) => {
  const batch = nativeBatch(1);
  const ref = { batchId: 'gone', position: 0 };
  const held: Held = {
    traces: [TRACE],
    observations: [observation({ payload: { inputs: ref } })],
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
  const other = await reading(t, held, { pipeline: { authenticate: () => tenant } });
  for (const path of [
    '/traces/trace-1',
    '/observations/o-1',
    `/raw-events/${rawEventId(batch.id, 0)}`,
  ]) {
    t.equal((await other.get(path)).status, 404, path);
  }
  t.match((await other.get('/traces')).json, { traces: [] });
});

t.test('reading needs traces:read', async (t) => {
  const asked: string[] = [];
  const { get } = await reading(
    t,
    { traces: [TRACE] },
    {
      pipeline: {
        authenticate(_head, permission) {
          asked.push(permission);
          throw new Refusal('forbidden', 'The key may not read.');
        },
      },
    },
  );
  for (const path of ['/traces', '/traces/trace-1', '/observations/o', '/raw-events/r', '/me']) {
    t.equal((await get(path)).status, 403, path);
  }
  t.strictSame(new Set(asked), new Set(['traces:read']));
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

t.test('reading respects the limit of bytes in flight', async (t) => {
  const batch = rawBatch(
    'native',
    Buffer.from(JSON.stringify({ events: [nativeEvent({ inputs: 'x'.repeat(300_000) })] })),
    1,
  );
  const held: Held = {
    traces: [TRACE],
    observations: [observation({ payload: { inputs: { batchId: batch.id, position: 0 } } })],
    batches: [batch],
  };
  const { get, listeners } = await reading(t, held, { inFlightBytes: 200_000 });
  t.equal((await get('/traces')).status, 200);
  t.equal((await get('/observations/o-1')).status, 503);
  t.equal((await get('/traces/trace-1?payloads=true')).status, 503);
  t.equal(listeners.bytesInFlight.held, 0);
});
