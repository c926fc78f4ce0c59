import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import {
  changesOfContribution,
  changesOfField,
  contributionFromText,
} from '../../../../src/store/rollups/contribution.ts';
import { ROLLUP_FIELDS, type RollupField } from '../../../../src/store/rollups/fields.ts';

const text = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom('],[[', '"', '\\', '\\"],[]', '[0,"', '\u0000\ud800'),
);
const numbers = fc.array(fc.nat(99), { minLength: 6, maxLength: 6 });
const latencies = fc.constantFrom<number[]>([], [122, 1, 144, 2]);
const value = fc.oneof(text, fc.constantFrom(null, 0));
const group = fc.tuple(
  fc.constantFrom(ROLLUP_FIELDS.model, ROLLUP_FIELDS.kind, ROLLUP_FIELDS.tool),
  fc.option(text, { nil: null }),
  numbers,
  latencies,
);
const contribution = fc.tuple(
  fc.nat(),
  numbers,
  fc.option(fc.nat(999), { nil: null }),
  fc.array(value, { minLength: 6, maxLength: 6 }),
  fc.array(group, { maxLength: 4 }),
);

t.test('the changes of a field are those among the changes of a contribution', async () => {
  fc.assert(
    fc.property(contribution, (contribution) => {
      const text = JSON.stringify(contribution);
      const all = changesOfContribution(contributionFromText(text));
      for (const field of Object.keys(ROLLUP_FIELDS) as RollupField[]) {
        const own = all.filter(([, of]) => Math.abs(of) === ROLLUP_FIELDS[field]);
        assert.deepEqual(changesOfField(text, field), own);
      }
    }),
  );
});

t.test('the groups of a trace are decoded only for the fields of observations', async (t) => {
  const text = '[1,[1,0,0,0,0,0],null,["n",null,null,"success",null,null],[broken]]';
  t.equal(changesOfField(text, 'all').length, 1);
  t.match(changesOfField(text, 'name'), [[1, ROLLUP_FIELDS.name, 'n']]);
  t.throws(() => changesOfField(text, 'model'));
});
