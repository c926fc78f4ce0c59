import t from 'tap';
import { lineSpacing } from '../../../src/net/line-spacing.ts';
import { fakeClock } from '../../helper/clock.ts';

t.test(
  'gives one line in each interval, with the number of those that were left out',
  async (t) => {
    const clock = fakeClock(1_000_000);
    const next = lineSpacing(clock, 100);
    t.equal(next(), 0);
    t.equal(next(), undefined);
    clock.advance(99);
    t.equal(next(), undefined);
    clock.advance(1);
    t.equal(next(), 2);
    clock.advance(100);
    t.equal(next(), 0);
  },
);

t.test('starts over when the clock goes back by the interval', async (t) => {
  const clock = fakeClock(1_000_000);
  const next = lineSpacing(clock, 100);
  t.equal(next(), 0);
  clock.set(999_901);
  t.equal(next(), undefined);
  clock.set(999_900);
  t.equal(next(), 1);
});
