import t from 'tap';
import { workClock } from '../../../src/sqlite/work-clock.ts';

t.test('the work of a thread grows, and is never more than the time that has passed', async (t) => {
  const begun = performance.now();
  const spent = workClock();
  const first = spent();
  while (process.threadCpuUsage().user === 0);
  t.ok(first >= 0);
  const second = spent();
  t.ok(second >= first, `${first}, ${second}`);
  t.ok(second <= performance.now() - begun);
});
