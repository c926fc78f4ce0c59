import t from 'tap';
import { RetryableError } from '../../../src/model/errors.ts';
import { otlpBatch } from '../../helper/batches.ts';
import { ACCEPTED, partialSuccess } from '../../helper/otlp-server.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { rigOf } from './rig.ts';

t.test('without a queue', async (t) => {
  const direct = (config = {}) => rigOf(t, { queue: false, config });
  await t.test('sends no batch without items', async (t) => {
    const { exporter, server } = await direct();
    await exporter.consume(otlpBatch(0, { requestItems: 0 }));
    t.equal(server.requests.length, 0);
  });

  for (const status of [429, 502, 503, 504]) {
    await t.test(`retries ${status}`, async () => {
      const { exporter, server, clock } = await direct();
      server.next({ status });
      const sent = exporter.consume(otlpBatch(1));
      await server.received(1);
      await advanceUntil(clock, 1000, () => server.requests.length === 2);
      await sent;
    });
  }

  for (const status of [301, 400, 405, 500, 501]) {
    await t.test(`does not retry ${status}`, async (t) => {
      const { exporter, server } = await direct();
      server.next({ status, headers: { location: `${server.url}/elsewhere` } });
      await t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_refused' });
      t.equal(server.requests.length, 1);
    });
  }

  for (const status of [401, 403, 404, 415]) {
    await t.test(`rejects with RetryableError for ${status}`, async (t) => {
      const { exporter, server } = await direct();
      server.next({ status });
      const error = await exporter.consume(otlpBatch(1)).catch((reason: unknown) => reason);
      t.ok(error instanceof RetryableError);
      t.match(error, { code: 'destination_holds' });
    });
  }

  await t.test('rejects with RetryableError for a success with a page of HTML', async (t) => {
    const { exporter, server } = await direct();
    const headers = { 'content-type': 'text/html; charset=utf-8' };
    server.next({ status: 200, headers, body: '<title>Sign in</title>' });
    await t.rejects(exporter.consume(otlpBatch(1)), {
      code: 'destination_holds',
      message: /answered 200 with a page of HTML.* check the address/,
    });
  });

  await t.test('takes an answer of the type of HTML that is no page', async () => {
    const { exporter, server } = await direct();
    for (const body of ['', 'ok']) {
      server.next({ status: 200, headers: { 'content-type': 'text/html' }, body });
      await exporter.consume(otlpBatch(1));
    }
  });

  await t.test('stops retrying after 10 s', async (t) => {
    const { exporter, server, clock } = await direct();
    server.always({ status: 503 });
    const sent = t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_unavailable' });
    await server.received(1);
    let isSettled = false;
    sent.finally(() => {
      isSettled = true;
    });
    await advanceUntil(clock, 1000, () => isSettled);
    t.ok(server.requests.length < 5);
  });

  await t.test('retries a broken connection within 100 ms', async () => {
    const { exporter, server, clock } = await direct();
    server.next('reset');
    const sent = exporter.consume(otlpBatch(1));
    await server.received(1);
    await advanceUntil(clock, 100, () => server.requests.length === 2);
    await sent;
  });

  await t.test('waits the backoff if the connection breaks again', async (t) => {
    // Three seconds: a longer wait would not be within the time for an answer.
    const retry_on_failure = { initial_interval: '2s', randomization_factor: 0 };
    const { exporter, server, clock } = await direct({ retry_on_failure });
    server.next('reset', 'reset');
    const sent = exporter.consume(otlpBatch(1));
    await server.received(1);
    // In small steps, which also pass while the second request is on its way.
    await advanceUntil(clock, 1, () => server.requests.length === 2);
    await until(() => clock.pending() > 0);
    for (let i = 0; i < 10; i++) {
      clock.advance(100);
      await new Promise(setImmediate);
    }
    t.equal(server.requests.length, 2, 'no retry within a second');
    await advanceUntil(clock, 500, () => server.requests.length === 3);
    await sent;
  });

  await t.test('aborts a request exactly at the timeout', async (t) => {
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

  await t.test('stops reading an endless response', async (t) => {
    const { exporter, server } = await direct({ retry_on_failure: { enabled: false } });
    server.next('flood');
    await t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_unavailable' });
  });

  await t.test(
    'rejects a success whose body is invalid, but accepts other content types',
    async (t) => {
      const { exporter, server } = await direct();
      const headers = { 'content-type': 'application/x-protobuf' };
      server.next({ status: 200, headers, body: Buffer.from([0x0a, 0x7f, 1]) });
      await t.rejects(exporter.consume(otlpBatch(1)), { code: 'invalid_response' });
      server.next({ status: 200, headers: { 'content-type': 'text/plain' }, body: 'OK' });
      await exporter.consume(otlpBatch(1));
    },
  );

  await t.test('rejects a success whose body is larger than 4 MiB', async (t) => {
    const { exporter, server } = await direct();
    const headers = { 'content-type': 'application/json' };
    const sized = (bytes: number) => ({ status: 200, headers, body: '{}'.padEnd(bytes) });
    server.next(sized(4 * 1024 * 1024));
    await exporter.consume(otlpBatch(1));
    server.next(sized(4 * 1024 * 1024 + 1));
    const refused = { code: 'invalid_response', message: /larger than 4 MiB/ };
    await t.rejects(exporter.consume(otlpBatch(1)), refused);
  });

  await t.test('counts the rejected spans of a partial success, and does not retry', async (t) => {
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
      fields: { reason: 'use another field' },
    });
  });

  await t.test('logs the first reason if both halves have a partial success', async (t) => {
    const { exporter, server, settings } = await direct();
    server.next({ status: 413 }, partialSuccess(1, 'bad ids'), partialSuccess(1, 'bad times'));
    await exporter.consume(otlpBatch(2));
    const reasons = settings.logger.lines.map(({ fields }) => fields.reason ?? fields.message);
    t.same(reasons, ['bad ids']);
  });

  await t.test('halves a request that is too large', async (t) => {
    const { exporter, server } = await direct({ compression: 'none' });
    server.always(({ spans }) => (spans.length > 2 ? { status: 413 } : ACCEPTED));
    await exporter.consume(otlpBatch(7));
    const accepted = server.requests.filter(({ spans }) => spans.length <= 2);
    const ids = accepted.flatMap(({ spans }) => spans.map(({ spanId }) => Number(`0x${spanId}`)));
    t.same(
      ids.sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7],
    );
  });
});

