import { randomBytes } from 'node:crypto';
import { deflateSync, gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock, Labels, Pipeline } from '../../../src/component/component.ts';
import { COPIES, FIRST_BYTES } from '../../../src/http/body.ts';
import type { BodyRate } from '../../../src/http/body-pace.ts';
import { ingest } from '../../../src/http/ingest.ts';
import type { Listener } from '../../../src/http/listener.ts';
import { nativeProtocol } from '../../../src/http/native-protocol.ts';
import { incomingOf } from '../../../src/http/receiver.ts';
import type { Repeats } from '../../../src/http/repeats.ts';
import { repeatsOf } from '../../../src/http/repeats.ts';
import { requestDeadline } from '../../../src/http/request-deadline.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { PermanentError, Refusal, RetryableError } from '../../../src/model/errors.ts';
import { indexOf, knownIndexOf } from '../../../src/model/formats.ts';
import { reject } from '../../../src/model/verbs.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import type { RejectionEntry, RejectionStore } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeEvent } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import type { TestListeners } from '../../helper/http.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import type { Sink } from '../../helper/sink.ts';
import { acceptInto, createSink, memoryLedger, sinkPipeline } from '../../helper/sink.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { dial } from '../../helper/wire.ts';

const MIB = 1_048_576;
const MAX = 25 * MIB;
const PATH = '/batch';

type Served = {
  readonly url: string;
  readonly sink: Sink;
  readonly listeners: TestListeners;
  readonly listener: Listener;
  /** Admissions and bytes of bodies that are held. */
  held(): { admissions: number; bytes: number };
  /** The log of refusals and rejections, oldest first. */
  readonly log: RejectionEntry[];
  /** Codes of counted refusals. */
  readonly refusals: string[];
};

async function served(
  t: Test,
  more: {
    pipeline?: (sink: Sink) => Partial<Pipeline>;
    inFlightBytes?: number;
    /** Of the listeners. */
    clock?: Clock;
    repeats?: Repeats | undefined;
    readTimeout?: number;
    bodyRate?: BodyRate;
  } = {},
): Promise<Served> {
  const sink = createSink();
  const listeners = testListeners(more.inFlightBytes, more.clock);
  const listener = await listeners.bind('127.0.0.1:0', {
    ...USUAL_LIMITS,
    readTimeout: more.readTimeout ?? USUAL_LIMITS.readTimeout,
    bodyRate: more.bodyRate ?? USUAL_LIMITS.bodyRate,
  });
  let admissions = 0;
  const log: RejectionEntry[] = [];
  const rejections: Partial<RejectionStore> = { record: (entry) => void log.push(entry) };
  const pipeline = sinkPipeline(sink, {
    offers: [offer(STORE, { rejections } as Store)],
    admit() {
      admissions++;
      return { tenant: aTenant(), release: () => void admissions-- };
    },
    ...more.pipeline?.(sink),
  });
  const protocol = nativeProtocol('native');
  const refusals: string[] = [];
  const ingestion = {
    pipeline,
    protocol,
    fallback: undefined,
    bytesInFlight: listeners.bytesInFlight,
    scanner: listeners.scanner,
    repeats: more.repeats,
    feedback: undefined,
    clock: systemClock,
    logger: listeners.logger,
    refusals: { add: (_amount: number, labels?: Labels) => void refusals.push(labels?.code ?? '') },
  };
  listener.route({
    method: 'POST',
    path: PATH,
    renderRefusal: protocol.renderRefusal,
    handler: (exchange) => ingest(incomingOf(exchange, protocol.renderRefusal), ingestion),
  });
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
  });
  return {
    url: urlOf(listener) + PATH,
    sink,
    listeners,
    listener,
    held: () => ({ admissions, bytes: listeners.bytesInFlight.held }),
    log,
    refusals,
  };
}

function lastOf(sink: Sink): SealedBatch {
  const batch = sink.batches.at(-1);
  if (batch === undefined) throw new Error('no batch');
  return rawOf(batch);
}

