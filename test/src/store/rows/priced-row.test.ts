import t from 'tap';
import type { Observation } from '../../../../src/model/observation.ts';
import type { PricedCall, Pricing } from '../../../../src/store/pricing.ts';
import { PricedSum } from '../../../../src/store/pricing.ts';
import { detailsFromColumn, ROW, rowOf } from '../../../../src/store/rows/observation-row.ts';
import { pricedRow } from '../../../../src/store/rows/priced-row.ts';
import { anObservation } from '../../../helper/batches.ts';
import { createPricing } from '../../../helper/flat-pricing.ts';

const CALL = { model: 'm', usage: { input_tokens: 2, output_tokens: 1 } };
const SENT = { input: null, output: null, total: 7, source: 'sent' } as const;
const COMPUTED = { input: 20, output: 10, total: 30, source: 'computed' } as const;
const pricing = createPricing({ m: 10 });

const row = (more: Partial<Observation>) =>
  rowOf(anObservation({ ...CALL, details: null, ...more }), 'trace', 0, 'native');

function costAfter(more: Partial<Observation>) {
  const priced = pricedRow(row(more), 0, pricing);
  return priced && detailsFromColumn(priced.row[ROW.DETAILS])?.cost;
}

t.test('prices a call, and keeps a cost that the client sent', async (t) => {
  t.same(costAfter({}), COMPUTED);
  t.equal(pricedRow(row({ details: { cost: SENT } }), 0, pricing), undefined);
  t.equal(pricedRow(row({ model: null }), 0, pricing), undefined);
  t.equal(pricedRow(row({ usage: null }), 0, pricing), undefined);
});

t.test('changes a computed cost only if it differs, and removes one without a price', async (t) => {
  const priced = (more: Partial<Observation>) => pricedRow(row(more), 0, pricing);
  t.match(priced({ details: { cost: COMPUTED } }), { isChanged: false });
  const other = { ...COMPUTED, input: 21, total: 31 };
  t.match(priced({ details: { cost: other } }), { isChanged: true, before: other });
  t.match(priced({ details: { cost: COMPUTED }, model: 'unknown' }), {
    ...{ isChanged: true, before: COMPUTED, after: undefined },
  });
  t.equal(costAfter({ details: { cost: COMPUTED }, model: 'unknown' }), undefined);
});

t.test('prices a call at its start, and at its arrival without one', async (t) => {
  const calls: PricedCall[] = [];
  const noting: Pricing = (call) => {
    calls.push(call);
    return 'unknown_price';
  };
  pricedRow(row({ startTime: { ms: 5, ns: 0 } }), 9, noting);
  pricedRow(row({ startTime: null }), 9, noting);
  t.match(calls, [{ at: 5 }, { at: 9 }]);
});

t.test('a sum counts each call once', async (t) => {
  const sum = new PricedSum();
  const state = { createdAt: 0 };
  const rows = [row({}), row({ details: { cost: SENT } }), row({ details: { cost: COMPUTED } })];
  const changed = sum.add(
    rows.map((row) => ({ row, state })),
    pricing,
  );
  t.equal(changed.length, 1);
  t.same(sum.step(null), {
    ...{ observations: 2, changed: 1, costBefore: 0, costAfter: 30, next: null },
  });
});
