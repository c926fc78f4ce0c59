import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { factory as otlpHttp } from '../../../exporters/otlphttp/factory.ts';
import { offer } from '../../../src/component/capability.ts';
import type { Exporter } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import type { Batch, SealedBatch } from '../../../src/model/batch.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { OtlpSpan } from '../../../src/model/otlp/span.ts';
import { retryAfterMs } from '../../../src/otlp-client/verdict.ts';
import { QUEUE_STORAGE, type QueueAdmin } from '../../../src/queue/queue.ts';
import { createQueues, QUEUE_REGISTRY } from '../../../src/queue/registry.ts';
import { openDirectoryStorage } from '../../../src/sqlite/queue/directory-storage.ts';
import { nativeBatch, nativeEvent, observationBatch, otlpBatch } from '../../helper/batches.ts';
import { type FakeClock, fakeClock } from '../../helper/clock.ts';
import {
  ACCEPTED,
  type OtlpServer,
  partialSuccess,
  startOtlpServer,
} from '../../helper/otlp-server.ts';
import { fakeHost, type TestSettings, testSettings } from '../../helper/settings.ts';

const NEVER = new AbortController().signal;

type Bench = {
  readonly server: OtlpServer;
  readonly exporter: Exporter;
  readonly clock: FakeClock;
  readonly settings: TestSettings;
  readonly health: ReturnType<typeof createHealth>;
  queue(): QueueAdmin;
  stop(): Promise<void>;
};

type Options = {
  readonly config?: Readonly<Record<string, unknown>>;
  readonly queue?: Readonly<Record<string, unknown>> | false;
  readonly server?: OtlpServer;
  readonly directory?: string;
  readonly clock?: FakeClock;
};

/** The exporter between a queue on disk and a real server. */
async function benchOf(t: Test, options: Options = {}): Promise<Bench> {
  const clock = options.clock ?? fakeClock();
  const server = options.server ?? (await startOtlpServer(t));
  const health = createHealth(clock);
  const queues = createQueues();
  const base = testSettings('exporter', 'otlphttp', { clock });
  const isQueued = options.queue !== false;
  const storage = isQueued
    ? await openDirectoryStorage({
        directory: options.directory ?? t.testdir(),
        createDirectory: true,
        minFreeBytes: 0,
        reserveBytes: 0,
        clock,
        logger: base.logger,
      })
    : undefined;
  const host = fakeHost({
    services: [offer(HEALTH_REGISTRY, health), offer(QUEUE_REGISTRY, queues)],
    extensions: { file_storage: storage === undefined ? [] : [offer(QUEUE_STORAGE, storage)] },
  });
  const settings = { ...base, host };
  const config = otlpHttp.config.parse({
    endpoint: server.url,
    ...options.config,
    sending_queue: isQueued
      ? { storage: 'file_storage', ...(options.queue as object) }
      : { enabled: true },
  });
  const exporter = await otlpHttp.create(settings, config);
  await exporter.start();
  let isStopped = false;
  const stop = async (): Promise<void> => {
    if (isStopped) return;
    isStopped = true;
    await exporter.shutdown(AbortSignal.abort());
    await storage?.close();
  };
  t.teardown(stop);
  const queue = (): QueueAdmin => {
    const found = queues.all.get('otlphttp');
    if (found === undefined) throw new Error('there is no queue');
    return found;
  };
  return { server, exporter, clock, settings, health, queue, stop };
}

/** Waits for something that is only a matter of turns of the event loop. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 10_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** Moves time on until something is so. */
async function passing(clock: FakeClock, ms: number, condition: () => boolean): Promise<void> {
  await until(() => {
    if (!condition()) clock.advance(ms);
    return condition();
  });
}

const emptied = ({ queue }: Bench) => queue().stats().branches[0]?.entries === 0;
const deadOf = ({ queue }: Bench) => queue().deadLetters();