const NOTHING_HELD = { admissions: 0, bytes: 0 };

async function post(
  url: string,
  body: Buffer | string | ReadableStream,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: Headers; json: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: 'POST',
    body,
    headers: { 'content-type': 'application/json', ...headers },
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);
  return {
    status: response.status,
    headers: response.headers,
    json: (await response.json()) as Record<string, unknown>,
  };
}

function events(count = 1): Buffer {
  const list = Array.from({ length: count }, (_, i) => nativeEvent({ id: `o-${i}` }));
  return Buffer.from(JSON.stringify({ events: list }));
}

/** A valid body of exactly this many bytes. */
function padded(total: number): Buffer {
  const body = events();
  return Buffer.concat([body, Buffer.alloc(total - body.length, ' ')]);
}

function chunked(body: Buffer, size = 65_536): ReadableStream {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      if (at >= body.length) controller.close();
      else controller.enqueue(body.subarray(at, at + size));
      at += size;
    },
  });
}

t.test('answers an accepted batch 202 with a result for each event', async (t) => {
  const { url, sink, held } = await served(t);
  const { status, json } = await post(url, events(2));
  t.equal(status, 202);
  const batch = lastOf(sink);
  t.strictSame(json, {
    status: 'queued',
    accepted: 2,
    rejected: 0,
    results: [
      { index: 0, id: 'o-0', status: 'queued', raw_event_id: `raw_${batch.id}_0` },
      { index: 1, id: 'o-1', status: 'queued', raw_event_id: `raw_${batch.id}_1` },
    ],
  });
  t.match(batch, { format: 'native', encoding: 'identity', requestItems: 2, tenant: aTenant() });
  t.ok(batch.body.equals(events(2)));
  t.equal(batch.body.buffer.byteLength, batch.body.length, 'the body owns its memory');
  t.strictSame(held(), NOTHING_HELD);
});

t.test('keeps compressed bodies as received', async (t) => {
  const { url, sink } = await served(t);
  for (const [encoding, body] of [
    ['gzip', gzipSync(events(3))],
    ['zstd', zstdCompressSync(events(3))],
  ] as const) {
    const { status } = await post(url, body, { 'content-encoding': encoding });
    t.equal(status, 202, encoding);
    const batch = lastOf(sink);
    t.equal(batch.encoding, encoding);
    t.ok(batch.body.equals(body));
  }
});

t.test('keeps a body in deflate as gzip, small or large', async (t) => {
  const { url, sink } = await served(t);
  for (const padding of [0, 600_000]) {
    const sent = Buffer.concat([events(3), Buffer.alloc(padding, ' ')]);
    const { status } = await post(url, deflateSync(sent), { 'content-encoding': 'deflate' });
    t.equal(status, 202);
    const batch = lastOf(sink);
    t.equal(batch.encoding, 'gzip');
    t.ok(gunzipSync(batch.body).equals(sent));
    t.equal(batch.body.buffer.byteLength, batch.body.length, 'the body owns its memory');
  }
  const damaged = deflateSync(events(1)).subarray(0, -1);
  t.equal((await post(url, damaged, { 'content-encoding': 'deflate' })).status, 400);
  const bomb = deflateSync(Buffer.alloc(26_214_401));
  t.equal((await post(url, bomb, { 'content-encoding': 'deflate' })).status, 413);
});

t.test('lists rejected events, and answers 400 if all are', async (t) => {
  const rejecting = (indexes: readonly number[]) => (sink: Sink) => ({
    accept: acceptInto(sink, (batch) => {
      for (const item of indexes) reject(batch, item, 'missing_field', `events[${item}].kind`);
    }),
  });
  const some = await served(t, { pipeline: rejecting([1]) });
  const mixed = await post(some.url, events(2));
  t.equal(mixed.status, 202);
  t.match(mixed.json, { accepted: 1, rejected: 1, status: 'queued' });
  t.match((mixed.json.results as object[])[1], {
    index: 1,
    id: 'o-1',
    status: 'rejected',
    code: 'missing_field',
    reason: 'events[1].kind',
  });
  const all = await served(t, { pipeline: rejecting([0, 1]) });
  const none = await post(all.url, events(2));
  t.equal(none.status, 400);
  t.match(none.json, { status: 'rejected', accepted: 0, rejected: 2, code: 'no_event_accepted' });
  t.equal((none.json.results as object[]).length, 2);
});

