import { deflateSync, gzipSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { config as otlpConfig } from '../../../receivers/otlp/config.ts';
import { createReceiver } from '../../../receivers/otlp/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Pipeline } from '../../../src/component/component.ts';
import { createGrpcListeners, GRPC_LISTENERS } from '../../../src/grpc/listener.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { reject } from '../../../src/model/verbs.ts';
import { aTenant } from '../../helper/batches.ts';
import { EXPORT_LOGS, GZIP, grpcClient } from '../../helper/grpc.ts';
import { testListeners } from '../../helper/http.ts';
import { attributesOf, decodeResponse, encodeLogs, logsOf } from '../../helper/otlp-proto.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import type { Sink } from '../../helper/sink.ts';
import { acceptInto, createSink, sinkPipeline } from '../../helper/sink.ts';

const PROTOBUF = { 'content-type': 'application/x-protobuf' };
const JSON_TYPE = { 'content-type': 'application/json' };

async function receiving(
  t: Test,
  more: { fields?: object; pipeline?: (sink: Sink) => Partial<Pipeline> } = {},
) {
  const listeners = testListeners();
  const { logger, metrics } = listeners;
  const grpcListeners = createGrpcListeners({ logger, metrics, clock: systemClock });
  const services = [offer(LISTENERS, listeners), offer(GRPC_LISTENERS, grpcListeners)];
  const sink = createSink();
  const endpoint = { endpoint: '127.0.0.1:0', ...more.fields };
  const receiver = createReceiver(
    testSettings('receiver', 'otlp', { host: fakeHost({ services }), logger, metrics }),
    otlpConfig.parse({ protocols: { http: endpoint, grpc: endpoint } }),
    sinkPipeline(sink, {
      admit: () => ({ tenant: aTenant(), release() {} }),
      ...more.pipeline?.(sink),
    }),
  );
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    grpcListeners.close();
    await listeners.close();
  });
  const base = listeners.served()[0]?.url ?? '';
  const url = grpcListeners.served()[0]?.url ?? '';
  const post = async (
    body: Buffer | string,
    headers: Record<string, string>,
    path = '/v1/logs',
  ) => {
    const answered = await fetch(base + path, { method: 'POST', headers, body });
    return { status: answered.status, body: Buffer.from(await answered.arrayBuffer()) };
  };
  const call = (body: Buffer, options = {}) =>
    grpcClient(t, url, options).call(body, { path: EXPORT_LOGS });
  return { post, call, sink, listeners };
}

function events(count: number, name = 'codex.auth_recovery'): object[] {
  return Array.from({ length: count }, (_, i) => ({
    eventName: name,
    attributes: attributesOf({ 'conversation.id': 'c', n: i }),
  }));
}

const OTHERS = [{ body: { stringValue: 'GET /' } }, { severityText: 'INFO' }];

t.test('accepts events at every path, in both encodings, compressed or not', async (t) => {
  const { post, sink } = await receiving(t);
  const form = logsOf(events(2));
  const paths = [
    '/v1/logs',
    '/api/public/otel/v1/logs',
    '/api/v1/otel/v1/logs',
    '/otel/v1/logs',
    '/api/otel/v1/logs',
  ];
  for (const path of paths.flatMap((each) => [each, `${each}/`])) {
    t.equal((await post(encodeLogs(form), PROTOBUF, path)).status, 200, path);
  }
  const text = JSON.stringify(form);
  t.strictSame(String((await post(text, JSON_TYPE)).body), '{}');
  for (const [encoding, compress] of [
    ['gzip', gzipSync],
    ['deflate', deflateSync],
  ] as const) {
    const headers = { ...JSON_TYPE, 'content-encoding': encoding };
    t.equal((await post(compress(text), headers)).status, 200, encoding);
  }
  t.equal(sink.batches.length, 13);
  for (const batch of sink.batches) {
    t.match(rawOf(batch), { format: 'otlp_proto', encoding: 'identity', requestItems: 2 });
  }
});

t.test('accepts events over gRPC', async (t) => {
  const { call, sink } = await receiving(t);
  const body = encodeLogs(logsOf(events(2)));
  t.match(await call(body), { code: 0, message: Buffer.alloc(0) });
  t.match(await call(body, GZIP), { code: 0 });
  t.equal(sink.batches.length, 2);
  const [first, second] = sink.batches.map((batch) => rawOf(batch).body);
  t.ok(second !== undefined && first?.equals(second));
  const partial = await call(encodeLogs(logsOf([...events(1), ...OTHERS])));
  t.match(decodeResponse(partial.message), {
    partialSuccess: { rejectedSpans: 2, errorMessage: /codex\.\*; 2 are/ },
  });
  t.match(await call(Buffer.from('garbage')), { code: 3 });
});

t.test('rejects records with too many keys in a partial success', async (t) => {
  const { post, listeners } = await receiving(t);
  const attributes = Array(32_769).fill({ key: 'a' });
  const got = await post(JSON.stringify(logsOf([{ attributes }])), JSON_TYPE);
  t.strictSame(JSON.parse(String(got.body)), {
    partialSuccess: {
      rejectedLogRecords: 1,
      errorMessage:
        '1 have more than 32768 keys of attributes, or are behind 327680 keys in the request.',
    },
  });
  t.equal(listeners.metrics.value('tracectl_otlp_heavy_log_records_total'), 1);
});

