import t from 'tap';
import { workClock } from '../../../src/thread/work-clock.ts';

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

const SHORT_WORKS = 20;

t.test('has work that is shorter than a tick of the account', async (t) => {
  for (let each = 0; each < SHORT_WORKS; each += 1) {
    pause();
    const spent = workClock();
    for (let count = 0; count < 100_000; count += 1) if (Math.sqrt(count) < 0) break;
    t.ok(spent() > 0);
  }
});

t.test('a thread that waits for a processor does no work', async (t) => {
  let worked = 0;
  const begun = performance.now();
  for (let each = 0; each < SHORT_WORKS; each += 1) {
    const spent = workClock();
    pause();
    worked += spent();
  }
  const passed = performance.now() - begun;
  t.ok(worked < passed / 2, `${worked} of ${passed}`);
});

/** The thread sleeps for a millisecond, as if another one had its processor. */
function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
}
