import t from 'tap';
import { isFreed, type SealedBatch } from '../../../src/model/batch.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { endRequest } from '../../../src/model/formats.ts';
import { retryAfterMs } from '../../../src/otlp-client/response.ts';
import { answered, nativeBatch, otlpBatch } from '../../helper/batches.ts';
import { startEarlyServer } from '../../helper/early-server.ts';
import { ACCEPTED, partialSuccess, startOtlpServer } from '../../helper/otlp-server.ts';
import { advanceUntil, until } from '../../helper/until.ts';
import { deadLettersOf, finish, isEmpty, type Rig, rigOf, start } from './rig.ts';

t.test('reads Retry-After as seconds or a date, of an hour at most', async (t) => {
  const now = Date.UTC(2026, 0, 15, 12, 0, 0);
  t.equal(retryAfterMs('7', now), 7000);
  t.equal(retryAfterMs('Thu, 15 Jan 2026 12:00:09 GMT', now), 9000);
  t.equal(retryAfterMs('Thu, 15 Jan 2026 11:00:00 GMT', now), 0);
  t.equal(retryAfterMs('999999999', now), 3_600_000);
  t.equal(retryAfterMs('Thu, 15 Jan 2026 13:00:01 GMT', now), 3_600_000);
  for (const text of [undefined, '', '-1', '1.5', 'soon', '12 monkeys']) {
    t.equal(retryAfterMs(text, now), undefined);
  }

  await t.test('and holds back every request until then', async (t) => {
    const rig = await rigOf(t, {
      config: { retry_on_failure: { initial_interval: '1ms', max_interval: '1ms' } },
    });
    const { server, exporter, clock } = rig;
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
    await advanceUntil(clock, 100, () => server.requests.length === 3);
    await until(() => isEmpty(rig));
  });
});

