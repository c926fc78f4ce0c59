import { connect } from 'node:net';
import { deflateSync, gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { config as otlpConfig } from '../../../receivers/otlp/config.ts';
import { createReceiver as createOtlpReceiver } from '../../../receivers/otlp/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock, Pipeline, RequestHead } from '../../../src/component/component.ts';
import { createGrpcListeners, GRPC_LISTENERS } from '../../../src/grpc/listener.ts';
import { COPIES } from '../../../src/http/body.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import { rawOf } from '../../../src/model/batch.ts';
import type { RefusalCode, RefusalOptions } from '../../../src/model/errors.ts';
import { PermanentError, Refusal, RetryableError } from '../../../src/model/errors.ts';
import { indexOf } from '../../../src/model/formats.ts';
import { reject } from '../../../src/model/verbs.ts';
import { decodeResponse } from '../../e2e/otlp-messages.ts';
import { aTenant, otlpProtoBody } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { bareClient, EXPORT, framed, GZIP, grpcClient } from '../../helper/grpc.ts';
import { NO_DEADLINE, testListeners } from '../../helper/http.ts';
import { http2Frame } from '../../helper/http2-frame.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import type { Sink } from '../../helper/sink.ts';
import { acceptInto, createSink, memoryLedger, sinkPipeline } from '../../helper/sink.ts';
import { advanceUntil, until } from '../../helper/until.ts';

const MIB = 1_048_576;

type Receiving = {
  grpc?: object;
  pipeline?: (sink: Sink) => Partial<Pipeline>;
  inFlightBytes?: number;
  /** Of the listeners. */
  clock?: Clock;
};

async function receiving(t: Test, { grpc, pipeline, inFlightBytes, clock }: Receiving = {}) {
  const listeners = testListeners(inFlightBytes, clock);
  const { logger, metrics } = listeners;
  const grpcListeners = createGrpcListeners({ logger, metrics, clock: systemClock });
  const services = [offer(LISTENERS, listeners), offer(GRPC_LISTENERS, grpcListeners)];
  const host = fakeHost({ services });
  const sink = createSink();
  const heads: RequestHead[] = [];
  let admissions = 0;
  const receiver = createOtlpReceiver(
    testSettings('receiver', 'otlp', { host, logger, metrics, clock: systemClock }),
    otlpConfig.parse({ protocols: { grpc: { endpoint: '127.0.0.1:0', ...grpc } } }),
    sinkPipeline(sink, {
      admit(head) {
        heads.push(head);
        admissions++;
        return { tenant: aTenant(), release: () => void admissions-- };
      },
      ...pipeline?.(sink),
    }),
  );
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    grpcListeners.close();
    await listeners.close();
  });
  const url = grpcListeners.served()[0]?.url ?? '';
  const client = grpcClient(t, url);
  /** Nothing is held any more; waits for what a client that left has set off. */
  const nothingHeld = async (): Promise<void> => {
    await until(() => admissions === 0 && listeners.bytesInFlight.held === 0);
  };
  return { url, client, sink, heads, receiver, listeners, metrics, logger, nothingHeld };
}

function spans(count: number, name?: string) {
  return Array.from({ length: count }, (_, i) => ({
    spanId: (i + 1).toString(16).padStart(16, '0'),
    ...(name === undefined ? {} : { name }),
  }));
}

/** A request of exactly so many bytes. */
function requestOf(bytes: number): Buffer {
  const around = otlpProtoBody(spans(1, 'n'.repeat(bytes))).length - bytes;
  const body = otlpProtoBody(spans(1, 'n'.repeat(bytes - around)));
  if (body.length !== bytes) throw new Error(`no request has ${bytes} bytes`);
  return body;
}

