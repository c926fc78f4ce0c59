import t from 'tap';
import type { Choice, WayCounts } from '../../../../src/store/plan/plan.ts';
import { choiceOf, MAX_MERGED, planOf } from '../../../../src/store/plan/plan.ts';
import { countsOf } from '../../../../src/store/plan/step.ts';
import { overflowTerm, termOf } from '../../../../src/store/rows/trace-terms.ts';
import { aQuery } from '../../../helper/query.ts';

const P = 'proj_test';
const model = (value: string) => termOf(P, 'model', value);

/** The choice for a query, with the counts of its ways in the order of the plan. */
function chosen(text: string, ways: readonly number[], more: Partial<WayCounts> = {}): Choice {
  return choiceOf(planOf(aQuery(text), P), { isIndexed: true, overflow: 0, ...more, ways });
}

t.test('the way with the fewest traces leads', async (t) => {
  const two = 'model:m tag:x';
  t.same(planOf(aQuery(two), P).ways, [
    { lead: 'terms', terms: [termOf(P, 'tag', 'x')] },
    { lead: 'terms', terms: [model('m')] },
  ]);
  t.same(chosen(two, [7, 5]).way, { lead: 'terms', terms: [model('m')] });
  t.same(chosen(two, [5, 5]).way, { lead: 'terms', terms: [termOf(P, 'tag', 'x')] }, 'a tie');
  t.same(chosen('session:s model:m', [9, 8]).way, { lead: 'terms', terms: [model('m')] });
  t.same(chosen('session:s model:m', [8, 9]).way, { lead: 'session', values: ['s'] });
  t.same(chosen('has:error model:m', [9, 3]).way, { lead: 'failed' });
  t.same(chosen('-model:m name:a* latency:>1s', []).way, { lead: 'time' });
});

t.test('postings lead only if every trace has them', async (t) => {
  t.same(chosen('model:m', [0], { isIndexed: false }).way, { lead: 'time' });
  t.same(chosen('model:m has:user', [0, 9], { isIndexed: false }).way, { lead: 'with_user' });
  t.same(countsOf([]), { isIndexed: false, overflow: 0, ways: [] });
  t.same(countsOf([1, 2, 3]), { isIndexed: false, overflow: 2, ways: [3] });
  t.same(countsOf([0, 2, 3]), { isIndexed: true, overflow: 2, ways: [3] });
});

t.test('the traces with the overflow term are merged into postings', async (t) => {
  const terms = [model('m'), overflowTerm(P)];
  t.same(chosen('model:m', [5], { overflow: 1 }), { way: { lead: 'terms', terms }, also: [] });
  t.same(chosen('user:u', [5], { overflow: 1 }).way, { lead: 'user', values: ['u'] });
});

t.test('a lead of 100 traces is intersected with the next two terms', async (t) => {
  const text = 'model:a model:b model:c model:d';
  t.same(chosen(text, [99, 200, 300, 400]).also, []);
  const terms = ['b', 'c'].map((value) => ({ lead: 'terms', terms: [model(value)] }));
  t.same(chosen(text, [100, 200, 300, 400]).also, terms);
  t.same(chosen(text, [100, 200, 300, 400], { overflow: 1 }).also, [], 'it may lack a posting');
});

t.test(`the values of a term are merged up to ${MAX_MERGED}, and 8 terms are probed`, async (t) => {
  const values = (count: number) => Array.from({ length: count }, (_, i) => `v${i}`).join(',');
  t.equal(planOf(aQuery(`model:${values(MAX_MERGED)}`), P).ways.length, 1);
  t.same(planOf(aQuery(`model:${values(MAX_MERGED + 1)}`), P).ways, []);
  t.same(planOf(aQuery('user:a,b,a'), P).ways, [{ lead: 'user', values: ['a', 'b'] }]);
  const terms = (count: number) => Array.from({ length: count }, (_, i) => `tag:t${i}`).join(' ');
  t.equal(planOf(aQuery(terms(8)), P).ways.length, 8);
  t.equal(planOf(aQuery(`${terms(9)} has:session`), P).ways.length, 9);
});
