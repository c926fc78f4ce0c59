import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock, Pipeline } from '../../../src/component/component.ts';
import { Refusal } from '../../../src/model/errors.ts';
import type { ReadLimits } from '../../../src/read/reads.ts';
import { Gathered, MOST_WAITING } from '../../../src/read/stream.ts';
import { ChangeFeed, UNNAMED } from '../../../src/store/changes.ts';
import type { Store } from '../../../src/store/store.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { aTrace, fakeTraces } from '../../helper/fake-traces.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';

const ids = (count: number, first = 0) => Array.from({ length: count }, (_, i) => `t${first + i}`);

t.test('changes that wait for a slow client are kept once, and counted beyond a bound', (t) => {
  const gathered = new Gathered();
  gathered.add(ids(MOST_WAITING));
  gathered.add(ids(5));
  t.same(gathered.take(3), { ids: ids(3), missed: 0 }, 'exactly as many as are kept');
  gathered.add(ids(3, MOST_WAITING));
  gathered.add(ids(2, MOST_WAITING + 3));
  const { ids: kept, missed } = gathered.take(MOST_WAITING);
  t.equal(missed, 2, 'two more than are kept');
  t.equal(kept.length, MOST_WAITING);
  t.same(gathered.take(9), { ids: [], missed: 0 });
  gathered.add([UNNAMED, 'a', UNNAMED]);
  t.same(gathered.take(9), { ids: ['a'], missed: 2 }, 'traces whose id is not known');
  t.end();
});

t.test(
  'a stream reads a little after the first change, and looks around without one',
  async (t) => {
    const clock = fakeClock();
    const gathered = new Gathered();
    let reads = 0;
    const next = () =>
      gathered.some(clock, 1000).then(() => {
        reads++;
      });
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    let waiting = next();
    clock.advance(500);
    gathered.add(['a']);
    await turn();
    t.equal(reads, 0, 'further changes may come');
    gathered.add(['b']);
    clock.advance(200);
    await waiting;
    t.same(gathered.take(9).ids, ['a', 'b']);
    waiting = next();
    clock.advance(999);
    await turn();
    t.equal(reads, 1);
    clock.advance(1);
    await waiting;
    waiting = next();
    gathered.wake();
    await waiting;
    t.equal(reads, 3, 'a client that has gone ends the wait');
  },
);

type StreamOptions = {
  readonly admitRead?: Pipeline['admitRead'];
  readonly clock?: Clock;
  readonly limits?: Partial<ReadLimits>;
};

/** A listener with a store whose changes the test publishes. */
async function streaming(
  t: Test,
  traceIds: readonly string[],
  { admitRead, clock, limits }: StreamOptions = {},
) {
  const listeners = testListeners(undefined, clock, { streams_per_key: 2, ...limits });
  const changes = new ChangeFeed();
  const traces = fakeTraces(() => 'proj_test', { traces: traceIds.map((id) => aTrace({ id })) });
  const store = { traces, changes } as unknown as Store;
  const pipeline = sinkPipeline(createSink(), {
    offers: [offer(STORE, store)],
    ...(admitRead && { admitRead }),
  });
  const entrance = { pipeline, fallback: undefined };
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, entrance);
  await listener.open();
  let isStopped = false;
  const stop = async () => {
    if (isStopped) return;
    isStopped = true;
    await listener.close(AbortSignal.timeout(5_000));
    await listeners.close();
  };
  t.teardown(stop);
  const follow = async (query = '') => {
    const client = new AbortController();
    const answer = await fetch(`${urlOf(listener)}/api/v1/traces/stream${query}`, {
      signal: client.signal,
    });
    let text = '';
    let hasEnded = false;
    const reading = async () => {
      for await (const chunk of answer.body ?? []) text += Buffer.from(chunk).toString();
    };
    reading()
      .catch(() => {})
      .finally(() => {
        hasEnded = true;
      });
    return { answer, client, text: () => text, hasEnded: () => hasEnded };
  };
  return { changes, listeners, follow, stop, base: urlOf(listener) };
}

t.test('a client that takes JSON only reads the trace with the id "stream"', async (t) => {
  const { base } = await streaming(t, ['stream']);
  const get = (accept: string, query = '') =>
    fetch(`${base}/api/v1/traces/stream${query}`, { headers: { accept } });
  const shown = await get('application/json');
  t.match(await shown.json(), { trace: { id: 'stream' } });
  t.equal((await get('application/json', '?q=name:chat')).status, 400);
  for (const accept of ['*/*', 'text/event-stream', 'application/json, text/event-stream']) {
    const answer = await get(accept);
    t.equal(answer.headers.get('content-type'), 'text/event-stream', accept);
    await answer.body?.cancel();
  }
  t.equal((await get('*/*', '?limit=1')).status, 400, 'the stream has no limit');
});