t.test('accepts spans unchanged, compressed or not', async (t) => {
  const { url, client, sink, heads, nothingHeld } = await receiving(t);
  const body = otlpProtoBody(spans(2));
  const plain = await client.call(body, { metadata: { authorization: 'Bearer k' } });
  t.match(plain, { code: 0, message: Buffer.alloc(0) });
  t.equal((await grpcClient(t, url, GZIP).call(body)).code, 0);
  const [first, second] = sink.batches.map(rawOf);
  t.match(first, { format: 'otlp_proto', encoding: 'identity', requestItems: 2, body });
  t.match(second, { format: 'otlp_proto', encoding: 'gzip', requestItems: 2 });
  t.ok(second !== undefined && indexOf(second).bytes.equals(body), 'inflated for the scan');
  t.match(heads[0], {
    transport: 'grpc',
    method: 'POST',
    path: EXPORT,
    remoteAddress: '127.0.0.1',
    declaredBytes: undefined,
  });
  t.strictSame(heads[0]?.headers.get('authorization'), ['Bearer k']);
  t.notOk(heads[0]?.headers.has(':path'));
  await nothingHeld();
});

t.test('answers an empty request with success and passes on no batch', async (t) => {
  const { client, sink } = await receiving(t);
  t.match(await client.call(Buffer.alloc(0)), { code: 0, message: Buffer.alloc(0) });
  t.equal(sink.batches.length, 0);
});

t.test('reports rejected spans as a partial success, even if all are rejected', async (t) => {
  const pipeline = (sink: Sink): Partial<Pipeline> => ({
    accept: acceptInto(sink, (batch) => {
      reject(batch, 0, 'invalid_custom_fields', 'spans[0].attributes.custom_fields');
    }),
  });
  const { client } = await receiving(t, { pipeline });
  for (const count of [1, 2]) {
    const { code, message } = await client.call(otlpProtoBody(spans(count)));
    t.equal(code, 0);
    t.match(decodeResponse(message), {
      rejectedSpans: 1,
      errorMessage: /invalid_custom_fields: spans\[0\]/,
    });
  }
});

t.test('gives every refusal its code, with RetryInfo if a retry can succeed', async (t) => {
  const cases: [RefusalCode, RefusalOptions, number, number | undefined][] = [
    ['unauthorized', {}, 16, undefined],
    ['forbidden', {}, 7, undefined],
    ['invalid_request', {}, 3, undefined],
    ['monthly_limit', { retryAfterMs: 86_400_000 }, 8, undefined],
    ['hourly_limit', { retryAfterMs: 61_500 }, 8, 61_500],
    ['rate_limited', { retryAfterMs: 250.5 }, 8, 251],
    ['exceeds_hourly_limit', {}, 3, undefined],
    ['idempotency_conflict', {}, 6, undefined],
    ['idempotency_in_progress', { retryAfterMs: 1000 }, 10, 1000],
    ['unavailable', { retryAfterMs: 5000 }, 14, 5000],
  ];
  let refusal = new Refusal('unavailable', '');
  const pipeline = (): Partial<Pipeline> => ({
    admit() {
      throw refusal;
    },
  });
  const { client, metrics, nothingHeld } = await receiving(t, { pipeline });
  for (const [name, options, code, retryAfterMs] of cases) {
    refusal = new Refusal(name, `Über \uD800 100%: ${name}\n`, options);
    const end = await client.call(otlpProtoBody(spans(1)));
    t.match(end, { code, details: `Über \uFFFD 100%: ${name}\n` }, name);
    t.equal(end.retryAfterMs, retryAfterMs, name);
    t.equal(metrics.value('tracectl_grpc_refusals_total', { code: name }), 1);
  }
  await nothingHeld();
});

t.test('maps every error of the pipeline to a code other than UNKNOWN', async (t) => {
  const thrown: [unknown, number, number][] = [
    [new RetryableError('queue_full', 'full', { retryAfterMs: 700 }), 14, 700],
    [new PermanentError('test', 'never'), 14, 5000],
    [new TypeError('a fault'), 14, 5000],
  ];
  for (const [error, code, retryAfterMs] of thrown) {
    const { client, nothingHeld } = await receiving(t, {
      pipeline: () => ({ accept: () => Promise.reject(error) }),
    });
    t.match(await client.call(otlpProtoBody(spans(1))), { code, retryAfterMs });
    await nothingHeld();
  }
});