t.test('refuses invalid requests before the pipeline', async (t) => {
  const { url, sink, held } = await served(t);
  const cases: [string, number, string, Buffer | string, Record<string, string>][] = [
    ['no JSON', 400, 'invalid_json', '{', {}],
    ['an empty body', 400, 'invalid_json', '', {}],
    ['no object', 400, 'invalid_request', '[]', {}],
    ['no events', 400, 'no_event_accepted', '{"events":[]}', {}],
    ['1,001 events', 413, 'too_many_events', events(1001), {}],
    ['another type', 400, 'unsupported_content_type', '{}', { 'content-type': 'text/plain' }],
    ['another encoding', 415, 'unsupported_encoding', '{}', { 'content-encoding': 'br' }],
    ['two encodings', 415, 'unsupported_encoding', '{}', { 'content-encoding': 'gzip, gzip' }],
    ['no gzip', 400, 'invalid_request', '{}', { 'content-encoding': 'gzip' }],
    [
      'cut off gzip',
      400,
      'invalid_request',
      gzipSync(events()).subarray(0, -5),
      { 'content-encoding': 'gzip' },
    ],
  ];
  for (const [what, status, code, body, headers] of cases) {
    const got = await post(url, body, headers);
    t.equal(got.status, status, what);
    t.match(got.json, { status: 'rejected', accepted: 0, rejected: 0, results: [], code }, what);
  }
  t.equal(
    (await post(url, events(), { 'content-type': 'application/json; charset=utf-8' })).status,
    202,
  );
  t.equal((await post(url, events(1000))).status, 202);
  t.equal(sink.batches.length, 2);
  t.strictSame(held(), NOTHING_HELD);
});

t.test(
  'accepts 25 MiB and answers 413 to one byte more: declared, chunked and inflated',
  async (t) => {
    const { url, sink, held } = await served(t);
    t.equal((await post(url, padded(MAX))).status, 202, 'declared');
    t.equal((await post(url, chunked(padded(MAX)))).status, 202, 'chunked');
    const gzip = { 'content-encoding': 'gzip' };
    t.equal((await post(url, gzipSync(padded(MAX)), gzip)).status, 202, 'inflated');
    t.equal(sink.batches.length, 3);
    for (const batch of sink.batches) t.equal(indexOf(rawOf(batch)).bytes.length, MAX);
    for (const [what, body, headers] of [
      ['declared', padded(MAX + 1), {}],
      ['chunked', chunked(padded(MAX + 1)), {}],
      ['inflated', gzipSync(padded(MAX + 1)), gzip],
      ['a bomb', gzipSync(Buffer.alloc(200 * MIB)), gzip],
      ['a bomb of two members', Buffer.concat([gzipSync(padded(MAX)), gzipSync(' ')]), gzip],
    ] as const) {
      const got = await post(url, body, headers);
      t.equal(got.status, 413, what);
      t.equal(got.json.code, 'body_too_large');
    }
    t.equal(sink.batches.length, 3);
    t.strictSame(held(), NOTHING_HELD);
  },
);

t.test('frees the inflated form once the request is answered', async (t) => {
  const { url, sink } = await served(t);
  const scans: Buffer[] = [];
  sink.behave((batch) => {
    const index = knownIndexOf(rawOf(batch));
    if (index !== undefined) scans.push(index.bytes);
  });
  const body = gzipSync(events(3));
  t.equal((await post(url, body, { 'content-encoding': 'gzip' })).status, 202);
  t.strictSame(
    scans.map(({ length }) => length),
    [0],
  );
  const batch = lastOf(sink);
  t.ok(batch.body.equals(body));
  t.equal(indexOf(batch).count, 3, 'a later reader inflates it again');
});