t.test('OTLP leaves as the bytes that came in', async (t) => {
  await t.test('compressed alike', async (t) => {
    const bench = await benchOf(t, { config: { headers: { 'X-Api-Key': 'k', a: 'b' } } });
    const batch = otlpBatch(3, { encoding: 'gzip' });
    await bench.exporter.consume(batch);
    const [request] = await bench.server.received(1);
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
    await until(() => emptied(bench));
    t.equal(
      bench.settings.metrics.value('tracectl_otlphttp_sent_spans_total', { exporter: 'otlphttp' }),
      3,
    );
  });

  await t.test('JSON stays JSON, and compression is what the configuration says', async (t) => {
    for (const compression of ['gzip', 'zstd', 'none'] as const) {
      for (const encoding of ['identity', 'gzip'] as const) {
        const bench = await benchOf(t, { queue: false, config: { compression } });
        const batch = otlpBatch(2, { format: 'otlp_json', encoding });
        await bench.exporter.consume(batch);
        const [request] = await bench.server.received(1);
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

  await t.test('converted only when asked', async (t) => {
    const bench = await benchOf(t, { queue: false, config: { convert: true } });
    await bench.exporter.consume(otlpBatch(2, { format: 'otlp_json' }));
    const [request] = await bench.server.received(1);
    t.equal(request?.headers['content-type'], 'application/x-protobuf');
    t.equal(request?.spans.length, 2);
  });

  await t.test('also behind normalization, as far as it is still wanted', async (t) => {
    const bench = await benchOf(t, { queue: false, config: { compression: 'none' } });
    const source = otlpBatch(3);
    const whole = observationBatch(source);
    await bench.exporter.consume(whole);
    await bench.exporter.consume({ ...whole, observations: whole.observations.slice(1) });
    const requests = await bench.server.received(2);
    t.ok(requests[0]?.body.equals(source.body));
    t.same(
      requests[1]?.spans.map(({ spanId }) => spanId),
      ['0000000000000002', '0000000000000003'],
    );
  });
});

t.test('the address', async (t) => {
  for (const [field, path, expected] of [
    ['endpoint', '/', '/v1/traces'],
    ['endpoint', '/base/', '/base/v1/traces'],
    ['endpoint', '/base?a=b', '/base/v1/traces?a=b'],
    ['traces_endpoint', '/exactly/this/', '/exactly/this/'],
  ] as const) {
    const server = await startOtlpServer(t);
    const config = { endpoint: undefined, [field]: `${server.url}${path}` };
    const bench = await benchOf(t, { queue: false, server, config });
    await bench.exporter.consume(otlpBatch(1));
    t.equal(server.requests[0]?.path, expected);
  }
});

t.test('the connection', async (t) => {
  const file = (name: string) => join(import.meta.dirname, '../../fixtures/tls', name);
  const secure = { key: readFileSync(file('server.key')), cert: readFileSync(file('server.pem')) };
  const ca = { ca_file: file('ca.pem') };
  const sends = async (server: OtlpServer, config: object) => {
    const retry_on_failure = { enabled: false };
    const bench = await benchOf(t, {
      queue: false,
      server,
      config: { retry_on_failure, ...config },
    });
    return bench.exporter.consume(otlpBatch(1)).then(
      () => 'sent',
      (error: { code: string }) => error.code,
    );
  };

  await t.test('is made to a server that can be told to be the right one', async (t) => {
    const server = await startOtlpServer(t, secure);
    t.equal(await sends(server, {}), 'connection_failed', 'nobody vouches for it');
    t.equal(await sends(server, { tls: { insecure_skip_verify: true } }), 'sent');
    t.equal(await sends(server, { tls: ca }), 'sent');
    const named = (server_name_override: string) => ({ tls: { ...ca, server_name_override } });
    t.equal(await sends(server, named('gateway.test')), 'sent');
    t.equal(await sends(server, named('other.test')), 'connection_failed');
  });

  await t.test('shows our own certificate', async (t) => {
    const server = await startOtlpServer(t, {
      ...secure,
      ca: readFileSync(file('ca.pem')),
      requestCert: true,
    });
    t.equal(await sends(server, { tls: ca }), 'connection_failed');
    const own = { cert_file: file('client.pem'), key_file: file('client.key') };
    t.equal(await sends(server, { tls: { ...ca, ...own } }), 'sent');
  });

  await t.test('is no older than min_version', async (t) => {
    const server = await startOtlpServer(t, { ...secure, maxVersion: 'TLSv1.2' });
    t.equal(await sends(server, { tls: { ...ca, min_version: '1.3' } }), 'connection_failed');
    t.equal(await sends(server, { tls: ca }), 'sent');
  });

  await t.test('a certificate that cannot be read is said at the start', async (t) => {
    await t.rejects(benchOf(t, { queue: false, config: { tls: { ca_file: file('none.pem') } } }), {
      code: 'ENOENT',
    });
  });

  await t.test('goes through a proxy', async (t) => {
    const server = await startOtlpServer(t, secure);
    const asked: string[] = [];
    const proxy = createServer((request, response) => {
      asked.push(request.url ?? '');
      request.resume().on('end', () => response.end());
    });
    proxy.on('connect', (request, socket) => {
      asked.push(request.url ?? '');
      const onward = connect(Number(new URL(server.url).port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        onward.pipe(socket).pipe(onward);
      });
      onward.on('error', () => socket.destroy());
      socket.on('error', () => onward.destroy());
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    t.teardown(() => {
      proxy.close();
      proxy.closeAllConnections();
    });
    const proxy_url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    t.equal(await sends(server, { proxy_url, tls: ca }), 'sent');
    t.equal(server.requests.length, 1, 'a tunnel for https');
    t.equal(await sends(server, { proxy_url, endpoint: 'http://far.test' }), 'sent');
    t.same(
      asked,
      [new URL(server.url).host, 'http://far.test/v1/traces'],
      'the proxy itself for http',
    );
  });

  await t.test('serves many requests, or one', async (t) => {
    for (const disable_keep_alives of [false, true]) {
      const server = await startOtlpServer(t);
      const bench = await benchOf(t, { queue: false, server, config: { disable_keep_alives } });
      for (let i = 0; i < 6; i++) await bench.exporter.consume(otlpBatch(1));
      const ports = new Set(server.requests.map(({ port }) => port));
      t.equal(ports.size === 6, disable_keep_alives);
    }
  });
});

t.test('without a queue the answer waits for the destination', async (t) => {
  const direct = (config = {}) => benchOf(t, { queue: false, config });
  await t.test('and a batch without items is not sent', async (t) => {
    const { exporter, server } = await direct();
    await exporter.consume(otlpBatch(0, { requestItems: 0 }));
    t.equal(server.requests.length, 0);
  });

  for (const status of [429, 502, 503, 504]) {
    await t.test(`${status} is tried again`, async () => {
      const { exporter, server, clock } = await direct();
      server.next({ status });
      const sent = exporter.consume(otlpBatch(1));
      await server.received(1);
      await passing(clock, 1000, () => server.requests.length === 2);
      await sent;
    });
  }

  for (const status of [301, 400, 405, 415, 500, 501]) {
    await t.test(`${status} is final`, async (t) => {
      const { exporter, server } = await direct();
      server.next({ status, headers: { location: `${server.url}/elsewhere` } });
      await t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_refused' });
      t.equal(server.requests.length, 1);
    });
  }

  for (const status of [401, 403, 404]) {
    await t.test(`${status} gives the batch back`, async (t) => {
      const { exporter, server } = await direct();
      server.next({ status });
      const error = await exporter.consume(otlpBatch(1)).catch((reason: unknown) => reason);
      t.ok(error instanceof RetryableError);
      t.match(error, { code: 'destination_holds' });
    });
  }

  await t.test('and not for longer than a client does', async (t) => {
    const { exporter, server, clock } = await direct();
    server.always({ status: 503 });
    const sent = t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_unavailable' });
    await server.received(1);
    let isOver = false;
    sent.finally(() => {
      isOver = true;
    });
    await passing(clock, 1000, () => isOver);
    t.ok(server.requests.length < 5);
  });

  await t.test('a broken connection is tried again soon', async () => {
    const { exporter, server, clock } = await direct();
    server.next('reset');
    const sent = exporter.consume(otlpBatch(1));
    await server.received(1);
    await passing(clock, 100, () => server.requests.length === 2);
    await sent;
  });

  await t.test('a destination that hangs has its time', async (t) => {
    const { exporter, server, clock } = await direct({
      timeout: '2s',
      retry_on_failure: { enabled: false },
    });
    server.next('hang');
    const sent = t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_timeout' });
    await server.received(1);
    clock.advance(1999);
    clock.advance(1);
    await sent;
  });

  await t.test('an answer without end is not read to its end', async (t) => {
    const { exporter, server } = await direct({ retry_on_failure: { enabled: false } });
    server.next('flood');
    await t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_unavailable' });
  });

  await t.test('a success that cannot be read is none', async (t) => {
    const { exporter, server } = await direct();
    const headers = { 'content-type': 'application/x-protobuf' };
    server.next({ status: 200, headers, body: Buffer.from([0x0a, 0x7f, 1]) });
    await t.rejects(exporter.consume(otlpBatch(1)), { code: 'invalid_response' });
    server.next({ status: 200, headers: { 'content-type': 'text/html' }, body: '<p>' });
    await exporter.consume(otlpBatch(1));
  });

  await t.test('partial success is not sent again, and counted', async (t) => {
    const { exporter, server, settings } = await direct();
    server.next(partialSuccess(2, 'bad ids'));
    await exporter.consume(otlpBatch(3));
    const own = { exporter: 'otlphttp' };
    t.equal(settings.metrics.value('tracectl_otlphttp_rejected_spans_total', own), 2);
    t.equal(settings.metrics.value('tracectl_otlphttp_sent_spans_total', own), 1);
    t.equal(server.requests.length, 1);
    server.next(partialSuccess(0, 'use another field'));
    await exporter.consume(otlpBatch(1));
    t.match(settings.logger.lines.at(-1), {
      level: 'warn',
      fields: { message: 'use another field' },
    });
  });

  await t.test('a request that is too large is parted', async (t) => {
    const { exporter, server } = await direct({ compression: 'none' });
    server.always(({ spans }) => (spans.length > 2 ? { status: 413 } : ACCEPTED));
    await exporter.consume(otlpBatch(7));
    const taken = server.requests.filter(({ spans }) => spans.length <= 2);
    const ids = taken.flatMap(({ spans }) => spans.map(({ spanId }) => Number(`0x${spanId}`)));
    t.same(
      ids.sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7],
    );
  });
});

t.test('Retry-After', async (t) => {
  const now = Date.UTC(2026, 0, 15, 12, 0, 0);
  t.equal(retryAfterMs('7', now), 7000);
  t.equal(retryAfterMs('Thu, 15 Jan 2026 12:00:09 GMT', now), 9000);
  t.equal(retryAfterMs('Thu, 15 Jan 2026 11:00:00 GMT', now), 0);
  t.equal(retryAfterMs('999999999', now), 3_600_000, 'nobody is waited for longer than an hour');
  for (const text of [undefined, '', '-1', '1.5', 'soon', '12 monkeys']) {
    t.equal(retryAfterMs(text, now), undefined);
  }

  await t.test('is kept by all that is sent', async (t) => {
    const bench = await benchOf(t, {
      config: { retry_on_failure: { initial_interval: '1ms', max_interval: '1ms' } },
    });
    const { server, exporter, clock } = bench;
    server.next({ status: 429, headers: { 'retry-after': '60' } });
    await exporter.consume(otlpBatch(1));
    await server.received(1);
    await until(() => clock.pending() > 0);
    await exporter.consume(otlpBatch(1));
    for (let second = 0; second < 59; second++) {
      clock.advance(1000);
      await new Promise(setImmediate);
    }
    t.equal(server.requests.length, 1);
    await passing(clock, 100, () => server.requests.length === 3);
    await until(() => emptied(bench));
  });
});

t.test('with a queue', async (t) => {
  await t.test(
    'the answer does not wait, and nothing is given up while the destination is away',
    async (t) => {
      const bench = await benchOf(t);
      bench.server.always({ status: 503 });
      for (let i = 0; i < 5; i++) await bench.exporter.consume(otlpBatch(1));
      await passing(bench.clock, 10_000, () => bench.server.requests.length > 60);
      t.same(await deadOf(bench), []);
      t.match(bench.health.report(false).components, [{ healthy: false, message: /is away/ }]);
      bench.server.always(ACCEPTED);
      await passing(bench.clock, 10_000, () => emptied(bench));
      t.same(bench.health.report(false).components, []);
    },
  );

  await t.test('what is refused stands in the dead letter, with what was said', async (t) => {
    const bench = await benchOf(t);
    const status = JSON.stringify({ code: 3, message: 'a field is wrong' });
    bench.server.next({
      status: 400,
      headers: { 'content-type': 'application/json' },
      body: status,
    });
    await bench.exporter.consume(otlpBatch(2));
    await until(async () => (await deadOf(bench)).length === 1);
    t.match(await deadOf(bench), [
      {
        items: 2,
        reason: { code: 'destination_refused', message: 'answered 400: a field is wrong' },
      },
    ]);
  });

  await t.test('partial success stands in the dead letter and is never sent again', async (t) => {
    const bench = await benchOf(t);
    bench.server.next(partialSuccess(2, 'bad ids'));
    await bench.exporter.consume(otlpBatch(3));
    await until(async () => (await deadOf(bench)).length === 1);
    t.match(await deadOf(bench), [
      {
        reason: {
          code: 'partial_success',
          message: 'the destination left out 2 of 3 spans: bad ids',
        },
      },
    ]);
    t.equal(bench.server.requests.length, 1);
  });

  for (const status of [401, 403, 404]) {
    await t.test(`${status} holds everything, loudly, until it works again`, async (t) => {
      const bench = await benchOf(t);
      const { clock, health, server, settings } = bench;
      server.always({ status });
      for (let i = 0; i < 3; i++) await bench.exporter.consume(otlpBatch(1));
      await passing(clock, 5000, () => server.requests.length > 20);
      const own = { exporter: 'otlphttp' };
      t.equal(settings.metrics.value('tracectl_otlphttp_held', own), 1);
      t.match(health.report(false).components, [
        { id: 'otlphttp', healthy: false, message: /refuses us/ },
      ]);
      const errors = settings.logger.lines.filter(({ level }) => level === 'error');
      t.ok(errors.length >= 1 && errors.length < 20, 'said again, but not with every try');
      t.same(await deadOf(bench), []);
      server.always(ACCEPTED);
      await passing(clock, 5000, () => emptied(bench));
      t.equal(settings.metrics.value('tracectl_otlphttp_held', own), 0);
      t.same(health.report(false).components, []);
    });
  }

  await t.test('on_permanent_error changes what a status does', async (t) => {
    const bench = await benchOf(t, {
      config: { on_permanent_error: { 401: 'dead_letter', 400: 'hold', 500: 'retry' } },
    });
    const { clock, server } = bench;
    server.next({ status: 401 });
    await bench.exporter.consume(otlpBatch(1));
    await until(async () => (await deadOf(bench)).length === 1);
    server.next({ status: 400 }, { status: 500 });
    await bench.exporter.consume(otlpBatch(1));
    await passing(clock, 5000, () => server.requests.length === 4);
    await until(() => emptied(bench));
    t.equal((await deadOf(bench)).length, 1);
  });

  await t.test('max_elapsed_time ends in the dead letter, not in nothing', async (t) => {
    const bench = await benchOf(t, { config: { retry_on_failure: { max_elapsed_time: '1m' } } });
    bench.server.always({ status: 503 });
    await bench.exporter.consume(otlpBatch(1));
    await bench.server.received(1);
    await passing(bench.clock, 5000, () => bench.queue().stats().deadLetters === 1);
    await until(async () => (await deadOf(bench)).length === 1);
    t.match(await deadOf(bench), [{ reason: { code: 'retries_exhausted' } }]);
  });

  for (const [size, attributes] of [
    ['small', {}],
    ['large, cut in a thread', { input: 'x'.repeat(200_000) }],
  ] as const) {
    await t.test(
      `the one span that is too large goes to the dead letter alone: ${size}`,
      async (t) => {
        const bench = await benchOf(t, { config: { compression: 'none' } });
        bench.server.always(({ spans }) =>
          spans.some(({ name }) => name === 'huge') ? { status: 413 } : ACCEPTED,
        );
        const spans = Array.from({ length: 7 }, (_, i) => ({
          spanId: `000000000000000${i + 1}`,
          name: i === 4 ? 'huge' : 'small',
          attributes,
        }));
        await bench.exporter.consume(otlpBatch(spans));
        await until(async () => (await deadOf(bench)).length === 1 && emptied(bench));
        t.match(await deadOf(bench), [{ items: 1, reason: { code: 'too_large' } }]);
        const small = bench.server.requests.filter((request) =>
          request.spans.every(({ name }) => name === 'small'),
        );
        t.equal(small.flatMap((request) => request.spans).length, 6);
        bench.server.always(ACCEPTED);
        await bench.queue().replay('all');
        await until(() => emptied(bench));
        t.equal(bench.server.requests.at(-1)?.spans[0]?.name, 'huge');
      },
    );
  }

  for (const [sizer, queue_size, size] of [
    ['requests', 2, 1],
    ['items', 5, 2],
    ['bytes', 500, 1],
  ] as const) {
    await t.test(`queue_size counts ${sizer}`, async (t) => {
      const bench = await benchOf(t, { queue: { sizer, queue_size } });
      bench.server.always('hang');
      const errors: unknown[] = [];
      for (let i = 0; i < 8; i++) {
        await bench.exporter.consume(otlpBatch(size)).catch((error: unknown) => errors.push(error));
      }
      t.ok(errors.length > 0 && errors.length < 8);
      t.match(errors, [{ code: 'queue_full' }]);
      t.ok(errors[0] instanceof RetryableError);
      const isReady = bench.health.report(true).components[0]?.ready;
      if (sizer === 'requests') t.equal(isReady, false, 'and its health says so');
    });
  }

  await t.test('block_on_overflow waits for room', async (t) => {
    const bench = await benchOf(t, { queue: { queue_size: 1, block_on_overflow: true } });
    bench.server.next('hang');
    await bench.exporter.consume(otlpBatch(1));
    await bench.server.received(1);
    let isIn = false;
    const waits = bench.exporter.consume(otlpBatch(1)).then(() => {
      isIn = true;
    });
    for (let i = 0; i < 20; i++) {
      bench.clock.advance(50);
      await new Promise(setImmediate);
    }
    t.notOk(isIn);
    await passing(bench.clock, 5000, () => isIn);
    await waits;
  });

  await t.test('no more than num_consumers requests are under way', async (t) => {
    const bench = await benchOf(t, { queue: { num_consumers: 2 } });
    bench.server.always('hang');
    for (let i = 0; i < 6; i++) await bench.exporter.consume(otlpBatch(1));
    await bench.server.received(2);
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
    t.equal(bench.server.requests.length, 2);
    bench.server.always(ACCEPTED);
    await passing(bench.clock, 5000, () => emptied(bench));
  });

  await t.test('what was not sent when it stopped is sent after the next start', async (t) => {
    const directory = t.testdir();
    const server = await startOtlpServer(t);
    const first = await benchOf(t, { directory, server });
    server.always('hang');
    for (let i = 0; i < 20; i++) await first.exporter.consume(otlpBatch(1));
    await first.exporter.consume(nativeBatch([start('a')]));
    await server.received(1);
    await first.stop();
    server.always(ACCEPTED);
    const second = await benchOf(t, { directory, server });
    await second.exporter.consume(nativeBatch([finish('a')]));
    await until(() => emptied(second));
    t.ok(server.requests.length >= 21);
    t.same(await deadOf(second), []);
  });
});

const start = (id: string, more = {}) =>
  nativeEvent({
    id,
    operation: 'start',
    status: 'running',
    end_time: null,
    outputs: null,
    ...more,
  });
const finish = (id: string, more = {}) =>
  nativeEvent({ id, inputs: null, start_time: null, ...more });

/** OTLP reads an end of 0 as unset. */
function hasEnd(span: OtlpSpan | undefined): boolean {
  return Number(span?.endTimeUnixNano ?? 0) > 0;
}

function attributesOf(bench: Bench, at: number): Record<string, unknown> {
  const [span] = bench.server.requests[at]?.spans ?? [];
  return Object.fromEntries(
    (span?.attributes ?? []).map(({ key, value }) => [key, value?.stringValue]),
  );
}

t.test('observations leave as spans', async (t) => {
  await t.test('once they have ended, with all that was said before', async (t) => {
    const bench = await benchOf(t);
    const send = (batch: Batch) => bench.exporter.consume(batch);
    await send(nativeBatch([start('a', { name: 'first' })]));
    await send(nativeBatch([finish('b', { inputs: 1 })]));
    await bench.server.received(1);
    await send(nativeBatch([finish('a', { name: null })]));
    const requests = await bench.server.received(2);
    t.same(
      requests.map(({ spans }) => spans.length),
      [1, 1],
    );
    t.match(requests[1]?.spans, [{ name: 'first', endTimeUnixNano: '1768478399500000000' }]);
    t.match(attributesOf(bench, 1), {
      'input.value': '{"messages":[{"role":"user","content":"hello"}]}',
      'output.value': '{"content":"hi"}',
    });
    await until(() => emptied(bench));
  });

  await t.test(
    'a start waits on disk until open_span_timeout, and leaves without an end',
    async (t) => {
      const bench = await benchOf(t, { config: { open_span_timeout: '5m' } });
      await bench.exporter.consume(nativeBatch([start('a'), finish('b')]));
      const own = { exporter: 'otlphttp' };
      const { metrics } = bench.settings;
      await until(() => metrics.value('tracectl_otlphttp_sent_spans_total', own) === 1);
      t.equal(metrics.value('tracectl_otlphttp_open_spans', own), 1);
      t.notOk(emptied(bench), 'its entry stays');
      bench.clock.advance(299_000);
      t.equal(bench.server.requests.length, 1);
      bench.clock.advance(1000);
      const requests = await bench.server.received(2);
      t.notOk(hasEnd(requests[1]?.spans[0]));
      await until(() => emptied(bench));
      t.same(await deadOf(bench), []);
    },
  );

  await t.test('held starts take nobody a place', async (t) => {
    const bench = await benchOf(t, { queue: { num_consumers: 1 } });
    for (let i = 0; i < 30; i++) await bench.exporter.consume(nativeBatch([start(`o${i}`)]));
    await bench.exporter.consume(nativeBatch([finish('other')]));
    await bench.server.received(1);
    for (let i = 0; i < 30; i++) await bench.exporter.consume(nativeBatch([finish(`o${i}`)]));
    await until(() => emptied(bench));
    t.equal(bench.server.requests.flatMap(({ spans }) => spans).length, 31);
  });

  await t.test('held starts make room before anybody is refused', async () => {
    const bench = await benchOf(t, { queue: { queue_size: 40 } });
    for (let i = 0; i < 200; i++) {
      await bench.exporter.consume(nativeBatch([start(`o${i}`)]));
      await passing(bench.clock, 10, () => (bench.queue().stats().branches[0]?.entries ?? 0) < 35);
    }
  });

  await t.test('a start whose finish is refused is not lost with it', async (t) => {
    const bench = await benchOf(t, { config: { open_span_timeout: '5m' } });
    await bench.exporter.consume(nativeBatch([start('a')]));
    bench.server.next({ status: 400 });
    await bench.exporter.consume(nativeBatch([finish('a')]));
    await until(async () => (await deadOf(bench)).length === 1);
    bench.clock.advance(300_000);
    await bench.server.received(2);
    await until(() => emptied(bench));
    t.equal((await deadOf(bench)).length, 1);
  });

  await t.test('without a queue at once', async (t) => {
    const bench = await benchOf(t, { queue: false, config: { encoding: 'json' } });
    await bench.exporter.consume(nativeBatch([start('a'), finish('b'), start('c'), finish('c')]));
    const [request] = await bench.server.received(1);
    t.equal(request?.headers['content-type'], 'application/json');
    t.same(request?.spans.map(hasEnd), [false, true, true]);
  });

  await t.test('of a large batch too, which a thread reads', async (t) => {
    for (const queue of [{}, false] as const) {
      const bench = await benchOf(t, { queue });
      const inputs = 'x'.repeat(700_000);
      await bench.exporter.consume(nativeBatch([finish('a', { inputs }), finish('b', { inputs })]));
      const [request] = await bench.server.received(1);
      t.equal(request?.spans.length, 2);
      t.equal(attributesOf(bench, 0)['input.value'], inputs);
      if (queue !== false) await until(() => emptied(bench));
    }
  });

  await t.test('one that is too large goes alone', async (t) => {
    const bench = await benchOf(t);
    bench.server.always(({ spans }) =>
      spans.some(({ name }) => name === 'huge') ? { status: 413 } : ACCEPTED,
    );
    const events = ['x', 'y', 'z'].map((id) => finish(id, { name: id === 'y' ? 'huge' : id }));
    await bench.exporter.consume(nativeBatch(events));
    await until(async () => (await deadOf(bench)).length === 1 && emptied(bench));
    t.match(await deadOf(bench), [{ items: 1, reason: { code: 'too_large' } }]);
  });

  await t.test('an event that cannot be read goes to the dead letter alone', async (t) => {
    const bench = await benchOf(t);
    await bench.exporter.consume(nativeBatch([finish('a'), { id: 'no trace' }]));
    await until(async () => (await deadOf(bench)).length === 1 && emptied(bench));
    t.match(await deadOf(bench), [{ items: 1, reason: { code: 'unreadable_event' } }]);
    t.equal(bench.server.requests.length, 1);
  });
});

t.test('the configuration', async (t) => {
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
  t.match(issues({ endpoint, sending_queue: { enabled: false, storage: 'x' } }), [/no use/]);
  const queue = (sending_queue: object) => issues({ endpoint, sending_queue });
  t.match(queue({ batch: {} }), [/leave as they came in/], "the Collector's batches");
  t.match(queue({ storage: 'x', wait_for_result: true }), [/leave storage out/]);
  t.match(queue({ wait_for_result: false }), [/nothing is acknowledged from memory/]);
  t.same(
    [queue({ wait_for_result: true }), queue({ storage: 'x', wait_for_result: false })],
    [[], []],
  );
  t.same(issues({ endpoint, retry_on_failure: { max_elapsed_time: '0s' } }), []);
});

t.test('a batch is not taken before the start or after the end', async (t) => {
  const bench = await benchOf(t, { queue: false });
  await bench.stop();
  const batch: SealedBatch = otlpBatch(1, { body: gzipSync('') });
  await t.rejects(bench.exporter.consume(batch), RetryableError);
  await bench.exporter.shutdown(NEVER);
});