t.test('rejects records that repeat spans', async (t) => {
  const { post, listeners } = await receiving(t);
  const record = { eventName: 'gen_ai.client.inference.operation.details' };
  const form = logsOf([record, record], { scope: { name: 'openlit.instrumentation.openai' } });
  t.strictSame(JSON.parse(String((await post(JSON.stringify(form), JSON_TYPE)).body)), {
    partialSuccess: {
      rejectedLogRecords: 2,
      errorMessage: '2 gen_ai events repeat spans of their client.',
    },
  });
  t.equal(listeners.metrics.value('tracectl_otlp_repeated_log_records_total'), 2);
});

t.test('rejects other records in a partial success, also if no event is among them', async (t) => {
  const { post, sink, listeners } = await receiving(t);
  for (const accepted of [1, 0]) {
    const form = logsOf([...events(accepted), ...OTHERS, { eventName: 'gen_ai.user.message' }]);
    const got = await post(JSON.stringify(form), JSON_TYPE);
    t.equal(got.status, 200);
    t.strictSame(JSON.parse(String(got.body)), {
      partialSuccess: {
        rejectedLogRecords: 3,
        errorMessage:
          'Log records are stored only if they are events of LLM calls: gen_ai.*, claude_code.* and codex.*; 2 are not. ' +
          '1 gen_ai events have no valid trace id and span id to join them to.',
      },
    });
  }
  t.equal(sink.batches.length, 1);
  t.equal(listeners.metrics.value('tracectl_otlp_unsupported_log_records_total'), 6);
  const lines = listeners.logger.lines.filter(({ message }) => /Log records/.test(message));
  t.equal(lines.length, 1, 'one line an hour');
  t.equal(String((await post('{}', JSON_TYPE)).body), '{}', 'an empty request');
  t.equal(listeners.bytesInFlight.held, 0);
});

t.test('counts the records of a rejected item, and names the first of them', async (t) => {
  const pipeline = (sink: Sink): Partial<Pipeline> => ({
    accept: acceptInto(sink, (batch) => {
      const reason = 'resourceSpans[0].scopeSpans[0].spans[1]: its inputs are larger than 4 bytes';
      reject(batch, 1, 'payload_too_large', reason);
    }),
  });
  const { post } = await receiving(t, { pipeline });
  const span = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8) };
  const message = { eventName: 'gen_ai.user.message', ...span };
  const form = logsOf([...OTHERS, ...events(1), message, message]);
  const { body } = await post(JSON.stringify(form), JSON_TYPE);
  const { partialSuccess } = JSON.parse(String(body)) as {
    partialSuccess: { rejectedLogRecords: number; errorMessage: string };
  };
  t.equal(partialSuccess.rejectedLogRecords, 4);
  t.match(
    partialSuccess.errorMessage,
    /2 are not\. payload_too_large: log record 3: its inputs are larger than 4 bytes$/,
  );
});

t.test('accepts records up to the limit, and refuses a request with one more', async (t) => {
  const { post, call, sink } = await receiving(t, { fields: { max_log_records_per_request: 20 } });
  const body = (count: number) => encodeLogs(logsOf(events(count)));
  t.equal((await post(body(20), PROTOBUF)).status, 200);
  t.equal((await post(body(21), PROTOBUF)).status, 413);
  t.equal((await call(body(20))).code, 0);
  t.match(await call(body(21)), { code: 3, details: /21 log records; at most 20/ });
  t.equal(sink.batches.length, 2);
});

t.test('refuses bodies that are no export request of logs', async (t) => {
  const { post, sink, listeners } = await receiving(t);
  for (const [body, headers, status] of [
    ['{', JSON_TYPE, 400],
    ['{"resourceLogs":[{"scopeLogs":{}}]}', JSON_TYPE, 400],
    ['garbage', PROTOBUF, 400],
    ['x', { ...PROTOBUF, 'content-encoding': 'gzip' }, 400],
    ['{}', { ...JSON_TYPE, 'content-encoding': 'br' }, 415],
    ['{}', { 'content-type': 'text/plain' }, 415],
  ] as const) {
    t.equal((await post(body, headers)).status, status, body);
  }
  t.equal(sink.batches.length, 0);
  t.equal(listeners.bytesInFlight.held, 0);
});

t.test('converts a large request in a thread, with the same result', async (t) => {
  const { post, sink } = await receiving(t);
  const form = logsOf([...events(4), ...OTHERS]);
  await post(JSON.stringify(form), JSON_TYPE);
  const { body } = await post(JSON.stringify(form) + ' '.repeat(600_000), JSON_TYPE);
  t.match(JSON.parse(String(body)), { partialSuccess: { rejectedLogRecords: 2 } });
  const [small, large] = sink.batches.map((batch) => rawOf(batch).body);
  t.ok(large !== undefined && small?.equals(large));
});

t.test('refuses a body above 25 MiB, as sent and inflated', async (t) => {
  const { post, sink } = await receiving(t);
  const head = JSON.stringify(logsOf(events(1)));
  const most = 25 * 1_048_576;
  const gzip = { ...JSON_TYPE, 'content-encoding': 'gzip' };
  const body = (bytes: number) => gzipSync(head + ' '.repeat(bytes - head.length), { level: 1 });
  t.equal((await post(body(most), gzip)).status, 200);
  t.equal((await post(body(most + 1), gzip)).status, 413);
  t.equal(sink.batches.length, 1);
});