t.test('scans large bodies in a thread', async (t) => {
  const { url, sink } = await served(t);
  const large = JSON.stringify({
    events: [nativeEvent({ inputs: randomBytes(2 * MIB).toString('base64') })],
  });
  t.equal((await post(url, large)).status, 202);
  t.equal((await post(url, `${large}x`)).json.code, 'invalid_json');
  const batch = lastOf(sink);
  t.ok(batch.body.equals(Buffer.from(large)));
  t.ok(knownIndexOf(batch)?.bytes.equals(Buffer.from(large)));
});

t.test(
  'refuses a declared size above the limit after authentication and before the body',
  async (t) => {
    const { url, held } = await served(t);
    const wire = await dial(url);
    const head = `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n`;
    wire.send(`${head}Expect: 100-continue\r\nContent-Length: ${MAX + 1}\r\n\r\n`);
    const got = await wire.answer();
    t.equal(got.status, 413, 'and no 100 Continue');
    t.equal(got.headers.connection, 'close');
    await wire.ended();

    const refusing = await served(t, {
      pipeline: () => ({
        admit() {
          throw new Refusal('unauthorized', 'no');
        },
      }),
    });
    const second = await dial(refusing.url);
    second.send(`${head}Expect: 100-continue\r\nContent-Length: ${MAX + 1}\r\n\r\n`);
    const unauthorized = await second.answer();
    t.equal(unauthorized.status, 401);
    t.equal(unauthorized.headers['www-authenticate'], 'Bearer');
    await second.ended();
    t.strictSame(held(), NOTHING_HELD);
  },
);

t.test('sends 100 Continue after admission', async (t) => {
  const { url } = await served(t);
  const wire = await dial(url);
  const body = events();
  wire.send(
    `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n` +
      `Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`,
  );
  t.equal((await wire.answer()).status, 100);
  wire.send(body);
  t.equal((await wire.answer()).status, 202);
  wire.close();
});

t.test('keeps the connection after a refusal only if the unread body is small', async (t) => {
  const { url } = await served(t, {
    pipeline: () => ({
      admit() {
        throw new Refusal('rate_limited', 'slower', { retryAfterMs: 1500 });
      },
    }),
  });
  const wire = await dial(url);
  const head = `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n`;
  wire.send(`${head}Content-Length: 65536\r\n\r\n${' '.repeat(65_536)}`);
  const first = await wire.answer();
  t.equal(first.status, 429);
  t.equal(first.headers['retry-after'], '2');
  wire.send(`${head}Content-Length: 65537\r\n\r\n${' '.repeat(65_537)}`);
  const second = await wire.answer();
  t.equal(second.status, 429);
  t.equal(second.headers.connection, 'close');
  await wire.ended();
});

t.test('answers 503 when the bytes in flight are used up, and releases everything', async (t) => {
  const release = Promise.withResolvers<void>();
  const clock = fakeClock();
  const { url, held, sink } = await served(t, {
    clock,
    inFlightBytes: 4 * MIB * COPIES,
    // Only the wait for bytes ends a request.
    readTimeout: 1e9,
    bodyRate: { bytesPerSecond: 0, period: 5_000 },
    pipeline: (sink) => ({
      accept: acceptInto(sink, () => release.promise),
    }),
  });
  const first = post(url, padded(2 * MIB));
  await until(() => held().bytes >= 2 * MIB * COPIES);
  /** Posts a body that waits for bytes in vain. */
  const postInVain: typeof post = async (...request) => {
    let isAnswered = false;
    const answer = post(...request).finally(() => {
      isAnswered = true;
    });
    await advanceUntil(clock, 100, () => isAnswered);
    return answer;
  };
  for (const [what, body] of [
    ['declared', padded(2 * MIB)],
    ['chunked', chunked(padded(2 * MIB))],
  ] as const) {
    const got = await postInVain(url, body);
    t.equal(got.status, 503, what);
    t.equal(got.headers.get('retry-after'), '1');
    t.equal(got.json.code, 'unavailable');
  }
  const gzip = { 'content-encoding': 'gzip' };
  const inflated = await postInVain(url, gzipSync(padded(5 * MIB)), gzip);
  t.equal(inflated.status, 503, 'inflated');
  const small = post(url, events());
  release.resolve();
  t.equal((await first).status, 202);
  t.equal((await small).status, 202);
  t.equal(sink.batches.length, 2);
  t.strictSame(held(), NOTHING_HELD);
});

