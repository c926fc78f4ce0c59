import t from 'tap';
import { STATS_METRICS, StatsText } from '../../../src/read/stats-text.ts';
import { PointSums } from '../../../src/store/rollups/points.ts';

const NANOS = [
  ...[0, 1, 10, 999_999_999, 1_000_000_000, 1_000_000_001, 2_500_000],
  ...[123_456_789_012_345, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER + 1, 1e25, -5],
];
const COUNTS = [1, 9, 10, 99, 100, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER, 1e21];

t.test('every number has the value that it has in JSON', async (t) => {
  const sums = new PointSums(1);
  const traces = [...NANOS, ...COUNTS].map((_, i) => COUNTS[i % COUNTS.length] ?? 0);
  for (const [time, count] of traces.entries()) {
    sums.add(null, time, [count, count, 0, 0, 0, 0, NANOS[time % NANOS.length] ?? 0], []);
  }
  const text = new StatsText(sums.points(), STATS_METRICS);
  text.add('[');
  text.addPoints(0, traces.length);
  text.add(']');
  const points: Record<string, unknown>[] = JSON.parse(text.bytes().toString());
  t.same(
    points.map((point) => [point.time, point.traces, point.cost, point.latency_p99_ms]),
    traces.map((count, time) => [
      new Date(time).toISOString(),
      count,
      (NANOS[time % NANOS.length] ?? 0) / 1e9,
      null,
    ]),
  );
  t.same(Object.keys(points[0] ?? {}), [
    ...['time', 'traces', 'observations', 'errors', 'input_tokens', 'output_tokens'],
    ...['cached_tokens', 'cost', 'latency_p50_ms', 'latency_p95_ms', 'latency_p99_ms'],
  ]);
});

t.test('points are written for any number of them, between any texts', async (t) => {
  const sums = new PointSums(60_000);
  for (let i = 0; i < 2_000; i++) sums.add('key', i * 60_000, [i + 1], [200, 1]);
  const text = new StatsText(sums.points(), ['traces']);
  text.add('é'.repeat(9_000));
  text.addPoints(0, 1);
  text.addPoints(1, 2_000);
  const [before, ...others] = text.bytes().toString().split('{');
  t.equal(before, 'é'.repeat(9_000));
  t.equal(others.length, 2_000);
  t.equal(others[1_999], '"time":"1970-01-02T09:19:00.000Z","traces":2000}');
});
