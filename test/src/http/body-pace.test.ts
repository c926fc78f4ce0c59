import t from 'tap';
import { bodyPace } from '../../../src/http/body-pace.ts';
import { fakeClock } from '../../helper/clock.ts';

/** 100 bytes in each period. */
const RATE = { bytesPerSecond: 20, period: 5_000 };

function pacing() {
  const clock = fakeClock();
  const refusals: string[] = [];
  const pace = bodyPace(RATE, clock, ({ code }) => refusals.push(code));
  return { clock, refusals, pace };
}

t.test('a body brings the least rate in each period, or it is refused', async (t) => {
  const { clock, refusals, pace } = pacing();
  pace.arrived(1_000);
  clock.advance(5_000);
  pace.arrived(60);
  pace.arrived(40);
  clock.advance(5_000);
  t.same(refusals, [], 'exactly the least rate');
  pace.arrived(99);
  clock.advance(4_999);
  t.same(refusals, []);
  clock.advance(1);
  t.same(refusals, ['request_timeout'], 'one byte less');
  clock.advance(60_000);
  t.equal(refusals.length, 1);
});

t.test('the time in which the service does not read does not count', async (t) => {
  const { clock, refusals, pace } = pacing();
  pace.pause();
  clock.advance(60_000);
  pace.resume();
  pace.arrived(100);
  clock.advance(5_000);
  t.same(refusals, []);
  pace.stop();
  clock.advance(60_000);
  t.same(refusals, []);
  t.equal(clock.pending(), 0);
});

t.test('a rate or period of zero is no limit, and needs no timer', async (t) => {
  for (const rate of [
    { bytesPerSecond: 0, period: 5_000 },
    { bytesPerSecond: 20, period: 0 },
  ]) {
    const clock = fakeClock();
    const pace = bodyPace(rate, clock, () => t.fail('no body is too slow'));
    t.equal(clock.pending(), 0);
    pace.pause();
    pace.resume();
    t.equal(clock.pending(), 0);
  }
});