t.test('releases everything when a client disconnects within its body', async (t) => {
  const { url, held, sink, listeners } = await served(t);
  for (const framing of ['Content-Length: 1000', 'Transfer-Encoding: chunked']) {
    const wire = await dial(url);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n${framing}\r\n\r\n`,
    );
    await until(() => held().bytes !== 0);
    wire.close();
    await until(() => held().admissions === 0);
    t.strictSame(held(), NOTHING_HELD);
  }
  t.equal(sink.batches.length, 0);
  t.strictSame(listeners.logger.lines, []);
});

t.test('reserves bytes as they arrive, whatever size a request declares', async (t) => {
  const { url, held } = await served(t, { bodyRate: { bytesPerSecond: 0, period: 60_000 } });
  const wires = [];
  for (let i = 0; i < 4; i++) {
    const wire = await dial(url);
    wires.push(wire);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: ${MAX}\r\n\r\n`,
    );
  }
  await until(() => held().admissions >= 4);
  t.equal(held().bytes, 4 * FIRST_BYTES * COPIES, 'nothing has arrived');
  t.equal((await post(url, padded(MAX))).status, 202);
  wires[0]?.send(' '.repeat(MIB));
  await until(() => held().bytes >= COPIES * MIB);
  t.ok(held().bytes <= (2 * MIB + 4 * FIRST_BYTES) * COPIES, 'at most about twice of what arrived');
  for (const wire of wires) wire.close();
  await until(() => held().admissions === 0);
  t.strictSame(held(), NOTHING_HELD);
});

t.test('accepts the largest body, compressed or not, with the default limit', async (t) => {
  const { url, held } = await served(t, { inFlightBytes: 96 * MIB });
  t.equal((await post(url, padded(MAX))).status, 202);
  const stored = gzipSync(padded(MAX - 65_536), { level: 0 });
  t.equal((await post(url, stored, { 'content-encoding': 'gzip' })).status, 202, 'incompressible');
  t.strictSame(held(), NOTHING_HELD);
});

