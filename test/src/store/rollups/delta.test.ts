import fc from 'fast-check';
import t from 'tap';
import type { Contribution } from '../../../../src/store/rollups/contribution.ts';
import {
  addStored,
  RollupDelta,
  storedChanges,
  WrittenDelta,
} from '../../../../src/store/rollups/delta.ts';

const contribution: fc.Arbitrary<Contribution> = fc.tuple(
  fc.nat(3),
  fc.array(fc.nat(9), { minLength: 6, maxLength: 6 }),
  fc.option(fc.nat(5)),
  fc.array(fc.constantFrom('a', 'b', null, 0), { minLength: 6, maxLength: 6 }),
  fc.constant([]),
) as fc.Arbitrary<Contribution>;

/** A trace of a write: what its row had, and what it has afterwards; null for none. */
const trace = fc.record({
  before: fc.option(contribution),
  after: fc.option(contribution),
});

t.test('the rows of a write add up to the changes of its traces', async (t) => {
  const property = fc.property(fc.array(trace, { maxLength: 5 }), (traces) => {
    const [written, wanted, sum] = [new WrittenDelta(), new RollupDelta(), new RollupDelta()];
    for (const delta of [written, wanted]) {
      for (const { before, after } of traces) {
        const text = before && JSON.stringify(before);
        if (after === null) delta.subtract(text);
        else t.equal(delta.replace(text, after), JSON.stringify(after));
      }
    }
    const stored = written.stored();
    for (const one of stored) addStored(sum, one);
    t.same(sorted(sum.changes()), sorted(wanted.changes()));
    const each = new RollupDelta();
    for (const { kind, text } of stored) {
      for (const change of storedChanges(kind, text)) each.add(change);
    }
    t.same(sorted(each.changes()), sorted(wanted.changes()));
  });
  fc.assert(property, { numRuns: 200 });
});

t.test('a write that changes nothing has no row', async (t) => {
  const delta = new WrittenDelta();
  t.same(delta.stored(), []);
  const same: Contribution = [1, [1, 0, 0, 0, 0, 0], null, [], []];
  delta.replace(JSON.stringify(same), same);
  delta.subtract(null);
  t.same(delta.stored(), []);
});

function sorted(changes: readonly unknown[]): string[] {
  return changes.map((change) => JSON.stringify(change)).sort();
}
