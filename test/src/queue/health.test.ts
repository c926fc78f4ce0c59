import t from 'tap';
import { queueHealth } from '../../../src/queue/health.ts';
import type { DurableQueue, QueueStats } from '../../../src/queue/queue.ts';
import { fakeClock } from '../../helper/clock.ts';

const EMPTY: QueueStats = {
  branches: [{ branch: 'a', entries: 0, items: 0, leased: 0, oldestAt: undefined }],
  bytes: 0,
  maxBytes: 1000,
  deadLetters: 0,
  deadLetterItems: 0,
  quarantined: 0,
};

/** A queue that has only stats. */
function queueWith(stats: { now: QueueStats }): DurableQueue {
  return { stats: () => stats.now } as DurableQueue;
}

t.test('reports the backlog, and is not ready while the queue is full', async (t) => {
  const clock = fakeClock();
  const stats = { now: EMPTY };
  const read = queueHealth(queueWith(stats), clock);
  t.match(read(), {
    ready: true,
    healthy: true,
    details: { queued_entries: 0, queued_items: 0, oldest_age_seconds: null },
  });
  const branch = { branch: 'a', entries: 2, items: 50, leased: 0, oldestAt: clock.now() - 700 };
  stats.now = { ...EMPTY, branches: [branch, { ...branch, branch: 'b' }], bytes: 1000 };
  t.match(read(), {
    ready: false,
    message: 'The queue is full.',
    details: { queued_entries: 4, queued_items: 100, oldest_age_seconds: 0.7, bytes: 1000 },
  });
});

t.test('has max_bytes only if the queue has a bound', async (t) => {
  const stats = { now: EMPTY };
  const read = queueHealth(queueWith(stats), fakeClock());
  t.equal(read().details?.max_bytes, 1000);
  stats.now = { ...EMPTY, maxBytes: Number.MAX_SAFE_INTEGER };
  t.notOk(Object.hasOwn(read().details ?? {}, 'max_bytes'));
});

t.test('is unhealthy if the oldest entry stays the same for more than 60 s', async (t) => {
  const clock = fakeClock();
  const stats = { now: EMPTY };
  const read = queueHealth(queueWith(stats), clock);
  const waitingSince = (oldestAt: number | undefined) => {
    stats.now = {
      ...EMPTY,
      branches: [{ branch: 'a', entries: 9, items: 9, leased: 0, oldestAt }],
    };
  };
  const old = clock.now() - 3_600_000;
  waitingSince(old);
  t.ok(read().healthy, 'the age before a restart does not count');
  clock.advance(60_000);
  t.ok(read().healthy);
  clock.advance(1);
  t.match(read(), { ready: true, healthy: false, message: 'Nothing is delivered to a.' });
  waitingSince(old + 1);
  t.ok(read().healthy, 'the oldest entry was delivered');
  clock.advance(60_001);
  t.notOk(read().healthy);
  waitingSince(undefined);
  t.ok(read().healthy);
});