t.test('refuses a body that can never fit before it is read', async (t) => {
  const most = 3.5 * MIB;
  // An eighth is a reserve.
  const { url, held } = await served(t, { inFlightBytes: (most * COPIES * 8) / 7 });
  t.equal((await post(url, padded(most))).status, 202);
  for (const body of [padded(most + 1), chunked(padded(most + 1))]) {
    const { status, json } = await post(url, body);
    t.equal(status, 413);
    t.match(json, { code: 'body_too_large', message: /3\.5 MiB/ });
  }
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers 408 to a body that arrives too slowly, and releases everything', async (t) => {
  const bodyRate = { bytesPerSecond: 10_000, period: 100 };
  const { url, held } = await served(t, { bodyRate });
  for (const sent of [0, 999]) {
    const wire = await dial(url);
    wire.send(
      `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: ${MIB}\r\n\r\n${' '.repeat(sent)}`,
    );
    const { status, body } = await wire.answer();
    t.equal(status, 408);
    t.match(String(body), /more slowly than 10000 bytes per second/);
    await wire.ended();
  }
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers a malformed chunk 400 and releases everything', async (t) => {
  const { url, held } = await served(t);
  const wire = await dial(url);
  wire.send(
    `POST ${PATH} HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\n` +
      'Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n',
  );
  t.equal((await wire.answer()).status, 400);
  await wire.ended();
  await until(() => held().admissions === 0);
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers failures of the pipeline 503, and logs faults', async (t) => {
  const { url, sink, listeners, held } = await served(t);
  sink.behave(() => {
    throw new RetryableError('queue_full', 'The queue is full.', { retryAfterMs: 3000 });
  });
  const full = await post(url, events());
  t.equal(full.status, 503);
  t.equal(full.headers.get('retry-after'), '3');
  t.equal(full.json.message, 'The queue is full.');
  t.strictSame(listeners.logger.lines, []);
  for (const error of [new PermanentError('never', 'never'), new TypeError('fault')]) {
    sink.behave(() => Promise.reject(error));
    t.equal((await post(url, events())).status, 503);
  }
  t.strictSame(
    listeners.logger.lines.map(({ level }) => level),
    ['warn', 'error'],
  );
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers 503 at the deadline, and lets the step in progress finish', async (t) => {
  const stuck = Promise.withResolvers<void>();
  const { url, sink, held, refusals } = await served(t, {
    pipeline: (sink) => ({
      answerWithin: 50,
      accept: acceptInto(sink, () => stuck.promise),
    }),
  });
  const { status, headers, json } = await post(url, events());
  t.equal(status, 503);
  t.equal(headers.get('retry-after'), '1');
  t.match(json, { code: 'unavailable' });
  t.same(refusals, ['unavailable']);
  t.not(held().bytes, 0, 'the bytes are held until the pipeline has finished');
  stuck.resolve();
  await until(() => held().bytes === 0);
  t.same(held(), NOTHING_HELD);
  t.equal(sink.requests.at(-1)?.signal.aborted, true, 'a slow store can see it');
  t.same(refusals, ['unavailable'], 'refused once');
});

t.test('stops after an admission past the deadline, which all steps share', async (t) => {
  const late = Promise.withResolvers<void>();
  let released = 0;
  const { url, sink } = await served(t, {
    pipeline: () => ({
      answerWithin: 50,
      async admit() {
        await late.promise;
        return { tenant: aTenant(), release: () => void released++ };
      },
    }),
  });
  t.equal((await post(url, events())).status, 503);
  late.resolve();
  await until(() => released !== 0);
  t.same(sink.batches, [], 'no batch reaches the pipeline');

  const clock = fakeClock();
  let isAnswered = false;
  const deadline = requestDeadline(100, clock, () => {
    isAnswered = true;
  });
  const first = Promise.withResolvers<void>();
  const waited = deadline.wait(first.promise);
  clock.advance(60);
  first.resolve();
  await waited;
  const second = Promise.withResolvers<void>();
  const waitedMore = deadline.wait(second.promise);
  clock.advance(39);
  t.notOk(isAnswered);
  clock.advance(1);
  t.ok(
    isAnswered && deadline.signal.aborted,
    'the second step has the time that the first one left',
  );
  second.resolve();
  await waitedMore;
});

t.test('tells when an hourly limit resets', async (t) => {
  const { url } = await served(t, {
    pipeline: () => ({
      admit() {
        throw new Refusal('hourly_limit', 'Enough for this hour.', {
          retryAfterMs: 60_000,
          hourlyIngestResetAt: '2026-01-15T13:00:00.000Z',
        });
      },
    }),
  });
  const { status, json, headers } = await post(url, events());
  t.equal(status, 429);
  t.equal(headers.get('retry-after'), '60');
  t.equal(json.hourly_ingest_reset_at, '2026-01-15T13:00:00.000Z');
});

