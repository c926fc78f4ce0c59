import { gzipSync } from 'node:zlib';
import t from 'tap';
import { factory as otlpHttp } from '../../../exporters/otlphttp/factory.ts';
import { observationBatch, otlpBatch } from '../../helper/batches.ts';
import { startOtlpServer } from '../../helper/otlp-server.ts';
import { until } from '../../helper/until.ts';
import { isEmpty, rigOf } from './rig.ts';

t.test('forwards OTLP as the bytes that arrived', async (t) => {
  await t.test('unchanged if the compression is the configured one', async (t) => {
    const rig = await rigOf(t, { config: { headers: { 'X-Api-Key': 'k', a: 'b' } } });
    const batch = otlpBatch(3, { encoding: 'gzip' });
    await rig.exporter.consume(batch);
    const [request] = await rig.server.received(1);
    t.ok(request?.body.equals(batch.body));
    t.match(request, {
      path: '/v1/traces',
      headers: {
        'content-type': 'application/x-protobuf',
        'content-encoding': 'gzip',
        'x-api-key': 'k',
        a: 'b',
      },
    });
    await until(() => isEmpty(rig));
    t.equal(
      rig.settings.metrics.value('tracectl_otlphttp_sent_spans_total', { exporter: 'otlphttp' }),
      3,
    );
  });

  await t.test('as JSON if it arrived as JSON, in the configured compression', async (t) => {
    for (const compression of ['gzip', 'zstd', 'none'] as const) {
      for (const encoding of ['identity', 'gzip'] as const) {
        const rig = await rigOf(t, { queue: false, config: { compression } });
        const batch = otlpBatch(2, { format: 'otlp_json', encoding });
        await rig.exporter.consume(batch);
        const [request] = await rig.server.received(1);
        t.equal(request?.headers['content-type'], 'application/json');
        t.equal(
          request?.headers['content-encoding'],
          compression === 'none' ? undefined : compression,
        );
        t.equal(request?.spans.length, 2);
        const isSame = compression === (encoding === 'identity' ? 'none' : encoding);
        t.equal(request?.body.equals(batch.body), isSame);
      }
    }
  });

  await t.test('converts the encoding with convert: true', async (t) => {
    const rig = await rigOf(t, { queue: false, config: { convert: true } });
    await rig.exporter.consume(otlpBatch(2, { format: 'otlp_json' }));
    const [request] = await rig.server.received(1);
    t.equal(request?.headers['content-type'], 'application/x-protobuf');
    t.equal(request?.spans.length, 2);
  });

  await t.test('cuts items without an observation behind normalization', async (t) => {
    const rig = await rigOf(t, { queue: false, config: { compression: 'none' } });
    const source = otlpBatch(3);
    const whole = observationBatch(source);
    await rig.exporter.consume(whole);
    await rig.exporter.consume({ ...whole, observations: whole.observations.slice(1) });
    const requests = await rig.server.received(2);
    t.ok(requests[0]?.body.equals(source.body));
    t.same(
      requests[1]?.spans.map(({ spanId }) => spanId),
      ['0000000000000002', '0000000000000003'],
    );
  });
});

t.test('appends /v1/traces to endpoint, and keeps traces_endpoint', async (t) => {
  for (const [field, path, expected] of [
    ['endpoint', '/', '/v1/traces'],
    ['endpoint', '/base/', '/base/v1/traces'],
    ['endpoint', '/base?a=b', '/base/v1/traces?a=b'],
    ['traces_endpoint', '/exactly/this/', '/exactly/this/'],
  ] as const) {
    const server = await startOtlpServer(t);
    const config = { endpoint: undefined, [field]: `${server.url}${path}` };
    const rig = await rigOf(t, { queue: false, server, config });
    await rig.exporter.consume(otlpBatch(1));
    t.equal(server.requests[0]?.path, expected);
  }
});

t.test('names each error of the configuration', async (t) => {
  const issues = (config: object) =>
    otlpHttp.config.safeParse(config).error?.issues.map(({ message }) => message) ?? [];
  const endpoint = 'http://127.0.0.1:4318';
  t.same(issues({}), ['either endpoint or traces_endpoint must be specified']);
  t.match(issues({ traces_endpoint: 'no' }), [/traces_endpoint must be a valid URL/]);
  t.match(issues({ endpoint: 'ftp://host' }), [/endpoint must be a valid URL/]);
  t.match(issues({ endpoint, retry_on_failure: { max_elapsed_time: '1s' } }), [
    'max_elapsed_time must not be less than initial_interval',
    'max_elapsed_time must not be less than max_interval',
  ]);
  t.match(issues({ endpoint, tls: { cert_file: 'a' } }), [/both cert_file and key_file/]);
  t.match(issues({ endpoint, compression_params: { level: 12 } }), [/1 to 9/]);
  t.match(issues({ endpoint, headers: { 'a b': 'c' } }), [/header|Invalid/]);
  t.match(issues({ endpoint, headers: { a: 'c\r\nd: e' } }), [/one line/]);
  t.match(issues({ endpoint, sending_queue: { enabled: false, storage: 'x' } }), [/no effect/]);
  const queue = (sending_queue: object) => issues({ endpoint, sending_queue });
  t.match(queue({ batch: {} }), [/sent as it arrived/]);
  t.match(queue({ storage: 'x', wait_for_result: true }), [/leave storage out/]);
  t.match(queue({ wait_for_result: false }), [/no batch is acknowledged from memory/]);
  t.same(
    [queue({ wait_for_result: true }), queue({ storage: 'x', wait_for_result: false })],
    [[], []],
  );
  t.same(issues({ endpoint, retry_on_failure: { max_elapsed_time: '0s' } }), []);
});

t.test('refuses batches after the shutdown', async (t) => {
  const rig = await rigOf(t, { queue: false });
  await rig.stop();
  const batch = otlpBatch(1, { body: gzipSync('') });
  await t.rejects(rig.exporter.consume(batch), { name: 'RetryableError', code: 'starting' });
  await rig.exporter.shutdown(new AbortController().signal);
});
