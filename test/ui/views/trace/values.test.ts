import t from 'tap';
import { uncountedOf } from '../../../../ui/views/trace/values.ts';
import { observation } from './trees.ts';

const usage = { input_tokens: 3 };
const cost = { input: null, output: null, total: 1, currency: 'USD' } as const;

t.test('says which amount of an observation the totals leave out', async (t) => {
  const both = { id: 'a', usage, cost };
  const textOf = (isCounted: boolean, isCostCounted: boolean, of = {}) =>
    uncountedOf(observation({ ...both, ...of, counted: isCounted, cost_counted: isCostCounted }));
  t.equal(textOf(true, true), null);
  t.equal(textOf(false, false), 'not counted');
  t.equal(textOf(false, true), 'tokens not counted');
  t.equal(textOf(true, false), 'cost not counted');
  t.equal(textOf(false, false, { cost: null }), 'not counted');
  t.equal(textOf(true, false, { cost: null }), null);
  t.equal(textOf(false, false, { usage: null }), 'not counted');
  t.equal(textOf(true, true, { usage: null }), null);
  t.equal(textOf(false, false, { usage: null, cost: null }), null);
});
