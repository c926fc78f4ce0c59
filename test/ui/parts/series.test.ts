import fc from 'fast-check';
import t from 'tap';
import {
  aloneIn,
  isWhole,
  OTHERS,
  periodsBetween,
  seriesOf,
  stacked,
  WHOLE_STEPS,
} from '../../../ui/parts/series.ts';

const HOUR = 3_600_000;

t.test('periods begin at whole steps and end before the end of the range', async (t) => {
  t.strictSame(periodsBetween(HOUR, 3 * HOUR, HOUR), [HOUR, 2 * HOUR]);
  t.strictSame(periodsBetween(HOUR + 1, 3 * HOUR + 1, HOUR), [HOUR, 2 * HOUR, 3 * HOUR]);
  t.strictSame(periodsBetween(HOUR, HOUR, HOUR), []);
  t.strictSame(periodsBetween(2 * HOUR, HOUR, HOUR), []);
});

t.test('an axis of counts has labels at whole numbers only', async (t) => {
  const series = (...values: (number | null)[]) => [{ id: 'a', label: 'a', values }];
  t.equal(isWhole(series(0, 1, null, 3)), true);
  t.equal(isWhole([]), true);
  t.equal(isWhole([...series(1), ...series(0.5)]), false);
  t.same(WHOLE_STEPS.slice(0, 8), [1, 2, 5, 10, 20, 25, 50, 100]);
  t.ok(WHOLE_STEPS.every((step, i) => Number.isInteger(step) && step > (WHOLE_STEPS[i - 1] ?? 0)));
});

t.test('a value is alone if no value is directly before or after it', async (t) => {
  t.strictSame(aloneIn([]), []);
  t.strictSame(aloneIn([0]), [0]);
  t.strictSame(aloneIn([null, null, 5]), [2]);
  t.strictSame(aloneIn([1, null, 2, 3, null, 0, undefined, 4]), [0, 5, 7]);
  t.strictSame(aloneIn([1, 2, null]), []);
});

t.test('the group with the largest sum is the first series', async (t) => {
  const samples = [
    { time: 0, group: 'small', value: 1 },
    { time: HOUR, group: 'large', value: 5 },
    { time: HOUR, group: 'small', value: 2 },
  ];
  t.strictSame(seriesOf([0, HOUR], samples), [
    { id: 'value large', label: 'large', values: [0, 5] },
    { id: 'value small', label: 'small', values: [1, 2] },
  ]);
});

t.test('one group past the limit stays; two are summed up', async (t) => {
  const sample = (group: string, value: number) => ({ time: 0, group, value });
  const six = ['a', 'b', 'c', 'd', 'e', 'f'].map((group, index) => sample(group, 9 - index));
  t.strictSame(
    seriesOf([0], six).map(({ label }) => label),
    ['a', 'b', 'c', 'd', 'e', 'f'],
  );
  const seven = seriesOf([0], [...six, sample('g', 1)]);
  t.equal(seven.length, 6);
  t.strictSame(seven.at(-1), { id: OTHERS, label: OTHERS, values: [4 + 1] });
});

t.test('a value that has the name of another series keeps its own', async (t) => {
  const groups = [OTHERS, '(other)', null, 'no value', 'a', 'b', 'c'];
  const samples = groups.map((group, index) => ({ time: 0, group, value: 9 - index }));
  const series = seriesOf([0], samples, (group) => group ?? '(other)');
  t.strictSame(
    series.map(({ label, values }) => [label, ...values]),
    [
      [OTHERS, 9],
      ['(other)', 8],
      ['(other)', 7],
      ['no value', 6],
      ['a', 5],
      [OTHERS, 4 + 3],
    ],
  );
  t.equal(new Set(series.map(({ id }) => id)).size, series.length, 'no id twice');
});

const samples = fc.array(
  fc.record({
    time: fc.constantFrom(0, HOUR, 2 * HOUR),
    group: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', '__proto__'),
    value: fc.nat(1000),
  }),
);

t.test('no value is lost, whatever the number of groups', async () => {
  fc.assert(
    fc.property(samples, (all) => {
      const times = [0, HOUR, 2 * HOUR];
      const series = seriesOf(times, all);
      const tops = stacked(series);
      return times.every((time, index) => {
        const wanted = all.filter((each) => each.time === time).reduce((s, e) => s + e.value, 0);
        return (tops[0]?.[index] ?? 0) === wanted && series.length <= 6;
      });
    }),
  );
});

t.test('the first of stacked series is the tallest', async (t) => {
  const series = [
    { id: 'a', label: 'a', values: [1, null] },
    { id: 'b', label: 'b', values: [2, 3] },
  ];
  t.strictSame(stacked(series), [
    [3, 3],
    [2, 3],
  ]);
});