t.test(
  'replays, refuses or delays a repeated Idempotency-Key, and refuses it without a ledger',
  async (t) => {
    const ledger = memoryLedger();
    let gate = Promise.resolve();
    let entered = (): void => {};
    const { url, sink } = await served(t, {
      pipeline: (sink) => ({
        idempotency: ledger,
        async accept(batch, request) {
          entered();
          await gate;
          const sealed = await acceptInto(sink)(batch, request);
          ledger.keep(sealed, request);
          return sealed;
        },
      }),
    });
    const key = { 'idempotency-key': 'k1' };
    const first = await post(url, events(), key);
    const again = await post(url, events(), key);
    t.equal(again.status, 202);
    t.strictSame(again.json, first.json);
    t.equal(sink.batches.length, 1);
    const other = await post(url, events(2), key);
    t.equal(other.status, 409);
    t.equal(other.json.code, 'idempotency_conflict');

    const open = Promise.withResolvers<void>();
    gate = open.promise;
    const slow = { 'idempotency-key': 'k2' };
    const under = Promise.withResolvers<void>();
    entered = under.resolve;
    const waiting = post(url, events(), slow);
    await under.promise;
    const early = await post(url, events(), slow);
    t.equal(early.status, 409);
    t.equal(early.json.code, 'idempotency_in_progress');
    t.equal(early.headers.get('retry-after'), '1');
    open.resolve();
    t.equal((await waiting).status, 202);

    const long = { 'idempotency-key': 'k'.repeat(255) };
    t.equal((await post(url, events(), long)).status, 202);
    t.equal((await post(url, events(), { 'idempotency-key': 'k'.repeat(256) })).status, 400);
    const without = await served(t);
    const refused = await post(without.url, events(), key);
    t.equal(refused.status, 400);
    t.equal(refused.json.code, 'invalid_request');
  },
);

t.test('claims the implicit key of a request to several exporters', async (t) => {
  const ledger = memoryLedger();
  let gate = Promise.resolve();
  let entered = (): void => {};
  const { url, sink } = await served(t, {
    repeats: repeatsOf({ enabled: true, window: 600_000, max_entries: 100 }),
    pipeline: (sink) => ({
      idempotency: ledger,
      branches: ['a', 'b'].map((exporterId) => ({ exporterId, consume: async () => {} })),
      async accept(batch, request) {
        entered();
        await gate;
        const sealed = await acceptInto(sink)(batch, request);
        ledger.keep(sealed, request);
        return sealed;
      },
    }),
  });
  const first = await post(url, events());
  const again = await post(url, events());
  t.strictSame(again.json, first.json);
  t.equal(sink.batches.length, 1, 'a repetition reaches no exporter');
  t.match(sink.requests[0]?.answer, { keptFor: 600_000, isUnclaimed: false });

  const open = Promise.withResolvers<void>();
  gate = open.promise;
  const under = Promise.withResolvers<void>();
  entered = under.resolve;
  const waiting = post(url, events(2));
  await under.promise;
  const early = await post(url, events(2));
  t.same(
    [early.status, early.json.code, early.headers.get('retry-after')],
    [503, 'unavailable', '1'],
  );
  open.resolve();
  t.equal((await waiting).status, 202);
  sink.behave('retryable');
  t.equal((await post(url, events(3))).status, 503);
  sink.behave('ok');
  t.equal((await post(url, events(3))).status, 202, 'a failed request releases its claim');
});

t.test('takes a body that was compressed again later for the same request', async (t) => {
  const ledger = memoryLedger();
  const { url, sink } = await served(t, {
    repeats: repeatsOf({ enabled: true, window: 600_000, max_entries: 100 }),
    pipeline: () => ({ idempotency: ledger }),
  });
  const keyOf = async (body: Buffer, encoding = 'gzip') => {
    t.equal((await post(url, body, { 'content-encoding': encoding })).status, 202);
    return sink.requests.at(-1)?.answer?.key;
  };
  const at = (time: number, count = 1) => {
    const body = gzipSync(events(count));
    body.writeUInt32LE(time, 4);
    return body;
  };
  const expected = await keyOf(at(0));
  for (const time of [1, 0x7fffffff, 0xffffffff]) t.equal(await keyOf(at(time)), expected);
  t.not(await keyOf(at(1, 2)), expected);
  t.not(await keyOf(events(), 'identity'), expected);
  const flags = at(1);
  flags.writeUInt8(flags.readUInt8(8) ^ 1, 8);
  t.not(await keyOf(flags), expected, 'the other bytes of the header count');
});