t.test('with a queue', async (t) => {
  await t.test(
    'answers at once, and keeps every batch while the destination is away',
    async (t) => {
      const rig = await rigOf(t);
      rig.server.always({ status: 503 });
      for (let i = 0; i < 5; i++) await rig.exporter.consume(otlpBatch(1));
      await advanceUntil(rig.clock, 10_000, () => rig.server.requests.length > 60);
      t.same(await deadLettersOf(rig), []);
      t.match(rig.health.report(false).components, [
        { healthy: false, message: /fails or does not answer/ },
      ]);
      rig.server.always(ACCEPTED);
      await advanceUntil(rig.clock, 10_000, () => isEmpty(rig));
      t.same(rig.health.report(false).components, []);
    },
  );

  await t.test(
    'keeps a refused batch as a dead letter with the message of the destination',
    async (t) => {
      const rig = await rigOf(t);
      const status = JSON.stringify({ code: 3, message: 'a field is wrong' });
      rig.server.next({
        status: 400,
        headers: { 'content-type': 'application/json' },
        body: status,
      });
      await rig.exporter.consume(otlpBatch(2));
      await until(async () => (await deadLettersOf(rig)).length === 1);
      t.match(await deadLettersOf(rig), [
        {
          items: 2,
          reason: { code: 'destination_refused', message: 'answered 400: a field is wrong' },
        },
      ]);
    },
  );

  await t.test('keeps a partial success as a dead letter, and does not retry it', async (t) => {
    const rig = await rigOf(t);
    rig.server.next(partialSuccess(2, 'bad ids'));
    await rig.exporter.consume(otlpBatch(3));
    await until(async () => (await deadLettersOf(rig)).length === 1);
    t.match(await deadLettersOf(rig), [
      {
        reason: {
          code: 'partial_success',
          message: 'the destination rejected 2 of 3 spans: bad ids',
        },
      },
    ]);
    t.equal(rig.server.requests.length, 1);
  });

  for (const reaction of [
    ...[401, 403, 404, 415].map((status) => ({ status })),
    { status: 200, headers: { 'content-type': 'text/html' }, body: '<title>Sign in</title>' },
  ]) {
    await t.test(
      `holds all data for ${JSON.stringify(reaction)}, and reports it, until the destination accepts data`,
      async (t) => {
        const rig = await rigOf(t);
        const { clock, health, server, settings } = rig;
        server.always(reaction);
        for (let i = 0; i < 3; i++) await rig.exporter.consume(otlpBatch(1));
        await advanceUntil(clock, 5000, () => server.requests.length > 20);
        const own = { exporter: 'otlphttp' };
        t.equal(settings.metrics.value('tracectl_otlphttp_held', own), 1);
        t.match(health.report(false).components, [
          { id: 'otlphttp', healthy: false, message: /refuses all requests/ },
        ]);
        const errors = settings.logger.lines.filter(({ level }) => level === 'error');
        t.ok(errors.length > 1 && errors.length < 20, 'logged again, but not for every attempt');
        const since = errors.map(({ fields }) => fields.since);
        t.same(since, Array(errors.length).fill(since[0]), 'since the first refusal');
        t.same(await deadLettersOf(rig), []);
        server.always(ACCEPTED);
        await advanceUntil(clock, 5000, () => isEmpty(rig));
        t.equal(settings.metrics.value('tracectl_otlphttp_held', own), 0);
        t.same(health.report(false).components, []);
      },
    );
  }

  for (const [accepted, message] of [
    [undefined, 'answered 415 (the body was protobuf in zstd: set compression, or encoding'],
    ['gzip, zstd', 'answered 415 (the body was protobuf in zstd: set compression, or encoding'],
    ['*', 'answered 415 (the body was protobuf in zstd: set compression, or encoding'],
    ['identity, GZIP', 'it takes identity, GZIP, and not zstd: set compression'],
    ['*, zstd; q=0.0', 'it takes *, zstd; q=0.0, and not zstd: set compression'],
    ['', 'it takes no compression, and not zstd: set compression'],
  ] as const) {
    await t.test(`a 415 names the setting to correct: accepted is ${accepted}`, async (t) => {
      const rig = await rigOf(t, { config: { compression: 'zstd' } });
      const headers = accepted === undefined ? {} : { 'accept-encoding': accepted };
      rig.server.always({ status: 415, headers });
      await rig.exporter.consume(otlpBatch(1));
      const components = () => rig.health.report(false).components;
      await until(() => components().length > 0);
      t.match(components()[0]?.message, message);
    });
  }

  await t.test('a 415 holds JSON only if the destination refuses its encoding', async (t) => {
    const rig = await rigOf(t, { config: { compression: 'none' } });
    const json = () => rig.exporter.consume(otlpBatch(1, { format: 'otlp_json' }));
    rig.server.next(
      { status: 415 },
      { status: 415, headers: { 'accept-encoding': 'identity, gzip' } },
      { status: 415, headers: { 'accept-encoding': 'identity;q=0, gzip' } },
    );
    await json();
    await json();
    // Other clients send protobuf, so a type that a few send must not hold the queue.
    await until(async () => (await deadLettersOf(rig)).length === 2);
    t.match(await deadLettersOf(rig), [{ reason: { message: 'answered 415' } }, {}]);
    await json();
    await until(() => rig.health.report(false).components.length > 0);
    await advanceUntil(rig.clock, 5000, () => isEmpty(rig));
    t.equal((await deadLettersOf(rig)).length, 2);
  });

  await t.test('on_permanent_error changes the action for a status', async (t) => {
    const rig = await rigOf(t, {
      config: { on_permanent_error: { 401: 'dead_letter', 400: 'hold', 500: 'retry' } },
    });
    const { clock, server } = rig;
    server.next({ status: 401 });
    await rig.exporter.consume(otlpBatch(1));
    await until(async () => (await deadLettersOf(rig)).length === 1);
    server.next({ status: 400 }, { status: 500 });
    await rig.exporter.consume(otlpBatch(1));
    await advanceUntil(clock, 5000, () => server.requests.length === 4);
    await until(() => isEmpty(rig));
    t.equal((await deadLettersOf(rig)).length, 1);
  });

  await t.test('keeps a batch as a dead letter after max_elapsed_time', async (t) => {
    const rig = await rigOf(t, { config: { retry_on_failure: { max_elapsed_time: '1m' } } });
    rig.server.always({ status: 503 });
    await rig.exporter.consume(otlpBatch(1));
    await rig.server.received(1);
    await advanceUntil(rig.clock, 5000, () => rig.queue().stats().deadLetters === 1);
    await until(async () => (await deadLettersOf(rig)).length === 1);
    t.match(await deadLettersOf(rig), [{ reason: { code: 'retries_exhausted' } }]);
  });

  for (const [size, attributes] of [
    ['a small body', {}],
    ['a large body, cut in a thread', { input: 'x'.repeat(200_000) }],
  ] as const) {
    await t.test(`keeps only the span that is too large as a dead letter: ${size}`, async (t) => {
      const rig = await rigOf(t, { config: { compression: 'none' } });
      rig.server.always(({ spans }) =>
        spans.some(({ name }) => name === 'huge') ? { status: 413 } : ACCEPTED,
      );
      const spans = Array.from({ length: 7 }, (_, i) => ({
        spanId: `000000000000000${i + 1}`,
        name: i === 4 ? 'huge' : 'small',
        attributes,
      }));
      await rig.exporter.consume(otlpBatch(spans));
      await until(async () => (await deadLettersOf(rig)).length === 1 && isEmpty(rig));
      t.match(await deadLettersOf(rig), [{ items: 1, reason: { code: 'too_large' } }]);
      const small = rig.server.requests.filter((request) =>
        request.spans.every(({ name }) => name === 'small'),
      );
      t.equal(small.flatMap((request) => request.spans).length, 6);
      rig.server.always(ACCEPTED);
      await rig.queue().replay('all');
      await until(() => isEmpty(rig));
      t.equal(rig.server.requests.at(-1)?.spans[0]?.name, 'huge');
    });
  }

  for (const [sizer, queue_size, size] of [
    ['requests', 2, 1],
    ['items', 5, 2],
    ['bytes', 500, 1],
  ] as const) {
    await t.test(`queue_size counts ${sizer}`, async (t) => {
      const rig = await rigOf(t, { queue: { sizer, queue_size } });
      rig.server.always('hang');
      const errors: unknown[] = [];
      for (let i = 0; i < 8; i++) {
        await rig.exporter.consume(otlpBatch(size)).catch((error: unknown) => errors.push(error));
      }
      t.ok(errors.length > 0 && errors.length < 8);
      t.match(errors, [{ code: 'queue_full' }]);
      t.ok(errors[0] instanceof RetryableError);
      const isReady = rig.health.report(true).components[0]?.ready;
      if (sizer === 'requests') t.equal(isReady, false, 'its health reports the full queue');
    });
  }

  await t.test('keeps the answer to a request with its batch', async (t) => {
    const { exporter } = await rigOf(t);
    const batch = nativeBatch(1);
    const requestHash = Buffer.alloc(32, 1);
    const claimed = () => exporter.idempotency?.claim(batch.tenant, 'k', requestHash);
    const claim = await claimed();
    const body = Buffer.from('{}');
    await exporter.consume(
      batch,
      answered({ key: 'k', requestHash, status: 202, contentType: 'application/json', body }),
    );
    if (claim?.state === 'new') claim.release();
    t.match(await claimed(), { state: 'replay', answer: { status: 202 } });
  });

  await t.test('a batch that is larger than the queue does not wait for room', async (t) => {
    const rig = await rigOf(t, {
      queue: { sizer: 'items', queue_size: 2, block_on_overflow: true },
    });
    await t.rejects(rig.exporter.consume(otlpBatch(3)), {
      ...{ name: 'PermanentError', code: 'too_large' },
      message: 'the batch has 3 items, and queue_size is 2',
    });
    await rig.exporter.consume(otlpBatch(2));
    await until(() => isEmpty(rig));
  });

  await t.test('block_on_overflow waits for room', async (t) => {
    const rig = await rigOf(t, { queue: { queue_size: 1, block_on_overflow: true } });
    rig.server.next('hang');
    await rig.exporter.consume(otlpBatch(1));
    await rig.server.received(1);
    let isIn = false;
    const waits = rig.exporter.consume(otlpBatch(1)).then(() => {
      isIn = true;
    });
    for (let i = 0; i < 20; i++) {
      rig.clock.advance(50);
      await new Promise(setImmediate);
    }
    t.notOk(isIn);
    await advanceUntil(rig.clock, 5000, () => isIn);
    await waits;
  });

  await t.test('has at most num_consumers requests in flight', async (t) => {
    const rig = await rigOf(t, { queue: { num_consumers: 2 } });
    rig.server.always('hang');
    for (let i = 0; i < 6; i++) await rig.exporter.consume(otlpBatch(1));
    await rig.server.received(2);
    for (let i = 0; i < 50; i++) await new Promise(setImmediate);
    t.equal(rig.server.requests.length, 2);
    rig.server.always(ACCEPTED);
    await advanceUntil(rig.clock, 5000, () => isEmpty(rig));
  });

  await t.test('sends after a restart what was not sent before it', async (t) => {
    const directory = t.testdir();
    const server = await startOtlpServer(t);
    const first = await rigOf(t, { directory, server });
    server.always('hang');
    for (let i = 0; i < 20; i++) await first.exporter.consume(otlpBatch(1));
    await first.exporter.consume(nativeBatch([start('a')]));
    await server.received(1);
    await first.stop();
    server.always(ACCEPTED);
    const second = await rigOf(t, { directory, server });
    await second.exporter.consume(nativeBatch([finish('a')]));
    await until(() => isEmpty(second));
    t.ok(server.requests.length >= 21);
    t.same(await deadLettersOf(second), []);
  });
});

