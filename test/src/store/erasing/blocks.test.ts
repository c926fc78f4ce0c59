import { randomUUID } from 'node:crypto';
import t from 'tap';
import { systemClock } from '../../../../src/component/clock.ts';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import { observe } from '../../../../src/model/formats.ts';
import { takeDropped } from '../../../../src/model/verbs.ts';
import { withoutIds } from '../../../../src/store/erasing/answers.ts';
import type { BlockRow } from '../../../../src/store/erasing/blocks.ts';
import { blockHash, ErasureBlocks } from '../../../../src/store/erasing/blocks.ts';
import { hashedQuery, namedValues } from '../../../../src/store/erasing/named.ts';
import {
  aTenant,
  nativeBatch,
  nativeEvent,
  otlpBatch,
  rawBatch,
  received,
} from '../../../helper/batches.ts';
import { aQuery } from '../../../helper/query.ts';

const NOW = 1000;

async function blocks(...hashes: string[]): Promise<ErasureBlocks> {
  const made = new ErasureBlocks(() => NOW);
  await made.renew(async () => rowsOf(...hashes));
  return made;
}

function rowsOf(...hashes: string[]): BlockRow[] {
  return hashes.map((hash) => ({ project: 'proj_test', hash, until: NOW + 1 }));
}

t.test('a query names ids and users only if it asks for nothing else', async (t) => {
  t.same(namedValues(aQuery('id:a,b')), { ids: ['a', 'b'], users: null });
  t.same(namedValues(aQuery('user:u id:a')), { ids: ['a'], users: ['u'] });
  for (const other of ['user:u*', '-user:u', 'user:u name:x', 'user:u user:v', 'u', 'has:user']) {
    t.equal(namedValues(aQuery(other)), undefined, other);
  }
});

t.test('a hashed query has no text of a client', async (t) => {
  const text = hashedQuery(aQuery('user:secret -name:secret* status:error latency:>2s "secret"'));
  t.notMatch(text, 'secret');
  t.match(
    text,
    /^user:[0-9a-f]{64} -name:[0-9a-f]{64}\* status:error latency:>2000ms [0-9a-f]{64}$/,
  );
});

t.test('a block drops an item with the user, and the items of its trace', async (t) => {
  const events = [
    nativeEvent({ id: '1', trace_id: 'a', metadata: {} }),
    nativeEvent({ id: '2', trace_id: 'b', metadata: { user_id: 'v' } }),
    nativeEvent({ id: '3', trace_id: 'a', metadata: { user_id: 'u' } }),
  ];
  const batch = received(nativeBatch(events));
  (await blocks(blockHash('user', 'u'))).apply(batch, systemClock);
  t.equal(batch.items, 1);
  t.same([...(takeDropped(batch) ?? [])], [['erasure_block', 2]]);
});

t.test('a block of a trace id drops its spans, and no user with the same text', async (t) => {
  const id = '0af7651916cd43dd8448eb211c80319c';
  const batch = received(otlpBatch([{ traceId: id }, { traceId: 'f'.repeat(32) }]));
  (await blocks(blockHash('user', id))).apply(batch, systemClock);
  t.equal(batch.items, 2);
  (await blocks(blockHash('id', id))).apply(batch, systemClock);
  t.equal(batch.items, 1);
});

