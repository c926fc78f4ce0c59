import { deflateSync, gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { config as otlpConfig } from '../../../receivers/otlp/config.ts';
import { createReceiver as createOtlpReceiver } from '../../../receivers/otlp/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import type { Pipeline } from '../../../src/component/component.ts';
import { LISTENERS } from '../../../src/http/listener.ts';

import { Refusal, RetryableError } from '../../../src/model/errors.ts';
import { reject } from '../../../src/model/verbs.ts';
import { aTenant, otlpJsonBody, otlpProtoBody } from '../../helper/batches.ts';
import { testListeners } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import type { Sink } from '../../helper/sink.ts';
import { acceptInto, createSink, sinkPipeline } from '../../helper/sink.ts';

const PROTOBUF = 'application/x-protobuf';
const JSON_TYPE = 'application/json';

async function receiving(
  t: Test,
  more: { http?: object; pipeline?: (sink: Sink) => Partial<Pipeline> } = {},
) {
  const listeners = testListeners();
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  const receiver = createOtlpReceiver(
    testSettings('receiver', 'otlp', { host, logger: listeners.logger }),
    otlpConfig.parse({ protocols: { http: { endpoint: '127.0.0.1:0', ...more.http } } }),
    sinkPipeline(sink, more.pipeline?.(sink)),
  );
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    await listeners.close();
  });
  const base = listeners.served()[0]?.url ?? '';
  const post = async (
    body: Buffer | string,
    headers: Record<string, string>,
    path = '/v1/traces',
  ) => {
    const answered = await fetch(base + path, { method: 'POST', headers, body });
    return {
      status: answered.status,
      type: answered.headers.get('content-type'),
      headers: answered.headers,
      body: Buffer.from(await answered.arrayBuffer()),
    };
  };
  return { base, post, sink, listeners };
}

function spans(count: number): { spanId: string }[] {
  return Array.from({ length: count }, (_, i) => ({
    spanId: (i + 1).toString(16).padStart(16, '0'),
  }));
}

/** A google.rpc.Status with this code, in the encoding asked for. */
function isStatus(t: Test, type: string, got: { type: string | null; body: Buffer }, code: number) {
  t.equal(got.type, type);
  if (type === JSON_TYPE) {
    const status = JSON.parse(String(got.body)) as { code: number; message: string };
    t.equal(status.code, code);
    t.type(status.message, 'string');
    return;
  }
  t.strictSame([...got.body.subarray(0, 3)], [0x08, code, 0x12]);
}

t.test('accepts spans in both encodings, compressed or not, at every path', async (t) => {
  const { post, sink } = await receiving(t);
  const paths = [
    ...['/api/public/otel/v1/traces', '/v1/traces', '/api/v1/otel/v1/traces', '/otel/v1/traces'],
    '/api/otel/v1/traces',
  ];
  for (const path of paths.flatMap((each) => [each, `${each}/`])) {
    for (const [type, body] of [
      [PROTOBUF, otlpProtoBody(spans(2))],
      [JSON_TYPE, otlpJsonBody(spans(2))],
      [`${JSON_TYPE}; charset=utf-8`, otlpJsonBody(spans(2))],
    ] as const) {
      const plain = await post(body, { 'content-type': type }, path);
      t.equal(plain.status, 200, `${type} ${path}`);
      t.equal(plain.type, type === PROTOBUF ? PROTOBUF : JSON_TYPE);
      t.equal(String(plain.body), type === PROTOBUF ? '' : '{}');
      const gzip = { 'content-type': type, 'content-encoding': 'gzip' };
      t.equal((await post(gzipSync(body), gzip, path)).status, 200);
    }
  }
  t.equal(sink.batches.length, 60);
  t.match(sink.batches.slice(0, 4), [
    { format: 'otlp_proto', encoding: 'identity', requestItems: 2 },
    { format: 'otlp_proto', encoding: 'gzip', requestItems: 2 },
    { format: 'otlp_json', encoding: 'identity', requestItems: 2 },
    { format: 'otlp_json', encoding: 'gzip', requestItems: 2 },
  ]);
});

t.test('accepts spans in deflate', async (t) => {
  const { post, sink } = await receiving(t);
  const headers = { 'content-type': PROTOBUF, 'content-encoding': 'deflate' };
  t.equal((await post(deflateSync(otlpProtoBody(spans(2))), headers)).status, 200);
  t.match(sink.batches.at(-1), { format: 'otlp_proto', encoding: 'gzip', requestItems: 2 });
});

t.test('answers an empty request with success and passes on no batch', async (t) => {
  const { post, sink } = await receiving(t);
  const proto = await post(Buffer.alloc(0), { 'content-type': PROTOBUF });
  t.equal(proto.status, 200);
  t.equal(proto.body.length, 0);
  for (const body of ['{}', '{"resourceSpans":[]}']) {
    const json = await post(body, { 'content-type': JSON_TYPE });
    t.equal(json.status, 200);
    t.equal(String(json.body), '{}');
  }
  t.equal(sink.batches.length, 0);
});