t.test('refuses a body that is not OTLP', async (t) => {
  const { url, client, sink, nothingHeld } = await receiving(t);
  t.equal((await client.call(Buffer.from('garbage'))).code, 3);
  const gzip = ['grpc-encoding', 'gzip'];
  const whole = gzipSync(otlpProtoBody(spans(1)));
  const broken: [string, readonly string[], Buffer][] = [
    ['no gzip', gzip, framed(Buffer.from('garbage'), 1)],
    ['gzip cut short', gzip, framed(whole.subarray(0, 30), 1)],
    ['bytes after gzip', gzip, framed(Buffer.concat([whole, Buffer.from('more')]), 1)],
    ['compressed, not said how', [], framed(whole, 1)],
    ['an unknown flag', gzip, framed(whole, 2)],
    ['a message that ends early', [], framed(Buffer.from('abc'), 0, 10)],
    ['no message', [], Buffer.alloc(0)],
    ['half a prefix', [], Buffer.from([0, 0, 0])],
    ['two messages', [], Buffer.concat([framed(whole), framed(whole)])],
    ['a content type of JSON', ['content-type', 'application/grpc+json'], framed(whole)],
  ];
  const bare = bareClient(t, url);
  for (const [name, headers, bytes] of broken) {
    const call = bare.call(headers);
    call.stream.end(bytes);
    t.match(await call.end, { ':status': '200', 'grpc-status': '3' }, name);
  }
  t.equal(sink.batches.length, 0);
  await nothingHeld();
  const good = bare.call(gzip);
  good.stream.end(framed(otlpProtoBody(spans(1)), 0));
  t.match(await good.end, { 'grpc-status': '0' }, 'a call may leave a message as it is');
});

t.test('answers unknown encodings and methods with UNIMPLEMENTED', async (t) => {
  const { url, client } = await receiving(t);
  const bare = bareClient(t, url);
  for (const encoding of ['zstd', 'br', 'gzip, gzip']) {
    const call = bare.call(['grpc-encoding', encoding]);
    call.stream.end(framed(Buffer.alloc(0)));
    t.match(await call.end, {
      'grpc-status': '12',
      'grpc-accept-encoding': 'identity,deflate,gzip',
    });
  }
  const deflated = bare.call(['grpc-encoding', 'deflate']);
  deflated.stream.end(framed(deflateSync(otlpProtoBody(spans(1))), 1));
  t.match(await deflated.end, { 'grpc-status': '0' });
  const profiles = '/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export';
  t.equal((await client.call(Buffer.alloc(0), { path: profiles })).code, 12);
  t.equal((await client.call(Buffer.alloc(0), { path: '/' })).code, 12);
  const web = bare.call(['content-type', 'application/json'], '/v1/traces');
  t.match(await web.end, { ':status': '415' });
});

t.test('passes on both values of a repeated credential', async (t) => {
  const { url, heads } = await receiving(t);
  const call = bareClient(t, url).call([
    ...['authorization', 'Bearer a', 'authorization', 'Bearer b'],
    ...['x-api-key', 'a', 'x-api-key', 'b'],
  ]);
  call.stream.end(framed(Buffer.alloc(0)));
  await call.end;
  t.strictSame(heads[0]?.headers.get('authorization'), ['Bearer a', 'Bearer b']);
  t.strictSame(heads[0]?.headers.get('x-api-key'), ['a', 'b']);
});

t.test('checks the key before it reads the message', async (t) => {
  const { url, nothingHeld } = await receiving(t, {
    pipeline: () => ({ admit: () => Promise.reject(new Refusal('unauthorized', 'No key.')) }),
  });
  const call = bareClient(t, url).call();
  t.match(await call.end, { 'grpc-status': '16' });
  await nothingHeld();
});

t.test('resets a stream whose client continues to send a refused message', async (t) => {
  const { url } = await receiving(t, {
    pipeline: () => ({ admit: () => Promise.reject(new Refusal('forbidden', 'No.')) }),
  });
  const call = bareClient(t, url).call();
  call.stream.write(framed(Buffer.alloc(100), 0, 20 * MIB));
  const closed = new Promise((resolve) => call.stream.on('close', resolve));
  t.match(await call.end, { 'grpc-status': '7' });
  await closed;
  t.equal(call.stream.rstCode, 0, 'without an error, and without the client ending its side');
});