t.test('a block drops the span that a client sends beside a blocked run', async (t) => {
  const start = Date.UTC(2026, 0, 15);
  const both = { LANGSMITH_OTEL_ENABLED: 'true' };
  const run = (name: string, user: string) => ({
    ...{ id: randomUUID(), trace_id: randomUUID(), name, run_type: 'chain', inputs: {} },
    ...{ start_time: new Date(start).toISOString() },
    extra: { metadata: { ...both, user_id: user } },
  });
  const runs = [run('blocked', 'u'), run('kept', 'v')];
  const span = (name: string, i: number, mark = 'langsmith.metadata.LANGSMITH_OTEL_ENABLED') => ({
    ...{ traceId: `${i}`.repeat(32), spanId: `${i}`.repeat(16), name },
    ...{ startTimeUnixNano: `${start}000000`, endTimeUnixNano: `${start + 5}000000` },
    attributes: [{ key: mark, value: { stringValue: 'true' } }],
  });
  const spans = [span('blocked', 1), span('kept', 2), span('blocked', 3, 'another mark')];
  const ofScope = { scope: { name: 'langsmith' }, spans };
  const spanBody = { resourceSpans: [{ scopeSpans: [ofScope] }] };
  const of = (projectId: string) => {
    const more = { tenant: aTenant({ projectId }) };
    return {
      runs: rawBatch('runs', Buffer.from(JSON.stringify({ post: runs })), 2, more),
      spans: rawBatch('otlp_json', Buffer.from(JSON.stringify(spanBody)), 3, more),
    };
  };
  const own = of('proj_test');
  const accepting = await blocks(blockHash('user', 'u'));
  const acceptedRuns = received(own.runs);
  await accepting.apply(acceptedRuns, systemClock);
  t.equal(acceptedRuns.items, 1);
  const acceptedSpans = received(own.spans);
  await accepting.apply(acceptedSpans, systemClock);
  t.same([...(takeDropped(acceptedSpans) ?? [])], [['erasure_block', 1]]);

  // The same for batches that another process accepted.
  const storing = await blocks(blockHash('user', 'u'));
  const leftOf = (source: SealedBatch) =>
    storing
      .left({ kind: 'observations', source, observations: observe(source) })
      .observations.map(({ name }) => name);
  t.same(leftOf(own.spans), ['blocked', 'kept', 'blocked'], 'before the run');
  t.same(leftOf(own.runs), ['kept']);
  t.same(leftOf(own.spans), ['kept', 'blocked']);
  t.same(leftOf(of('proj_other').spans), ['blocked', 'kept', 'blocked']);
});

t.test('a block keeps the span of another user that is like a blocked run', async (t) => {
  const start = Date.UTC(2026, 0, 15);
  const run = (user: string | null) => ({
    ...{ id: randomUUID(), trace_id: randomUUID(), name: 'alike', run_type: 'chain', inputs: {} },
    ...{ start_time: new Date(start).toISOString() },
    extra: { metadata: { LANGSMITH_OTEL_ENABLED: 'true', ...(user && { user_id: user }) } },
  });
  const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
  const span = (trace: number, id: number, name: string, user?: string) => ({
    ...{ traceId: `${trace}`.repeat(32), spanId: `${id}`.repeat(16), name },
    ...{ startTimeUnixNano: `${start}000000`, endTimeUnixNano: `${start + 5}000000` },
    attributes: [
      attribute('langsmith.metadata.LANGSMITH_OTEL_ENABLED', 'true'),
      ...(user === undefined ? [] : [attribute('user.id', user)]),
    ],
  });
  const spans = [
    ...[span(1, 1, 'alike'), span(1, 2, 'root', 'v')],
    ...[span(2, 3, 'alike'), span(2, 4, 'root', 'u')],
    ...[span(3, 5, 'alike'), span(3, 6, 'root')],
  ];
  const keptAfter = async (hash: string, ...runs: ReturnType<typeof run>[]) => {
    const blocking = await blocks(hash);
    const ofRuns = rawBatch('runs', Buffer.from(JSON.stringify({ post: runs })), runs.length);
    await blocking.apply(received(ofRuns), systemClock);
    const body = { resourceSpans: [{ scopeSpans: [{ scope: { name: 'langsmith' }, spans }] }] };
    const source = rawBatch('otlp_json', Buffer.from(JSON.stringify(body)), spans.length);
    return blocking
      .left({ kind: 'observations', source, observations: observe(source) })
      .observations.map(({ traceId }) => traceId?.[0]);
  };
  t.same(await keptAfter(blockHash('user', 'u'), run('u')), ['1', '1']);
  const ofTrace = run(null);
  const hash = blockHash('id', ofTrace.trace_id);
  t.same(await keptAfter(hash, ofTrace), [], 'a run without a user may be of any');
  const named = run('v');
  t.same(await keptAfter(blockHash('id', named.trace_id), named), ['2', '2']);
});