t.test('a shorter Retry-After does not end a longer one', async (t) => {
  const { server, exporter, clock } = await rigOf(t, { queue: false });
  const after = (seconds: string) => ({ status: 429, headers: { 'retry-after': seconds } });
  server.next(after('60'), after('1'));
  let refused = 0;
  for (let i = 0; i < 2; i++) exporter.consume(otlpBatch(1)).catch(() => refused++);
  await server.received(2);
  await advanceUntil(clock, 100, () => refused === 2);
  await t.rejects(exporter.consume(otlpBatch(1)), { code: 'destination_unavailable' });
  t.equal(server.requests.length, 2);
});

t.test('a clock that is set back does not prolong the pause of a destination', async (t) => {
  const { server, exporter, clock } = await rigOf(t, { queue: false });
  server.next({ status: 429, headers: { 'retry-after': '60' } });
  const paused = { name: 'RetryableError', retryAfterMs: 60_000 } as unknown as Error;
  const refused = () => t.rejects(exporter.consume(otlpBatch(1)), paused);
  await refused();
  clock.set(clock.now() - 86_400_000);
  await refused();
  clock.set(clock.now() + 59_999);
  const last = exporter.consume(otlpBatch(1));
  await until(() => clock.pending() > 0);
  t.equal(server.requests.length, 1);
  clock.advance(1);
  await last;
  t.equal(server.requests.length, 2);
});