t.test('reports rejected spans as a partial success, even if all are rejected', async (t) => {
  const pipeline = (sink: Sink): Partial<Pipeline> => ({
    accept: acceptInto(sink, (batch) => {
      reject(batch, 0, 'invalid_custom_fields', 'spans[0].attributes.custom_fields');
    }),
  });
  const { post } = await receiving(t, { pipeline });
  for (const count of [1, 2]) {
    const json = await post(otlpJsonBody(spans(count)), { 'content-type': JSON_TYPE });
    t.equal(json.status, 200);
    t.match(JSON.parse(String(json.body)), {
      partialSuccess: { rejectedSpans: 1, errorMessage: /custom_fields/ },
    });
    const proto = await post(otlpProtoBody(spans(count)), { 'content-type': PROTOBUF });
    t.equal(proto.status, 200);
    t.equal(proto.body[0], 0x0a, 'field 1, partial_success');
    t.match(String(proto.body), 'custom_fields');
  }
});

t.test('accepts 1,000 spans and refuses 1,001 with 413, unless more are allowed', async (t) => {
  const { post, sink } = await receiving(t);
  const larger = await receiving(t, { http: { max_spans_per_request: 8192 } });
  for (const [type, bodyOf] of [
    [PROTOBUF, otlpProtoBody],
    [JSON_TYPE, otlpJsonBody],
  ] as const) {
    const headers = { 'content-type': type };
    t.equal((await post(bodyOf(spans(1000)), headers)).status, 200);
    const refused = await post(bodyOf(spans(1001)), headers);
    t.equal(refused.status, 413);
    isStatus(t, type, refused, 3);
    t.equal((await larger.post(bodyOf(spans(8192)), headers)).status, 200);
    t.equal((await larger.post(bodyOf(spans(8193)), headers)).status, 413);
  }
  t.equal(sink.batches.length, 2);
});

t.test('renders refusals as a status in the encoding of the request', async (t) => {
  const { post, sink } = await receiving(t);
  const proto = { 'content-type': PROTOBUF };
  const json = { 'content-type': JSON_TYPE };
  for (const [what, status, type, body, headers] of [
    ['broken protobuf', 400, PROTOBUF, Buffer.from('0a7f41', 'hex'), proto],
    ['broken JSON', 400, JSON_TYPE, '{', json],
    ['JSON of another shape', 400, JSON_TYPE, '{"resourceSpans":{}}', json],
    ['no type', 415, PROTOBUF, otlpProtoBody(spans(1)), {}],
    ['another type', 415, PROTOBUF, otlpProtoBody(spans(1)), { 'content-type': 'text/plain' }],
    ['no real type', 415, PROTOBUF, otlpProtoBody(spans(1)), { 'content-type': ';;;' }],
    ['nearly JSON', 415, PROTOBUF, '{}', { 'content-type': 'application/json-seq' }],
    ['zstd', 415, PROTOBUF, Buffer.from('x'), { ...proto, 'content-encoding': 'zstd' }],
    ['two encodings', 415, JSON_TYPE, '{}', { ...json, 'content-encoding': 'gzip, gzip' }],
    ['no deflate', 400, JSON_TYPE, '{}', { ...json, 'content-encoding': 'deflate' }],
    ['no gzip', 400, JSON_TYPE, '{}', { ...json, 'content-encoding': 'gzip' }],
    [
      'gzip twice',
      400,
      PROTOBUF,
      gzipSync(gzipSync(otlpProtoBody(spans(1)))),
      { ...proto, 'content-encoding': 'gzip' },
    ],
    [
      'a bomb',
      413,
      PROTOBUF,
      gzipSync(Buffer.alloc(26_214_401)),
      { ...proto, 'content-encoding': 'gzip' },
    ],
  ] as [string, number, string, Buffer | string, Record<string, string>][]) {
    const got = await post(body, headers);
    t.equal(got.status, status, what);
    isStatus(t, type, got, 3);
  }
  t.equal(sink.batches.length, 0);
});

t.test('names the encodings that it accepts if it refuses the encoding', async (t) => {
  const { post } = await receiving(t);
  for (const encoding of ['zstd', 'snappy', 'gzip, gzip']) {
    const got = await post(otlpProtoBody(spans(1)), {
      'content-type': PROTOBUF,
      'content-encoding': encoding,
    });
    t.equal(got.status, 415);
    t.equal(got.headers.get('accept-encoding'), 'identity, gzip, deflate');
  }
  // RFC 9110: without the header a 415 is about the content type.
  const ofType = await post('', { 'content-type': 'text/plain' });
  t.equal(ofType.headers.get('accept-encoding'), null);
});