t.test('a batch is read in turns, and dropped as a whole', async (t) => {
  let now = 0;
  // Each item takes longer than a turn.
  const slow = { ...systemClock, now: () => (now += 20) };
  const user = (id: string) => ({ metadata: { user_id: id } });
  const events = ['u', 'v', 'u'].map((id, i) => nativeEvent({ trace_id: `${i}`, ...user(id) }));
  const batch = received(nativeBatch(events));
  const applying = (await blocks(blockHash('user', 'u'))).apply(batch, slow);
  t.equal(batch.items, 3, 'the first turn ends before the last item is read');
  await applying;
  t.equal(batch.items, 1);
});

t.test('the turns end with the request', async (t) => {
  let now = 0;
  const slow = { ...systemClock, now: () => (now += 20) };
  const events = ['a', 'b', 'c'].map((id) => nativeEvent({ id, metadata: { user_id: 'u' } }));
  const batch = received(nativeBatch(events));
  const request = new AbortController();
  const { signal } = request;
  const applying = (await blocks(blockHash('user', 'u'))).apply(batch, slow, signal);
  request.abort();
  await t.rejects(async () => applying, { code: 'too_late' });
  t.equal(batch.items, 3);
});

t.test('a span with too many keys is blocked by its trace, and not decoded', async (t) => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const attributes = Object.fromEntries(Array.from({ length: 32_768 }, (_, i) => [`k${i}`, 'a']));
  const batch = received(otlpBatch([{ traceId, attributes: { 'user.id': 'u', ...attributes } }]));
  (await blocks(blockHash('user', 'u'))).apply(batch, systemClock);
  t.equal(batch.items, 1);
  (await blocks(blockHash('id', traceId))).apply(batch, systemClock);
  t.equal(batch.items, 0);
});

t.test('a block ends at its time', async (t) => {
  const events = [nativeEvent({ trace_id: 'a' })];
  const made = new ErasureBlocks(() => NOW);
  const hash = blockHash('id', 'a');
  await made.renew(async () => [{ project: 'proj_test', hash, until: NOW }]);
  const batch = received(nativeBatch(events));
  made.apply(batch, systemClock);
  t.equal(batch.items, 1);
  t.equal(new ErasureBlocks(() => NOW).areSome, false);
});

t.test('of reads that overlap the one that began last counts', async (t) => {
  const made = new ErasureBlocks(() => NOW);
  const [first, second] = [
    Promise.withResolvers<BlockRow[]>(),
    Promise.withResolvers<BlockRow[]>(),
  ];
  const renewals = [made.renew(() => first.promise), made.renew(() => second.promise)];
  second.resolve(rowsOf(blockHash('id', 'a')));
  await renewals[1];
  first.resolve([]);
  await renewals[0];
  const batch = received(nativeBatch([nativeEvent({ trace_id: 'a' })]));
  made.apply(batch, systemClock);
  t.equal(batch.items, 0);
  await t.rejects(made.renew(() => Promise.reject(new Error('away'))));
  t.ok(made.areSome, 'a read that fails changes nothing');
  await made.renew(async () => []);
  t.notOk(made.areSome);
});

t.test('an answer loses the ids of erased items only', async (t) => {
  const answer = {
    status: 'queued',
    results: [
      { index: 0, id: 'a' },
      { index: 1, id: 'b' },
    ],
  };
  const cleaned = withoutIds(Buffer.from(JSON.stringify(answer)), (id) => id === 'a');
  t.same(JSON.parse(String(cleaned)), {
    status: 'queued',
    results: [{ index: 0 }, { index: 1, id: 'b' }],
  });
  t.equal(
    withoutIds(Buffer.from(JSON.stringify(answer)), () => false),
    undefined,
  );
  for (const other of ['', '{}', '[]', 'null', '\u0001']) {
    t.equal(
      withoutIds(Buffer.from(other), () => true),
      undefined,
    );
  }
});
