import t from 'tap';
import { bucketOf } from '../../../../src/store/rollups/histogram.ts';
import { PointSums } from '../../../../src/store/rollups/points.ts';
import { pointsOf } from '../../../helper/stats-points.ts';

const HOUR_MS = 3_600_000;
const NUMBERS = [1, 2, 3, 4, 5, 6, Number.MAX_SAFE_INTEGER];
const NONE = [null, null, null];

t.test('points are in the order of time within their group, each with its sums', async (t) => {
  const sums = new PointSums(HOUR_MS);
  sums.add('a', 5 * HOUR_MS + 1, NUMBERS, []);
  sums.add(null, HOUR_MS, [1, 1], []);
  sums.add('a', 2 * HOUR_MS - 1, [1], [bucketOf(100), 1]);
  sums.add('a', HOUR_MS, [1, 2, 3], [bucketOf(100), 1, bucketOf(1000), 1]);
  t.equal(sums.size, 3);
  const points = sums.points();
  t.same(points.keys, ['a', null]);
  const near = [100, 1000, 1000].map((latency) => (point: number | null) => {
    return point !== null && Math.abs(point - latency) <= latency / 20;
  });
  const [first, ...others] = pointsOf(points);
  t.match(first, { key: 'a', time: HOUR_MS, numbers: [2, 2, 3, 0, 0, 0, 0] });
  t.ok(near.every((isNear, i) => isNear(first?.latencies[i] ?? null)));
  t.same(others, [
    { key: 'a', time: 5 * HOUR_MS, numbers: NUMBERS, latencies: NONE },
    { key: null, time: HOUR_MS, numbers: [1, 1, 0, 0, 0, 0, 0], latencies: NONE },
  ]);
});

t.test('a point without traces and a group without points are left out', async (t) => {
  const sums = new PointSums(HOUR_MS);
  t.same(sums.points(), { keys: [], ends: [], cells: new Float64Array(0) });
  sums.add('gone', 0, [1, 1], [3, 1]);
  sums.add('gone', 0, [-1, -1], [3, -1]);
  sums.add('left', 0, [1, 1], []);
  sums.add('left', HOUR_MS, [0], []);
  t.same(pointsOf(sums.points()), [
    { key: 'left', time: 0, numbers: [1, 1, 0, 0, 0, 0, 0], latencies: NONE },
  ]);
});

t.test('there may be more points than the first array has room for', async (t) => {
  const sums = new PointSums(1);
  for (let time = 299; time >= 0; time--) sums.add(null, time, [time + 1], []);
  const points = pointsOf(sums.points());
  t.same(
    points.map(({ time, numbers: [traces] }) => [time, traces]),
    Array.from({ length: 300 }, (_, time) => [time, time + 1]),
  );
});