t.test('a client gets an event for each changed trace, until it goes away', async (t) => {
  const { changes, listeners, follow } = await streaming(t, ['a', 'b']);
  const first = await follow();
  t.equal(first.answer.status, 200);
  t.equal(first.answer.headers.get('content-type'), 'text/event-stream');
  await until(() => changes.isWatched('proj_test'));
  changes.publish('proj_test', ['a', 'a', 'gone']);
  changes.publish('proj_other', ['b']);
  await until(() => first.text().includes('event: trace'));
  const [, data] = /event: trace\ndata: (.*)\n\n/.exec(first.text()) ?? [];
  t.match(JSON.parse(data ?? ''), { id: 'a', name: 'chat' });
  t.equal(first.text().split('event: trace').length, 2, 'once');
  changes.publish(
    'proj_test',
    ids(MOST_WAITING + 7).map((id) => `x-${id}`),
  );
  await until(() => first.text().includes('event: lagged'));
  t.match(first.text(), 'event: lagged\ndata: {"missed":7}\n\n');
  const second = await follow('?q=name:chat');
  const third = await follow();
  t.equal(third.answer.status, 429);
  second.client.abort();
  first.client.abort();
  await until(() => !changes.isWatched('proj_test'));
  await until(() => listeners.reads.streams.taken === 0 && listeners.reads.heldBytes === 0);
});

t.test('a stream ends for one of a project within its share', async (t) => {
  const clock = fakeClock();
  const limits = { streams: 2, streams_per_key: 2 };
  const { changes, listeners, follow } = await streaming(t, ['a'], { clock, limits });
  const [first, second] = [await follow(), await follow()];
  const { streams } = listeners.reads;
  t.throws(() => streams.take(aTenant({ projectId: 'proj_test', keyId: 'k2' })), {
    code: 'unavailable',
  });
  const leave = streams.take(aTenant({ projectId: 'other', keyId: 'k3' }));
  await until(() => second.hasEnded());
  t.equal(first.hasEnded(), false, 'the other one is within the share');
  t.equal(streams.taken, 2);
  leave();
  await until(() => changes.isWatched('proj_test'));
  const third = await follow();
  t.equal(third.answer.status, 200, 'the place is free again');
});

t.test('a client that asks for it gets the ids that have changed and do not match', async (t) => {
  const { changes, follow, base } = await streaming(t, ['a']);
  const [plain, withLeft] = [await follow('?left=false'), await follow('?left=true')];
  await until(() => changes.isWatched('proj_test'));
  changes.publish('proj_test', ['a', 'gone']);
  await until(() => withLeft.text().includes('event: left') && plain.text().includes('event: t'));
  t.match(withLeft.text(), 'event: left\ndata: {"ids":["gone"]}\n\n');
  t.match(withLeft.text(), 'event: trace\ndata: {"id":"a"');
  t.notMatch(plain.text(), 'event: left');
  t.equal((await fetch(`${base}/api/v1/traces/stream?left=1`)).status, 400);
});

t.test('a stream ends after its key was revoked, and not while its key is busy', async (t) => {
  const tenant = aTenant();
  let late = 0;
  let refusal: Refusal | undefined;
  const admitRead = () => {
    if (refusal !== undefined) throw refusal;
    return { tenant, release() {} };
  };
  const clock = { ...systemClock, now: () => systemClock.now() + late };
  const { changes, follow } = await streaming(t, ['a', 'b'], { admitRead, clock });
  const { hasEnded, text } = await follow();
  await until(() => changes.isWatched(tenant.projectId));
  refusal = new Refusal('rate_limited', 'The key is busy.');
  late = 15_000;
  changes.publish(tenant.projectId, ['a']);
  await until(() => text().includes('event: trace'));
  t.notOk(hasEnded());
  refusal = new Refusal('unauthorized', 'The key is revoked.');
  late = 30_000;
  changes.publish(tenant.projectId, ['b']);
  await until(hasEnded);
  t.equal(text().split('event: trace').length, 2, 'nothing after the revocation was noticed');
});

t.test(
  'a stream goes on to look at its key and to send signs of life when the clock is set back',
  async (t) => {
    const tenant = aTenant();
    let late = 0;
    let isRevoked = false;
    const admitRead = () => {
      if (isRevoked) throw new Refusal('unauthorized', 'The key is revoked.');
      return { tenant, release() {} };
    };
    const clock = { ...systemClock, now: () => systemClock.now() + late };
    const { changes, follow } = await streaming(t, [], { admitRead, clock });
    const { hasEnded, text } = await follow();
    await until(() => changes.isWatched(tenant.projectId));
    late = -3_600_000;
    await until(() => text().includes(': alive'));
    isRevoked = true;
    late = -7_200_000;
    await until(hasEnded);
  },
);

t.test('a listener that stops ends its streams', async (t) => {
  const { follow, stop } = await streaming(t, []);
  const { hasEnded } = await follow();
  await stop();
  await until(hasEnded);
  t.ok(hasEnded());
});