t.test('accepts spans up to the limit, and refuses a request with one more', async (t) => {
  const { client, sink } = await receiving(t, { grpc: { max_spans_per_request: 20 } });
  t.equal((await client.call(otlpProtoBody(spans(20)))).code, 0);
  t.match(await client.call(otlpProtoBody(spans(21))), { code: 3, details: /20/ });
  t.equal(sink.batches.length, 1);
});

t.test(
  'accepts a message of the largest size, and refuses one byte more without reading it',
  async (t) => {
    const { url, client, sink, nothingHeld } = await receiving(t, {
      grpc: { max_recv_msg_size_mib: 1 },
    });
    t.equal((await client.call(requestOf(MIB))).code, 0);
    t.match(await client.call(requestOf(MIB + 1)), { code: 3, details: /exceeds 1 MiB/ });
    const announced = bareClient(t, url).call();
    announced.stream.write(framed(Buffer.alloc(0), 0, MIB + 1));
    t.match(await announced.end, { 'grpc-status': '3' }, 'by its prefix alone');
    t.equal(sink.batches.length, 1);
    await nothingHeld();
  },
);

t.test('bounds the inflated message by the same size', async (t) => {
  const { url, sink, nothingHeld } = await receiving(t, { grpc: { max_recv_msg_size_mib: 1 } });
  const client = grpcClient(t, url, GZIP);
  t.equal((await client.call(requestOf(MIB))).code, 0);
  t.match(await client.call(requestOf(MIB + 1)), {
    code: 3,
    details: /inflated body exceeds 1 MiB/,
  });
  t.equal(sink.batches.length, 1);
  await nothingHeld();
});

t.test('allows 25 MiB, also for a compression bomb', async (t) => {
  const { url, client, sink, nothingHeld } = await receiving(t);
  t.equal((await client.call(requestOf(25 * MIB))).code, 0);
  t.match(await client.call(requestOf(25 * MIB + 1)), { code: 3, details: /25 MiB/ });
  const bomb = gzipSync(Buffer.alloc(100 * MIB));
  const before = process.memoryUsage().rss;
  const bare = bareClient(t, url);
  for (let i = 0; i < 10; i++) {
    const call = bare.call(['grpc-encoding', 'gzip']);
    call.stream.end(framed(bomb, 1));
    t.match(await call.end, { 'grpc-status': '3' });
  }
  t.ok(process.memoryUsage().rss - before < 200 * MIB, 'ten of them fill no memory');
  t.equal(sink.batches.length, 1);
  await nothingHeld();
});

t.test('bounds bytes in flight by the bytes of messages that arrived', async (t) => {
  const clock = fakeClock();
  const { url, client, listeners, nothingHeld } = await receiving(t, {
    clock,
    inFlightBytes: 4 * MIB * COPIES,
    // The first message rests for as long as the other calls take.
    grpc: { body_min_rate: 0 },
  });
  const bare = bareClient(t, url);
  const first = bare.call();
  first.stream.write(framed(Buffer.alloc(10), 0, 3 * MIB));
  await until(() => listeners.bytesInFlight.held !== 0);
  t.equal(
    (await client.call(requestOf(2 * MIB - 500))).code,
    0,
    'an announced size reserves nothing',
  );
  first.stream.write(Buffer.alloc(3 * MIB - 20));
  await until(() => listeners.bytesInFlight.held >= 2.9 * MIB * COPIES);
  let isRefused = false;
  const refused = client.call(requestOf(2 * MIB - 500)).finally(() => {
    isRefused = true;
  });
  await advanceUntil(clock, 100, () => isRefused);
  t.match(await refused, { code: 14, retryAfterMs: 1000 });
  t.equal((await client.call(otlpProtoBody(spans(1)))).code, 0, 'a small one still fits');
  first.stream.close(8);
  await nothingHeld();
  t.equal((await client.call(requestOf(2 * MIB - 500))).code, 0);
  await nothingHeld();
});