t.test('releases the claim of a failed request', async (t) => {
  const ledger = memoryLedger();
  const { url, sink } = await served(t, { pipeline: () => ({ idempotency: ledger }) });
  const key = { 'idempotency-key': 'k' };
  sink.behave('retryable');
  t.equal((await post(url, events(), key)).status, 503);
  t.equal((await post(url, '{', key)).status, 400);
  sink.behave('ok');
  t.equal((await post(url, events(), key)).status, 202);
});

t.test('logs refusals and rejections for the project of the key, without payloads', async (t) => {
  const tenant = aTenant({ keyId: 'key_known' });
  const turnedAway = (code: 'unauthorized' | 'forbidden', known: boolean) => {
    const refusal = new Refusal(code, 'no');
    if (known) refusal.tenant = tenant;
    return refusal;
  };
  const { url, log, refusals } = await served(t, {
    pipeline: (sink) => ({
      admit({ headers }) {
        const who = headers.get('x-api-key')?.[0];
        if (who === 'unknown') throw turnedAway('unauthorized', false);
        if (who === 'reader') throw turnedAway('forbidden', true);
        return { tenant, release() {} };
      },
      accept: acceptInto(sink, (batch) => {
        const faulty = batch.requestItems > 20 ? batch.requestItems : batch.requestItems - 1;
        for (let item = 0; item < faulty; item++) {
          const code = item % 2 === 0 ? 'invalid_field' : 'missing_field';
          reject(batch, item, code, 'is wrong', `events[${item}].kind`);
        }
      }),
    }),
  });
  const post = async (body: string, headers: Record<string, string> = {}) => {
    log.length = 0;
    refusals.length = 0;
    const all = { 'content-type': 'application/json', ...headers };
    await (await fetch(url, { method: 'POST', headers: all, body })).arrayBuffer();
    return { log: [...log], refusals: [...refusals] };
  };
  const events = (count: number) =>
    JSON.stringify({
      events: Array.from({ length: count }, (_, i) => nativeEvent({ id: `id-${i}` })),
    });
  const common = { projectId: 'proj_test', keyId: 'key_known', path: PATH };

  t.same(await post(events(1), { 'x-api-key': 'unknown' }), {
    log: [],
    refusals: ['unauthorized'],
  });
  t.match(await post(events(1), { 'x-api-key': 'reader' }), {
    log: [{ ...common, code: 'forbidden', reason: 'no', itemId: null, count: 1 }],
    refusals: ['forbidden'],
  });
  const broken = await post('{"events":[{"secret":"S3CR3T"');
  t.match(broken, {
    log: [{ ...common, code: 'invalid_json', itemId: null, count: 1 }],
    refusals: ['invalid_json'],
  });
  t.notMatch(JSON.stringify(broken.log), /S3CR3T/);
  t.match(await post(events(3)), {
    log: [
      { ...common, code: 'invalid_field', reason: /events\[0\]/, itemId: 'id-0', count: 1 },
      { ...common, code: 'missing_field', reason: /events\[1\]/, itemId: 'id-1', count: 1 },
    ],
    refusals: [],
  });
  const many = await post(events(101));
  t.equal(many.log.length, 2, 'rejections of one kind are one entry');
  t.match(many.log, [
    { code: 'invalid_field', reason: 'events[*].kind is wrong', itemId: 'id-0', count: 51 },
    { code: 'missing_field', reason: 'events[*].kind is wrong', itemId: 'id-1', count: 50 },
  ]);
  t.same(many.refusals, [], 'rejected items refuse no request');
});
