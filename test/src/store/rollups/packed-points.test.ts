import t from 'tap';
import { packPoints, unpackPoints } from '../../../../src/store/rollups/packed-points.ts';

t.test('points that are packed come out as they were', async (t) => {
  const numbers = [1, 2, 3, 4, 5, 6, Number.MAX_SAFE_INTEGER];
  const points = [
    { key: 'a', time: Date.UTC(2026, 0, 15), numbers, latencies: [1.5, 2, 3e9] },
    { key: null, time: 0, numbers, latencies: [null, null, null] },
    { key: '', time: 1, numbers, latencies: [0.001, null, null] },
    { key: 'a', time: 2, numbers, latencies: [1, 2, 3] },
  ];
  const stats = { points, isIncomplete: true };
  t.same(unpackPoints(packPoints(stats)), stats);
  t.equal(packPoints(stats).keys.length, 2, 'each key once');
  const none = { points: [], isIncomplete: false };
  t.same(unpackPoints(packPoints(none)), none);
});
