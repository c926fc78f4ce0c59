import fc from 'fast-check';
import t from 'tap';
import { tokenBuckets } from '../../../src/component/token-buckets.ts';
import { fakeClock } from '../../helper/clock.ts';

const NOON = Date.UTC(2026, 0, 15, 12, 0, 0);
const HOUR = 3_600_000;

t.test('gives the burst, then a token at the rate', async (t) => {
  const clock = fakeClock(NOON);
  const buckets = tokenBuckets({ perSecond: 2, burst: 2, maxNames: 3 }, clock);
  t.equal(buckets.wait('a'), 0);
  t.same([buckets.take('a'), buckets.take('a'), buckets.take('a')], [0, 0, 500]);
  clock.advance(499);
  t.ok(buckets.take('a') > 0, 'one millisecond early');
  clock.advance(1);
  t.equal(buckets.wait('a'), 0);
  t.equal(buckets.take('a'), 0);
  t.equal(buckets.wait('a'), 500);
});

t.test('takes several tokens if there is one, and owes the others', async (t) => {
  const clock = fakeClock(NOON);
  const buckets = tokenBuckets({ perSecond: 1, burst: 4, maxNames: 3 }, clock);
  t.same([buckets.take('a', 3), buckets.take('a', 3), buckets.take('a', 3)], [0, 0, 3000]);
  clock.advance(2999);
  t.ok(buckets.take('a') > 0, 'one millisecond early');
  clock.advance(1);
  t.equal(buckets.take('a'), 0);
});

t.test('evicts the bucket used least recently, one past the limit', async (t) => {
  const clock = fakeClock(NOON);
  const buckets = tokenBuckets({ perSecond: 1, burst: 1, maxNames: 3 }, clock);
  for (const name of ['a', 'b', 'c', 'a', 'd']) buckets.take(name);
  t.equal(buckets.size, 3);
  t.ok(buckets.wait('a') > 0, 'a was used again');
  t.equal(buckets.wait('b'), 0, 'b was evicted');
  for (let i = 0; i < 10_000; i++) buckets.take(`name-${i}`);
  t.equal(buckets.size, 3);
});

t.test('asking for the wait does not count as use', async (t) => {
  const buckets = tokenBuckets({ perSecond: 1, burst: 1, maxNames: 2 }, fakeClock(NOON));
  for (const name of ['a', 'b']) buckets.take(name);
  t.ok(buckets.wait('a') > 0);
  buckets.take('c');
  t.ok(buckets.wait('b') > 0, 'b stays');
  t.equal(buckets.wait('a'), 0, 'a was evicted');
});

t.test('refills after the clock went back', async (t) => {
  const clock = fakeClock(NOON);
  const buckets = tokenBuckets({ perSecond: 1, burst: 1, maxNames: 3 }, clock);
  t.equal(buckets.take('a'), 0);
  clock.set(NOON - HOUR);
  t.equal(buckets.take('a'), 1000, 'the jump adds no tokens');
  clock.advance(1000);
  t.equal(buckets.take('a'), 0);
});

t.test('never gives more than the burst and the rate allow', async () => {
  const step = fc.record({ ms: fc.integer({ min: -5_000, max: 5_000 }), takes: fc.nat(20) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
      const clock = fakeClock(NOON);
      const buckets = tokenBuckets({ perSecond: 3, burst: 5, maxNames: 2 }, clock);
      let taken = 0;
      let elapsed = 0;
      for (const { ms, takes } of steps) {
        clock.set(clock.now() + ms);
        elapsed += Math.max(0, ms);
        for (let i = 0; i < takes; i++) if (buckets.take('a') === 0) taken++;
      }
      return taken <= 5 + (elapsed * 3) / 1000 + 1e-6;
    }),
  );
});
