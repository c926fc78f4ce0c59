import t from 'tap';
import type { Choice, Lead, WayCount } from '../../../../src/store/plan/plan.ts';
import { choiceOf, MAX_MERGED, PROBED_ROWS, planOf } from '../../../../src/store/plan/plan.ts';
import { countsOf } from '../../../../src/store/plan/step.ts';
import type { Term, TermField } from '../../../../src/store/rows/trace-terms.ts';
import { overflowTerm, termOf } from '../../../../src/store/rows/trace-terms.ts';
import { aQuery } from '../../../helper/query.ts';

const P = 'proj_test';
const model = (value: string) => termOf(P, 'model', value);

/** The choice for a query, with the counts of its ways in the order of the plan. */
function chosen(
  text: string,
  traces: readonly number[],
  { isIndexed = true, overflow = 0 } = {},
): Choice {
  const ways = traces.map((count): WayCount => ({ traces: count, overflow }));
  return choiceOf(planOf(aQuery(text), P), { isIndexed, ways });
}

/** The lead by the postings of a term. Traces without postings are found by the overflow term too. */
function leadOf(field: TermField, term: Term): Lead {
  return { lead: 'terms', terms: [term], unposted: [term, overflowTerm(P, field)] };
}

t.test('the way with the fewest traces leads', async (t) => {
  const two = 'model:m tag:x';
  t.same(planOf(aQuery(two), P).ways, [
    { lead: 'terms', terms: [termOf(P, 'tag', 'x')], overflow: overflowTerm(P, 'tag') },
    { lead: 'terms', terms: [model('m')], overflow: overflowTerm(P, 'model') },
  ]);
  const byModel = leadOf('model', model('m'));
  t.same(chosen(two, [7, 5]).lead, byModel);
  t.same(chosen(two, [5, 5]).lead, leadOf('tag', termOf(P, 'tag', 'x')), 'a tie');
  t.same(chosen('session:s model:m', [9, 8]).lead, byModel);
  t.same(chosen('session:s model:m', [8, 9]).lead, { lead: 'session', values: ['s'] });
  t.same(chosen('has:error model:m', [9, 3]).lead, { lead: 'failed' });
  t.same(chosen('-model:m name:a* latency:>1s', []).lead, { lead: 'time' });
});

t.test('the failed traces lead only if every match is one of them', async (t) => {
  const canLead = (text: string) =>
    planOf(aQuery(text), P).ways.some(({ lead }) => lead === 'failed');
  for (const text of ['has:error', 'status:error', 'state:error']) t.ok(canLead(text), text);
  for (const text of ['status:error,ok', 'state:finished,error', '-has:error', '-status:error']) {
    t.notOk(canLead(text), text);
  }
});

t.test(
  'several ranges of time are searched from the first beginning to the last end',
  async (t) => {
    const ranges = (text: string) =>
      planOf(aQuery(text), P).ranges.map(({ from, to }) => [from?.ms, to?.ms]);
    const [first, second, end] = [1, 2, 3].map((day) => Date.UTC(2026, 0, day));
    t.same(ranges('start:2026-01-02,2026-01-01'), [[first, end]]);
    t.same(ranges('start:2026-01-01,>=2026-01-02'), [[first, undefined]]);
    t.same(ranges('start:<2026-01-01,2026-01-02'), [[undefined, end]]);
    t.same(ranges('start:>=2026-01-02 start:<2026-01-03'), [
      [second, undefined],
      [undefined, end],
    ]);
    t.same(ranges('-start:2026-01-01'), []);
  },
);

t.test('postings lead only if every trace has them', async (t) => {
  t.same(chosen('model:m', [0], { isIndexed: false }).lead, { lead: 'time' });
  t.same(chosen('model:m has:user', [0, 9], { isIndexed: false }).lead, { lead: 'with_user' });
  t.same(countsOf([]), { isIndexed: false, ways: [] });
  t.same(countsOf([1, 3, 2]), { isIndexed: false, ways: [{ traces: 3, overflow: 2 }] });
  t.same(countsOf([0, 3, 0]), { isIndexed: true, ways: [{ traces: 3, overflow: 0 }] });
});

t.test('the traces with the overflow term of the field are merged into postings', async (t) => {
  const terms = [model('m'), overflowTerm(P, 'model')];
  const lead = { ...leadOf('model', model('m')), terms };
  t.same(chosen('model:m', [5], { overflow: 1 }), { lead, also: [] });
  t.same(chosen('user:u', [5]).lead, { lead: 'user', values: ['u'] });
});

t.test('a lead of 100 traces is intersected with the next two terms', async (t) => {
  const text = 'model:a model:b model:c model:d';
  t.same(chosen(text, [99, 200, 300, 400]).also, []);
  const terms = ['b', 'c'].map((value) => [model(value)]);
  t.same(chosen(text, [100, 200, 300, 400]).also, terms);
  const overflow = overflowTerm(P, 'model');
  const merged = terms.map((one) => [...one, overflow]);
  t.same(chosen(text, [99, 200, 300, 400], { overflow: 1 }).also, merged, '100 with overflow');
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

t.test(
  'a text leads if the index of payload text has few rows of it, and all changes',
  async (t) => {
    const text = aQuery('needle -other "two words"');
    const plan = planOf(text, P, true);
    t.same(
      plan.ways.map(({ lead }) => lead),
      ['text', 'text'],
      'a negated one never leads',
    );
    t.same(planOf(text, P).ways, [], 'without the index');
    t.same(planOf(aQuery('ab'), P, true).ways, [], 'too short for the index');
    const leadOf = (...ways: WayCount[]): unknown =>
      choiceOf(plan, { isIndexed: false, ways }).lead;
    const rows = (traces: number, overflow = 0): WayCount => ({ traces, overflow });
    t.same(leadOf(rows(9), rows(5)), plan.ways[1]);
    t.same(leadOf(rows(PROBED_ROWS - 1), rows(PROBED_ROWS)), plan.ways[0]);
    t.same(leadOf(rows(PROBED_ROWS), rows(PROBED_ROWS)), { lead: 'time' });
    t.same(leadOf(rows(1, PROBED_ROWS), rows(1, PROBED_ROWS)), { lead: 'time' }, 'changes wait');
    t.same(leadOf(), { lead: 'time' }, 'without a probe');
  },
);