t.test('ends a call whose message does not arrive within its time', async (t) => {
  const { url, nothingHeld } = await receiving(t, { grpc: { read_timeout: '50ms' } });
  const call = bareClient(t, url).call();
  call.stream.write(framed(Buffer.alloc(10), 0, 1000));
  t.match(await call.end, { 'grpc-status': '4' });
  await nothingHeld();
});

t.test('a read_timeout of 0s is no limit', async (t) => {
  const { url, nothingHeld, heads } = await receiving(t, { grpc: { read_timeout: '0s' } });
  const { session, call } = bareClient(t, url);
  const { stream, end } = call();
  stream.write(framed(otlpProtoBody(spans(1))).subarray(0, 7));
  await until(() => heads.length === 1);
  for (let i = 0; i < 20; i++) await new Promise((resolve) => session.ping(resolve));
  stream.end(framed(otlpProtoBody(spans(1))).subarray(7));
  t.match(await end, { 'grpc-status': '0' });
  await nothingHeld();
});

t.test('ends a call whose message arrives too slowly', async (t) => {
  const grpc = { body_min_rate: 10_000, body_rate_period: '100ms' };
  const { url, nothingHeld } = await receiving(t, { grpc });
  const call = bareClient(t, url).call();
  call.stream.write(framed(Buffer.alloc(994), 0, MIB));
  t.match(await call.end, { 'grpc-status': '4', 'grpc-message': /more%20slowly|more slowly/ });
  await nothingHeld();
});

t.test('releases everything when a client disconnects, at any point', async (t) => {
  const consuming = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const { url, client, nothingHeld, logger } = await receiving(t, {
    pipeline: (sink) => ({
      accept: acceptInto(sink, () => {
        consuming.resolve();
        return finish.promise;
      }),
    }),
  });
  const bare = bareClient(t, url);
  for (const sent of [Buffer.alloc(0), Buffer.from([0, 0]), framed(Buffer.alloc(10), 0, MIB)]) {
    const call = bare.call();
    call.stream.write(sent);
    await new Promise((resolve) => bare.session.ping(resolve));
    call.stream.close(8);
    await call.end;
    await nothingHeld();
  }
  const cancelled = client.call(otlpProtoBody(spans(1)), { cancel: consuming.promise });
  t.equal((await cancelled).code, 1);
  finish.resolve();
  await nothingHeld();
  t.strictSame(logger.lines, []);
});

t.test('ends a call at the deadline of its client, and finishes its batch', async (t) => {
  const finish = Promise.withResolvers<void>();
  const { client, sink, nothingHeld } = await receiving(t, {
    pipeline: (sink) => ({
      accept: acceptInto(sink, () => finish.promise),
    }),
  });
  t.equal((await client.call(otlpProtoBody(spans(1)), { deadlineMs: 100 })).code, 4);
  finish.resolve();
  await nothingHeld();
  t.equal(sink.batches.length, 1);
});

t.test('accepts a hundred concurrent calls', async (t) => {
  const { url, sink, nothingHeld } = await receiving(t, { grpc: { max_concurrent_streams: 10 } });
  const clients = [grpcClient(t, url), grpcClient(t, url, GZIP)];
  const ends = await Promise.all(
    Array.from({ length: 100 }, (_, i) => clients[i % 2]?.call(otlpProtoBody(spans(i + 1)))),
  );
  t.ok(ends.every((end) => end?.code === 0));
  const counts = sink.batches.map((batch) => rawOf(batch).requestItems).sort((a, b) => a - b);
  t.strictSame(
    counts,
    spans(100).map((_, i) => i + 1),
  );
  await nothingHeld();
});

