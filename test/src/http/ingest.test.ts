import { gzipSync } from 'node:zlib';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import { deferred } from '../../../src/component/deferred.ts';
import { repeatsOf } from '../../../src/http/repeats.ts';
import { requestDeadline } from '../../../src/http/request-deadline.ts';
import { isFreed, rawOf } from '../../../src/model/batch.ts';
import { PermanentError, Refusal, RetryableError } from '../../../src/model/errors.ts';
import { freeBatch } from '../../../src/model/formats.ts';
import { reject } from '../../../src/model/verbs.ts';
import { STORE, type Store } from '../../../src/store/store.ts';
import { aTenant, nativeEvent } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import type { Sink } from '../../helper/sink.ts';
import { acceptInto, memoryLedger } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';
import { events, lastOf, NOTHING_HELD, PATH, post, served } from './ingesting.ts';

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

t.test('lets a queue free the bytes of a batch once the answer is made, not before', async (t) => {
  const early: boolean[] = [];
  const { url, sink } = await served(t, {
    pipeline: (sink) => ({
      accept: acceptInto({
        ...sink,
        async consume(batch, request) {
          freeBatch(rawOf(batch));
          early.push(isFreed(rawOf(batch)));
          await sink.consume(batch, request);
        },
      }),
    }),
  });
  t.match(await post(url, events(2)), { status: 202, json: { accepted: 2 } });
  t.strictSame(early, [false]);
  const batch = lastOf(sink);
  freeBatch(batch);
  t.equal(isFreed(batch), true);
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

t.test('refuses requests while a reload replaces the store of the log', async (t) => {
  const store = deferred<Store>('extension sqlite', () => undefined);
  const answered = Promise.withResolvers<void>();
  const { url, held, refusals } = await served(t, {
    pipeline: (sink) => ({
      offers: [offer(STORE, store)],
      answerWithin: 1,
      accept: async (...args) => {
        await answered.promise;
        return acceptInto(sink)(...args);
      },
    }),
  });
  t.match(await post(url, '{'), { status: 400, json: { code: 'invalid_json' } });
  t.match(await post(url, events()), { status: 503, json: { code: 'unavailable' } });
  t.strictSame(refusals, ['invalid_json', 'unavailable']);
  answered.resolve();
  await until(() => held().admissions === 0);
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

t.test('answers failures of the pipeline 503, and logs faults', async (t) => {
  const { url, sink, listeners, held } = await served(t);
  sink.behave(() => {
    throw new RetryableError('queue_full', 'The queue is full.', { retryAfterMs: 3000 });
  });
  const full = await post(url, events());
  t.equal(full.status, 503);
  t.equal(full.headers.get('retry-after'), '3');
  t.equal(full.json.message, 'The queue is full.');
  t.equal((await post(url, events())).status, 503);
  t.match(listeners.logger.lines, [
    { level: 'warn', message: 'Request failed; its client retries' },
  ]);
  t.match(listeners.logger.lines[0]?.fields, { err: { code: 'queue_full' }, suppressed: 0 });
  for (const error of [new PermanentError('never', 'never'), new TypeError('fault')]) {
    sink.behave(() => Promise.reject(error));
    t.equal((await post(url, events())).status, 503);
  }
  t.strictSame(
    listeners.logger.lines.map(({ level }) => level),
    ['warn', 'warn', 'error'],
  );
  t.strictSame(held(), NOTHING_HELD);
});

t.test('answers 503 at the deadline, and lets the step in progress finish', async (t) => {
  const stuck = Promise.withResolvers<void>();
  const { url, sink, held, refusals, listeners } = await served(t, {
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
  t.match(listeners.logger.lines, [
    { level: 'warn', message: 'Request took too long; its client retries' },
  ]);
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

t.test(
  'renders the answer of a request that was not claimed for one that claims its key',
  async (t) => {
    const ledger = memoryLedger();
    const branch = (exporterId: string) => ({ exporterId, consume: async () => {} });
    const branches = [branch('a')];
    const { url, sink } = await served(t, {
      repeats: repeatsOf({ enabled: true, window: 600_000, max_entries: 100 }),
      pipeline: (sink) => ({
        idempotency: ledger,
        branches,
        async accept(batch, request) {
          const sealed = await acceptInto(sink)(batch, request);
          ledger.keep(sealed, request);
          return sealed;
        },
      }),
    });
    const first = await post(url, events());
    t.equal(sink.requests[0]?.answer?.status, 0, 'the id of the batch stands for the answer');
    branches.push(branch('b'));
    const again = await post(url, events());
    t.equal(again.status, 202);
    t.strictSame(again.json, first.json);
    t.equal(sink.batches.length, 1);
  },
);

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
