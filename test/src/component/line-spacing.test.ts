import t from 'tap';
import { hourly, lineSpacing } from '../../../src/component/line-spacing.ts';
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

t.test('counts the lines of each name apart', async (t) => {
  const clock = fakeClock(1_000_000);
  const next = lineSpacing(clock, 100);
  t.equal(next('one'), 0);
  t.equal(next('other'), 0);
  t.equal(next('one'), undefined);
  clock.advance(100);
  t.equal(next('one'), 1);
  t.equal(next('other'), 0);
});

t.test('starts over when the clock goes back by the interval', async (t) => {
  const clock = fakeClock(1_000_000);
  const next = lineSpacing(clock, 100);
  t.equal(next(), 0);
  clock.set(999_901);
  t.equal(next(), undefined);
  clock.set(999_900);
  t.equal(next(), 1);
});

t.test('calls an hourly line at once, and then at most once an hour', async (t) => {
  const clock = fakeClock();
  let lines = 0;
  const line = hourly(clock, () => lines++);
  line();
  clock.advance(3_599_999);
  line();
  t.equal(lines, 1);
  clock.advance(1);
  line();
  line();
  t.equal(lines, 2);
});

t.test('calls an hourly line again when the clock was set back by an hour', async (t) => {
  const clock = fakeClock();
  let lines = 0;
  const line = hourly(clock, () => lines++);
  line();
  clock.set(clock.now() - 3_600_000);
  line();
  t.equal(lines, 2);
});