t.test('makes a call with an idempotency key repeatable', async (t) => {
  const ledger = memoryLedger();
  const pipeline = (sink: Sink): Partial<Pipeline> => ({
    idempotency: ledger,
    async accept(batch, request) {
      reject(batch, 0, 'invalid_field', 'spans[0].name');
      const sealed = await acceptInto(sink)(batch, request);
      ledger.keep(sealed, request);
      return sealed;
    },
  });
  const { client, sink } = await receiving(t, { pipeline });
  const metadata = { 'idempotency-key': 'k-1' };
  const first = await client.call(otlpProtoBody(spans(2)), { metadata });
  const again = await client.call(otlpProtoBody(spans(2)), { metadata });
  t.ok(first.message.length > 0 && first.message.equals(again.message));
  t.equal(
    (await client.call(otlpProtoBody(spans(3)), { metadata })).code,
    6,
    'no exporter repeats it',
  );
  t.equal(sink.batches.length, 1);
  t.equal(
    (await client.call(otlpProtoBody(spans(3)), { metadata: { 'idempotency-key': '' } })).code,
    3,
  );
});

t.test('finishes calls in flight at a stop, and cuts them at the deadline', async (t) => {
  const arrived: (() => void)[] = [];
  const underWay = () => new Promise<void>((resolve) => arrived.push(resolve));
  const finish = Promise.withResolvers<void>();
  const pipeline = (sink: Sink): Partial<Pipeline> => ({
    accept: acceptInto(sink, () => {
      arrived.shift()?.();
      return finish.promise;
    }),
  });
  const graceful = await receiving(t, { pipeline });
  let begun = underWay();
  const finished = graceful.client.call(otlpProtoBody(spans(1)));
  await begun;
  const stopped = graceful.receiver.shutdown(NO_DEADLINE);
  t.equal((await grpcClient(t, graceful.url).call(Buffer.alloc(0))).code, 14, 'the port is closed');
  finish.resolve();
  t.equal((await finished).code, 0);
  await stopped;

  const cut = await receiving(t, {
    pipeline: () => ({
      accept() {
        arrived.shift()?.();
        return new Promise(() => {});
      },
    }),
  });
  begun = underWay();
  const lost = cut.client.call(otlpProtoBody(spans(1)));
  await begun;
  const deadline = new AbortController();
  const ended = cut.receiver.shutdown(deadline.signal);
  deadline.abort();
  await ended;
  t.not((await lost).code, 0, 'not acknowledged');
});

t.test('serves the next call after any bytes on the port', async (t) => {
  const { url, client, logger, nothingHeld } = await receiving(t);
  const { port, hostname } = new URL(url);
  const speak = (bytes: Buffer | string): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(Number(port), hostname, () => socket.end(bytes));
      socket.on('error', () => {}).on('close', () => resolve());
      socket.resume();
    });
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
  await speak('POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}');
  await speak(Buffer.alloc(70_000, 0xff));
  await speak('');
  await speak(preface);
  await speak(Buffer.concat([Buffer.from(preface), Buffer.alloc(5000, 0x41)]));
  await speak(
    Buffer.concat([
      Buffer.from(preface),
      http2Frame(4, 0, 0),
      http2Frame(1, 4, 1, Buffer.from([0xff])),
    ]),
  );
  await speak(
    Buffer.concat([
      Buffer.from(preface),
      http2Frame(4, 0, 0),
      http2Frame(0, 1, 1, Buffer.alloc(9)),
    ]),
  );
  const huge = await client.call(Buffer.alloc(0), { metadata: { padding: 'x'.repeat(200_000) } });
  t.not(huge.code, 0);
  const many = Array.from({ length: 150 }, () => speak('GET / HTTP/1.1\r\n\r\n'));
  await Promise.all(many);
  t.equal((await grpcClient(t, url).call(otlpProtoBody(spans(1)))).code, 0);
  t.strictSame(logger.lines, []);
  await nothingHeld();
});

t.test('answers metrics with success, and rejects every data point', async (t) => {
  const { client, sink, nothingHeld } = await receiving(t);
  const path = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export';
  const point = Buffer.from('0a08120612042a020a00', 'hex');
  const got = await client.call(point, { path });
  t.match(got, { code: 0 });
  t.match(String(got.message), 'Metrics are not stored');
  t.match(await client.call(Buffer.from('0a7f41', 'hex'), { path }), { code: 3 });
  t.equal(sink.batches.length, 0);
  await nothingHeld();
});
