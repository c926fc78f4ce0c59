import t from 'tap';
import { hourly } from '../../../src/component/hourly.ts';
import { fakeClock } from '../../helper/clock.ts';

t.test('calls its line at once, and then at most once an hour', async (t) => {
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