t.test('gives a refusal of the pipeline its status and code', async (t) => {
  let failure: Error = new Refusal('unauthorized', 'no');
  const pipeline = (): Partial<Pipeline> => ({
    admit() {
      throw failure;
    },
  });
  const { post } = await receiving(t, { pipeline });
  for (const [error, status, code] of [
    [new Refusal('unauthorized', 'no'), 401, 16],
    [new Refusal('forbidden', 'no'), 403, 7],
    [new Refusal('monthly_limit', 'no', { retryAfterMs: 1000 }), 402, 8],
    [new Refusal('hourly_limit', 'no', { retryAfterMs: 1000 }), 429, 8],
    [new Refusal('idempotency_conflict', 'no'), 409, 10],
    [new RetryableError('queue_full', 'full', { retryAfterMs: 1000 }), 503, 14],
  ] as const) {
    failure = error;
    for (const [type, body] of [
      [PROTOBUF, otlpProtoBody(spans(1))],
      [JSON_TYPE, otlpJsonBody(spans(1))],
    ] as const) {
      const got = await post(body, { 'content-type': type });
      t.equal(got.status, status);
      isStatus(t, type, got, code);
      if (status === 503 || status === 429) t.equal(got.headers.get('retry-after'), '1');
    }
  }
});

t.test('answers another method with 405 and a status', async (t) => {
  const { base } = await receiving(t);
  const got = await fetch(`${base}/v1/traces`, { headers: { 'content-type': JSON_TYPE } });
  t.equal(got.status, 405);
  t.equal(got.headers.get('allow'), 'POST');
  t.match(await got.json(), { code: 12 });
});

t.test('gives an empty protocol its defaults, and requires at least one', async (t) => {
  t.match(otlpConfig.parse({ protocols: { http: null } }), {
    protocols: { http: { endpoint: '127.0.0.1:4318', max_spans_per_request: 1000 } },
  });
  t.match(otlpConfig.parse({ protocols: { grpc: null } }), {
    protocols: { grpc: { endpoint: '127.0.0.1:4317', max_recv_msg_size_mib: 25 } },
  });
  t.notOk(otlpConfig.safeParse({ protocols: {} }).success);
  t.notOk(otlpConfig.safeParse({}).success);
  t.notOk(otlpConfig.safeParse({ protocols: { http: { max_spans_per_request: 0 } } }).success);
});

const POINTS = {
  resourceMetrics: [{ scopeMetrics: [{ metrics: [{ sum: { dataPoints: [1, 2] } }] }] }],
};

t.test('answers metrics with success, and rejects every data point', async (t) => {
  const { post, sink, listeners } = await receiving(t);
  const json = { 'content-type': JSON_TYPE };
  const body = JSON.stringify(POINTS);
  const paths = ['/v1/metrics', '/v1/metrics/', '/api/public/otel/v1/metrics', '/otel/v1/metrics'];
  for (const path of [...paths, '/api/v1/otel/v1/metrics']) {
    const got = await post(body, json, path);
    t.equal(got.status, 200, path);
    t.match(JSON.parse(String(got.body)), {
      partialSuccess: { rejectedDataPoints: 2, errorMessage: /OTEL_METRICS_EXPORTER=none/ },
    });
  }
  const gzip = { ...json, 'content-encoding': 'gzip' };
  t.match(String((await post(gzipSync(body), gzip, '/v1/metrics')).body), '"rejectedDataPoints":2');
  const large = JSON.stringify({ ...POINTS, more: ' '.repeat(524_288) });
  const unread = await post(large, json, '/v1/metrics');
  t.match(String(unread.body), '"rejectedDataPoints":0,"errorMessage":"Metrics are not stored');
  const proto = { 'content-type': PROTOBUF };
  // One gauge with one point, from the outermost message to the point.
  const point = Buffer.from('0a08120612042a020a00', 'hex');
  const counted = await post(point, proto, '/v1/metrics');
  t.equal(counted.status, 200);
  t.equal(counted.type, PROTOBUF);
  t.strictSame([...counted.body.subarray(0, 1)], [0x0a], 'partial_success');
  t.equal((await post(Buffer.alloc(0), proto, '/v1/metrics')).body.length, 0, 'an empty request');
  t.equal(sink.batches.length, 0);
  const lines = listeners.logger.lines.filter(({ message }) => /Metrics arrive/.test(message));
  t.equal(lines.length, 1, 'one line an hour');
  t.equal(listeners.bytesInFlight.held, 0);
});

t.test('refuses metrics without a key, and bodies that are none', async (t) => {
  const { post, listeners } = await receiving(t, {
    pipeline: () => ({
      admitRead(head, _fallback, permission) {
        t.equal(permission, 'ingest:write');
        if (!head.headers.has('x-api-key')) throw new Refusal('unauthorized', 'No key.');
        return { tenant: aTenant(), release() {} };
      },
    }),
  });
  const json = { 'content-type': JSON_TYPE };
  const keyed = { ...json, 'x-api-key': 'k' };
  for (const [body, headers, status] of [
    ['{}', json, 401],
    ['{', keyed, 400],
    ['x', { ...keyed, 'content-encoding': 'gzip' }, 400],
    ['{}', { ...keyed, 'content-encoding': 'br' }, 415],
    ['{}', { ...keyed, 'content-type': 'text/plain' }, 415],
    ['{}', keyed, 200],
  ] as const) {
    t.equal((await post(body, headers, '/v1/metrics')).status, status);
  }
  t.equal(listeners.bytesInFlight.held, 0);
});
