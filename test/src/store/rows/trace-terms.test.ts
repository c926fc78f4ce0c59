import fc from 'fast-check';
import t from 'tap';
import { postingChange, termOf } from '../../../../src/store/rows/trace-terms.ts';

t.test('a term depends on its project, field, key and value', async (t) => {
  const terms = [
    termOf('p', 'model', 'a'),
    termOf('q', 'model', 'a'),
    termOf('p', 'span', 'a'),
    termOf('p', 'model', 'b'),
    termOf('p', 'custom', 'a', 'k'),
    termOf('p', 'custom', 'a', 'l'),
  ];
  t.equal(new Set(terms).size, terms.length);
  t.equal(termOf('p', 'model', 'a'), terms[0]);
  const long = 'x'.repeat(1000);
  t.equal(termOf('p', 'model', long), termOf('p', 'model', long), 'texts that are hashed again');
  // Stores keep terms: another function would need them to be posted again.
  t.equal(terms[0], -3_438_158_276_942_434_972n);
});

t.test('a change has what is missing before and after', async (t) => {
  const at = fc.constantFrom({ ms: 1, ns: 0 }, { ms: 1, ns: 5 });
  const terms = fc.uniqueArray(fc.constantFrom(1n, 2n, 3n, 4n));
  const postings = fc.record({ at, terms });
  const rowsOf = ({ at, terms }: { at: { ms: number; ns: number }; terms: readonly bigint[] }) =>
    terms.map((term) => `${at.ms} ${at.ns} ${term}`);
  fc.assert(
    fc.property(fc.option(postings), postings, (before, after) => {
      const { inserted, deleted } = postingChange(before, after);
      const table = new Set(before === null ? [] : rowsOf(before));
      for (const row of rowsOf(deleted)) t.ok(table.delete(row), 'it was there');
      for (const row of rowsOf(inserted)) {
        t.notOk(table.has(row), 'it was not there');
        table.add(row);
      }
      t.same([...table].sort(), rowsOf(after).sort());
    }),
  );
});
