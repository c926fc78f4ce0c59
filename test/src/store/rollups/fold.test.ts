import fc from 'fast-check';
import t from 'tap';
import type { RollupChange } from '../../../../src/store/rollups/contribution.ts';
import { MAX_VALUES, ROLLUP_FIELDS } from '../../../../src/store/rollups/fields.ts';
import type { RollupKey, RollupRow, RollupTable } from '../../../../src/store/rollups/fold.ts';
import { foldChanges, HOUR, nameOfRollup } from '../../../../src/store/rollups/fold.ts';

/** A table in memory that folds change. */
class MemoryTable implements RollupTable {
  readonly rows = new Map<string, RollupRow>();

  find(key: RollupKey) {
    const row = this.rows.get(nameOfRollup(key));
    return row && { numbers: [...row.numbers], latencies: new Map(row.latencies) };
  }

  valuesOf({ step, field, start }: Omit<RollupKey, 'value'>): number {
    return [...this.rows.values()].filter(
      (row) => row.step === step && row.field === field && row.start === start,
    ).length;
  }

  fold(changes: readonly RollupChange[]): void {
    const { saved, removed } = foldChanges(changes, this);
    for (const row of saved) this.rows.set(nameOfRollup(row), row);
    for (const key of removed) this.rows.delete(nameOfRollup(key));
  }
}

const { user } = ROLLUP_FIELDS;
function change(value: string, sign: 1 | -1, hour = 5): RollupChange {
  return [hour, user, value, [sign, 2 * sign, 0, 0, 0, 0, 0], [7, sign]];
}

t.test(
  'subtracting every contribution leaves no row, whatever the order and the steps',
  async (t) => {
    const values = Array.from({ length: MAX_VALUES + 3 }, (_, i) => `u${i}`);
    const table = new MemoryTable();
    table.fold(values.map((value) => change(value, 1)));
    const named = [...table.rows.values()].filter(({ step, field }) => step === HOUR && field > 0);
    t.equal(named.length, MAX_VALUES);
    const overflow = [...table.rows.values()].find(({ step, field }) => step === HOUR && field < 0);
    t.same(overflow?.numbers.slice(0, 2), [3, 6]);
    // A value that goes makes no room: a later one would be counted in two rows.
    table.fold([change('u0', -1)]);
    table.fold([change('new', 1)]);
    const after = [...table.rows.values()].find(({ step, field }) => step === HOUR && field < 0);
    t.equal(after?.numbers[0], 4);
    table.fold([change('new', -1), ...values.slice(1).map((value) => change(value, -1))]);
    t.equal(table.rows.size, 0);
  },
);

t.test('the sums do not depend on how changes are split into steps', async (t) => {
  const some = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 0, max: 30 })), {
    maxLength: 20,
  });
  fc.assert(
    fc.property(some, fc.integer({ min: 1, max: 5 }), (added, size) => {
      const changes = added.map(([value, hour]) => change(value, 1, hour));
      const [whole, split] = [new MemoryTable(), new MemoryTable()];
      whole.fold(changes);
      for (let at = 0; at < changes.length; at += size) split.fold(changes.slice(at, at + size));
      const shown = (table: MemoryTable) =>
        [...table.rows]
          .map(([name, { numbers, latencies }]) => [name, numbers, [...latencies]])
          .sort();
      return JSON.stringify(shown(whole)) === JSON.stringify(shown(split));
    }),
  );
  t.pass();
});
