import t from 'tap';
import {
  costOf,
  latencyAt,
  nameOf,
  percentileAt,
  samplesOf,
  sumOf,
  valuesAt,
  worstLatency,
} from '../../../../ui/views/dashboard/figures.ts';

const HOURS = ['2026-11-20T10:00:00.000Z', '2026-11-20T11:00:00.000Z'] as const;
const TIMES = HOURS.map((each) => Date.parse(each));
const POINTS = [
  { time: HOURS[1], traces: 3, cost: 0.5, latency_p95_ms: 200 },
  { time: '2026-11-21T00:00:00.000Z', traces: 4, latency_p95_ms: null },
];

t.test('adds up a field, and takes a missing one as 0', async (t) => {
  t.equal(sumOf(POINTS, 'traces'), 7);
  t.equal(sumOf(POINTS, 'cost'), 0.5);
  t.equal(sumOf([], 'errors'), 0);
});

t.test('has no cost of points without a known one', async (t) => {
  t.equal(costOf(POINTS), 0.5);
  t.equal(costOf([{ time: HOURS[0], traces: 1, cost: 0 }]), null);
  t.equal(costOf([]), null);
});

t.test('gives a value for each time, and no latency where no trace ended', async (t) => {
  t.same(valuesAt(TIMES, POINTS, 'traces'), [0, 3]);
  t.same(latencyAt(TIMES, POINTS, 'latency_p95_ms'), [null, 200]);
});

t.test('names values whose text is not kept', async (t) => {
  const samples = samplesOf([{ key: null, points: POINTS }], 'traces');
  t.match(samples[0], { time: TIMES[1], group: null, value: 3 });
  t.equal(nameOf(null), '(other)');
  t.equal(nameOf('gpt'), 'gpt');
});

t.test('shows the longest 95th percentile', async (t) => {
  t.equal(worstLatency(POINTS), 200);
  t.equal(worstLatency([]), null);
});

t.test('takes the nearest rank as the percentile of each step', async (t) => {
  const at = TIMES[0] ?? 0;
  const values = [30, 10, 20, 40].map((value) => ({ at: at + 1, value }));
  const outside = { at: at - 1, value: 9_999 };
  t.same(percentileAt(TIMES, 3_600_000, [...values, outside], 0.5), [20, null]);
  t.same(percentileAt(TIMES, 3_600_000, values, 0.95), [40, null]);
  t.same(percentileAt(TIMES, 3_600_000, [{ at: at + 3_600_000, value: 7 }], 0.5), [null, 7]);
});
