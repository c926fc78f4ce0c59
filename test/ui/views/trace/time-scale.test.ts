import fc from 'fast-check';
import t from 'tap';
import { instantOf } from '../../../../ui/views/trace/instant.ts';
import {
  barOf,
  ticksOf,
  ticksWithRoom,
  timeScaleOf,
} from '../../../../ui/views/trace/time-scale.ts';
import { layoutOf } from '../../../../ui/views/trace/tree-layout.ts';
import { anyObservations, observation } from './trees.ts';

const NOW = Date.parse('2026-01-01T00:10:00Z');
const finished = { state: 'finished' as const };

t.test('reads times with their microseconds, of any year', async (t) => {
  const base = Date.parse('2026-01-01T00:00:00.123Z');
  t.ok(Math.abs(instantOf('2026-01-01T00:00:00.123456789Z') - base - 0.456789) < 0.001);
  t.equal(instantOf('2026-01-01T00:00:00Z'), base - 123);
  t.equal(instantOf('0001-01-01T00:00:00Z'), -62_135_596_800_000);
  t.equal(instantOf('9999-12-31T23:59:59.999Z'), 253_402_300_799_999);
  t.same([instantOf(null), instantOf(undefined), instantOf('soon')], Array(3).fill(Number.NaN));
});

t.test('the scale is the range of the trace; without one, that of its observations', async (t) => {
  const layout = layoutOf([
    observation({ id: 'a', start_time: '0001-01-01T00:00:00Z' }),
    observation({ id: 'b', end_time: '2026-01-01T00:00:09Z' }),
  ]);
  const [start_time, end_time] = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:02Z'];
  t.same(timeScaleOf({ ...finished, start_time, end_time }, layout, NOW), {
    ...{ from: Date.parse(start_time), length: 2_000 },
  });
  const far = timeScaleOf({ ...finished, start_time: null, end_time: null }, layout, NOW);
  t.equal(far.from, -62_135_596_800_000);
  const running = { state: 'running' as const, start_time, end_time: null };
  t.equal(timeScaleOf(running, layout, NOW).length, 600_000, 'until now');
  t.equal(timeScaleOf(running, layout, NOW + 3_600_000).length, 9_000, 'not for hours');
  const none = timeScaleOf({ ...finished, start_time: null, end_time: null }, layoutOf([]), NOW);
  t.same(none, { from: 0, length: 0.001 });
});

t.test('draws every combination of times', async (t) => {
  const scale = { from: 100, length: 100 };
  const bar = (start: number, end: number, isRunning = false, ttft: number | null = null) =>
    barOf(scale, { start, end, ttft, isRunning });
  const none = { tick: undefined };
  t.same(bar(120, 150), { left: 0.2, width: 0.3, ...none, form: 'full' });
  t.match(bar(120, 150, false, 10), { tick: 0.3 });
  t.match(bar(150, 120), { left: 0.2, width: 0.3, form: 'reversed' });
  t.match(bar(120, Number.NaN), { left: 0.2, width: 0, form: 'point' });
  t.match(bar(120, Number.NaN, true), { left: 0.2, width: 0.8, form: 'open' });
  t.match(bar(Number.NaN, 150), { left: 0.5, width: 0, form: 'full' });
  t.equal(bar(Number.NaN, Number.NaN), undefined);
  t.match(bar(1, 2), { left: 0, width: 0, form: 'before' });
  t.match(bar(300, 400), { left: 1, width: 0, form: 'after' });
});

t.test('bars stay inside of the scale', async () => {
  fc.assert(
    fc.property(anyObservations, (observations) => {
      const layout = layoutOf(observations);
      const trace = { state: 'running' as const, start_time: null, end_time: null };
      const scale = timeScaleOf(trace, layout, NOW);
      return observations.every((_, row) => {
        const [start = 0, end = 0] = [layout.starts[row], layout.ends[row]];
        const bar = barOf(scale, { start, end, ttft: 5, isRunning: row % 2 === 0 });
        if (bar === undefined) return Number.isNaN(start) && Number.isNaN(end);
        const { left, width, tick = 0 } = bar;
        return left >= 0 && width >= 0 && left + width <= 1.000_001 && tick >= 0 && tick <= 1;
      });
    }),
  );
});

t.test('an axis has the ticks whose labels have room beside each other', async (t) => {
  const ticks = (width: number) => ticksWithRoom(1_000, width, () => 50);
  t.same(ticks(250), [0, 500, 1_000]);
  t.same(ticks(100), [0, 500, 1_000]);
  t.same(ticks(99), [0, 1_000]);
  t.same(ticks(50), [0, 1_000]);
  t.same(ticks(49), [0]);
  t.same(ticks(0), [0]);
});

t.test('ticks are round and few', async (t) => {
  t.same(ticksOf(1_000, 6), [0, 200, 400, 600, 800, 1_000]);
  t.same(ticksOf(65_000, 6), [0, 15_000, 30_000, 45_000, 60_000]);
  t.same(ticksOf(1_000, 1), [0]);
  t.same(ticksOf(0.001, 6), [0, 0.001]);
  t.same(ticksOf(0, 6), [0]);
  t.same(ticksOf(Number.NaN, 6), [0]);
  fc.assert(
    fc.property(fc.double({ min: 0.001, max: 1e15, noNaN: true }), (length) => {
      const ticks = ticksOf(length, 6);
      return ticks.length <= 6 && ticks.length >= 2 && ticks.every((tick) => tick <= length);
    }),
  );
});