t.test('frees the body of a delivered batch', async (t) => {
  const owning = (batch: SealedBatch): SealedBatch => {
    const bytes = new Uint8Array(batch.body);
    return { ...batch, body: Buffer.from(bytes.buffer) };
  };
  /** As after the answer to its client. */
  const consumed = async ({ exporter }: Rig, batch: SealedBatch): Promise<void> => {
    endRequest(batch);
    await exporter.consume(batch);
  };

  await t.test('which the destination has got', async (t) => {
    const rig = await rigOf(t, { config: { compression: 'none' } });
    const batch = owning(otlpBatch([{ name: 'one' }]));
    await consumed(rig, batch);
    await until(() => isEmpty(rig));
    t.match(rig.server.requests, [{ spans: [{ name: 'one' }] }]);
    t.equal(isFreed(batch), true);
  });

  await t.test('but not while its connection still reads it', async (t) => {
    const server = await startEarlyServer(t);
    const rig = await rigOf(t, {
      config: { compression: 'none', endpoint: server.url },
    });
    // More than the system keeps for a connection whose peer reads nothing, and less than the cache of the queue.
    const batch = owning(otlpBatch([{ attributes: { text: 'x'.repeat(14_000_000) } }]));
    const sent = Buffer.from(batch.body);
    await consumed(rig, batch);
    await until(() => isEmpty(rig));
    t.equal(isFreed(batch), false);
    server.read();
    await until(() => server.received().length >= sent.length);
    const received = server.received();
    t.ok(received.subarray(received.length - sent.length).equals(sent), 'it arrives unchanged');
  });

  await t.test('but not of events, which may wait for later ones', async (t) => {
    const rig = await rigOf(t);
    const batch = owning(nativeBatch([finish('a')]));
    await consumed(rig, batch);
    await until(() => isEmpty(rig));
    t.equal(isFreed(batch), false);
  });

  await t.test('but not of one that the destination refused', async (t) => {
    const rig = await rigOf(t, { config: { compression: 'none' } });
    rig.server.next({ status: 400 });
    const batch = owning(otlpBatch([{ name: 'one' }]));
    await consumed(rig, batch);
    await until(async () => (await deadLettersOf(rig)).length === 1);
    t.equal(isFreed(batch), false);
  });
});
