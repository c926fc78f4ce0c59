import t from 'tap';
import { SteadyTime } from '../../../src/component/steady-time.ts';
import { fakeClock } from '../../helper/clock.ts';

const SECOND = 1000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function started() {
  const clock = fakeClock();
  const begun = clock.now();
  const time = new SteadyTime(clock);
  const jumps: number[] = [];
  time.onJump((jumpMs) => jumps.push(jumpMs));
  return { clock, time, jumps, passed: () => time.now() - begun };
}

t.test('passes with the clock, and while the machine sleeps', async (t) => {
  const { clock, time, passed, jumps } = started();
  t.equal(time.now(), clock.now());
  clock.advance(10);
  t.equal(passed(), 10);
  clock.set(clock.now() + 8 * HOUR);
  t.equal(passed(), 8 * HOUR + 10);
  t.equal(time.now(), clock.now());
  t.same(jumps, []);
});

t.test('passes with the uptime when the clock is set ahead and back', async (t) => {
  const { clock, passed, jumps } = started();
  clock.advance(300);
  clock.misset(clock.now() + 400 * DAY);
  t.equal(passed(), 300);
  clock.advance(500);
  t.equal(passed(), 800);
  clock.misset(clock.now() - 401 * DAY);
  t.equal(passed(), 800);
  clock.advance(HOUR);
  t.equal(passed(), 800 + HOUR);
  t.same(jumps, [400 * DAY, -401 * DAY]);
});

t.test('follows steps of less than a second', async (t) => {
  const { clock, passed, jumps } = started();
  clock.misset(clock.now() + SECOND - 1);
  t.equal(passed(), SECOND - 1);
  clock.misset(clock.now() - SECOND + 1);
  t.equal(passed(), 0);
  clock.misset(clock.now() + SECOND);
  t.equal(passed(), 0);
  clock.misset(clock.now() - SECOND);
  t.equal(passed(), 0);
  t.same(jumps, [SECOND, -SECOND]);
});

t.test('does not go back if the uptime does', async (t) => {
  const { clock } = started();
  const uptimes = [5 * DAY, 0];
  const time = new SteadyTime({ ...clock, uptime: () => uptimes.shift() ?? HOUR });
  const begun = time.now();
  clock.advance(HOUR);
  t.equal(time.now(), begun, 'the uptime does not tell what has passed');
  clock.advance(HOUR);
  t.equal(time.now() - begun, HOUR);
});

t.test('goes on from the time of another process', async (t) => {
  const { clock, time } = started();
  clock.misset(clock.now() - 400 * DAY);
  const { at, aheadMs } = time.kept;
  t.equal(aheadMs, 400 * DAY);
  clock.advance(HOUR);
  t.equal(new SteadyTime(clock, { at, aheadMs }).now(), at + HOUR);
  clock.misset(clock.now() - DAY);
  const set = new SteadyTime(clock, { at, aheadMs });
  t.equal(set.now(), at, 'the clock was set back while no process ran');
  clock.advance(HOUR);
  t.equal(set.now(), at + HOUR);
  t.equal(set.kept.aheadMs, 401 * DAY - HOUR);
});

t.test('its times are whole milliseconds, as a store keeps them', async (t) => {
  const clock = fakeClock();
  let uptime = 0.4;
  const time = new SteadyTime({ ...clock, now: clock.now, uptime: () => uptime });
  clock.misset(clock.now() + DAY);
  uptime = 1000.7;
  t.ok(Number.isInteger(time.now()));
});
