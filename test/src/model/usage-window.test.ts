import fc from 'fast-check';
import t from 'tap';
import { monthStart } from '../../../src/model/usage-window.ts';

function expected(at: number, months: number): number {
  const date = new Date(at);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1);
}

t.test('a month starts at its first moment, in whichever order moments are asked for', async () => {
  const years = { min: Date.UTC(1969, 0), max: Date.UTC(2100, 0) };
  const moments = fc.array(fc.tuple(fc.integer(years), fc.constantFrom(0, 0, 1, -1)));
  fc.assert(
    fc.property(moments, (all) =>
      all.every(([at, months]) => monthStart(at, months) === expected(at, months)),
    ),
  );
});

t.test('the month changes exactly at its end', async (t) => {
  const end = Date.UTC(2026, 1, 1);
  t.equal(monthStart(end - 1), Date.UTC(2026, 0, 1));
  t.equal(monthStart(end), end);
  t.equal(monthStart(end - 1), Date.UTC(2026, 0, 1), 'a clock that goes back');
  t.equal(monthStart(end - 1, 1), end);
});
