import fc from 'fast-check';
import t from 'tap';
import type { NodeCost, TraceTotals, UsageNode } from '../../../../src/store/rows/trace-totals.ts';
import {
  nestedTotals,
  SUMMED_KINDS,
  summaryTotals,
  traceTotals,
} from '../../../../src/store/rows/trace-totals.ts';

type Usage = Readonly<Record<string, number>>;

function node(id: string, parentId: string | null, more: Partial<UsageNode> = {}): UsageNode {
  return {
    ...{ id, parentId, start: 0, end: 10, model: 'm', scope: null, responseId: null },
    ...{ usage: null, cost: null },
    ...more,
  };
}
const used = (input: number, output: number) => ({ input_tokens: input, output_tokens: output });
const costs = (total: number): NodeCost => ({ input: null, output: null, total });
const usageOf = (...nodes: UsageNode[]) => traceTotals(nodes).usage;
const counted = (...nodes: UsageNode[]) => [...traceTotals(nodes).countedUsage].sort();
const countedCost = (...nodes: UsageNode[]) => [...traceTotals(nodes).countedCost].sort();
const all = (input: number, output: number) => ({
  ...used(input, output),
  total_tokens: input + output,
});

t.test('a parent that repeats its child counts once, at the child', async (t) => {
  const nodes = [
    node('client', null, { usage: used(100, 20), cost: costs(7) }),
    node('gateway', 'client', { usage: used(100, 20), cost: costs(5) }),
  ];
  t.same(usageOf(...nodes), all(100, 20));
  t.same(traceTotals(nodes).cost, costs(5), 'a tie belongs to the children');
  t.same(counted(...nodes), ['gateway']);
});

t.test(
  'a parent with the sum of its children counts once, also above nodes without usage',
  async (t) => {
    const nodes = [
      node('chain', null, { usage: used(30, 3) }),
      node('step', 'chain'),
      node('a', 'step', { usage: used(10, 1) }),
      node('b', 'chain', { usage: used(20, 2) }),
    ];
    t.same(usageOf(...nodes), all(30, 3));
    t.same(counted(...nodes), ['a', 'b']);
  },
);

t.test('a parent that alone has usage, or more of it, counts itself', async (t) => {
  const alone = [node('chain', null, { usage: used(100, 20) }), node('child', 'chain')];
  t.same(usageOf(...alone), all(100, 20));
  t.same(counted(...alone), ['chain']);
  const more = [
    node('chain', null, { usage: used(100, 20), cost: costs(9) }),
    node('embedding', 'chain', { usage: { input_tokens: 3 }, cost: costs(1) }),
  ];
  t.same(usageOf(...more), all(100, 20));
  t.same(traceTotals(more).cost, costs(9));
  t.same(counted(...more), ['chain']);
});

t.test('each kind of token has its own maximum', async (t) => {
  const nodes = [
    node('a', null, { usage: { ...used(10, 5), cached_tokens: 4 } }),
    node('b', 'a', { usage: { ...used(10, 7), reasoning_tokens: 2 } }),
  ];
  t.same(usageOf(...nodes), { ...all(10, 7), cached_tokens: 4, reasoning_tokens: 2 });
});

t.test('a total counts if only a total was sent', async (t) => {
  t.same(usageOf(node('a', null, { usage: { total_tokens: 9 } })), { total_tokens: 9 });
  t.same(usageOf(node('a', null, { usage: { ...used(2, 3), total_tokens: 99 } })), all(2, 3));
  const mixed = [
    node('a', null, { usage: used(2, 3) }),
    node('b', null, { usage: { total_tokens: 9 } }),
  ];
  t.same(usageOf(...mixed), { ...used(2, 3), total_tokens: 14 });
});

t.test('cost falls back to the side that knows one', async (t) => {
  const nodes = (parent: NodeCost | null, child: NodeCost | null) => [
    node('a', null, { usage: used(100, 20), cost: parent }),
    node('b', 'a', { usage: used(100, 20), cost: child }),
  ];
  t.same(traceTotals(nodes(costs(7), null)).cost, costs(7));
  t.same(traceTotals(nodes(null, costs(5))).cost, costs(5));
  t.equal(traceTotals(nodes(null, null)).cost, null);
  const parts = [
    node('a', null, { cost: { input: 1, output: 2, total: 3 } }),
    node('b', null, { cost: { input: 4, output: null, total: 5 } }),
  ];
  t.same(traceTotals(parts).cost, { input: 5, output: 2, total: 8 });
  t.equal(traceTotals(parts).usage, null);
  t.same(counted(...parts), []);
  t.same(countedCost(...parts), ['a', 'b']);
});

t.test(
  'cost counts at the observation that it is from, which may not be that of the tokens',
  async (t) => {
    const costly = (id: string, parentId: string | null, input: number, cost: number | null) =>
      node(id, parentId, { usage: used(input, 0), cost: cost === null ? null : costs(cost) });
    const below = [costly('chain', null, 100, null), costly('call', 'chain', 90, 5)];
    t.same(traceTotals(below).cost, costs(5));
    t.same([counted(...below), countedCost(...below)], [['chain'], ['call']]);
    const above = [costly('chain', null, 100, 7), costly('call', 'chain', 100, null)];
    t.same(traceTotals(above).cost, costs(7));
    t.same([counted(...above), countedCost(...above)], [['call'], ['chain']]);
    const deep = [
      ...[costly('agent', null, 100, null), costly('chain', 'agent', 90, 9)],
      ...[costly('call', 'chain', 80, 5), costly('other', 'agent', 1, 2)],
    ];
    t.same(traceTotals(deep).cost, costs(11));
    t.same([counted(...deep), countedCost(...deep)], [['agent'], ['chain', 'other']]);
  },
);

t.test('usage without input and output counts beside a child that has only a cost', async (t) => {
  const nodes = [
    node('chain', null, { usage: { cached_tokens: 5 } }),
    node('call', 'chain', { cost: costs(3) }),
  ];
  t.same(usageOf(...nodes), { cached_tokens: 5, total_tokens: 0 });
  t.same([counted(...nodes), countedCost(...nodes)], [['chain'], ['call']]);
});

t.test('siblings of two scopes for one call count once', async (t) => {
  const call = (id: string, scope: string | null, more: Partial<UsageNode> = {}) =>
    node(id, 'root', { scope, usage: used(10, 2), ...more });
  const one = [node('root', null), call('a', 'openai'), call('b', 'openinference', { start: 1 })];
  t.same(usageOf(...one), all(10, 2));
  t.same(counted(...one), ['a']);
  const twice = [
    ...one,
    call('c', 'openai', { start: 2 }),
    call('d', 'openinference', { start: 3 }),
  ];
  t.same(usageOf(...twice), all(20, 4), 'two calls, each described twice');
  const different: [string, Partial<UsageNode>][] = [
    ['the same scope', { scope: 'openai' }],
    ['no scope', { scope: null }],
    ['another model', { model: 'other' }],
    ['other tokens', { usage: used(10, 3) }],
    ['a later time', { start: 11, end: 12 }],
    ['an unknown time', { start: null }],
    ['another parent', { parentId: null }],
  ];
  for (const [name, more] of different) {
    const nodes = [node('root', null), call('a', 'openai'), call('b', 'openinference', more)];
    t.equal(usageOf(...nodes)?.input_tokens, 20, name);
  }
  t.equal(
    usageOf(node('root', null), call('a', 'x'), call('b', 'y', { start: 10 }))?.input_tokens,
    10,
    'the second begins when the first ends',
  );
});

t.test('siblings of two scopes with one response count once, with the most tokens', async (t) => {
  const call = (id: string, scope: string, more: Partial<UsageNode> = {}) =>
    node(id, 'root', { scope, responseId: 'r', usage: used(10, 2), ...more });
  const root = node('root', null);
  const more = { ...used(13, 2), cached_tokens: 5 };
  for (const [first, second] of [
    [used(10, 2), more],
    [more, used(10, 2)],
  ]) {
    const a = call('a', 'x', { usage: first ?? null });
    const b = call('b', 'y', { usage: second ?? null, start: 1, model: 'other' });
    t.same(usageOf(root, a, b), { ...all(13, 2), cached_tokens: 5 });
    t.same(counted(root, a, b), [first === more ? 'a' : 'b']);
  }
  const different: [string, Partial<UsageNode>][] = [
    ['another response', { responseId: 's' }],
    ['no response', { responseId: null }],
    ['the same scope', { scope: 'x' }],
    ['a later time', { start: 11, end: 12 }],
    ['another parent', { parentId: null }],
  ];
  for (const [name, other] of different) {
    const nodes = [root, call('a', 'x'), call('b', 'y', { usage: used(11, 2), ...other })];
    t.equal(usageOf(...nodes)?.input_tokens, 21, name);
  }
});

t.test('a call has the cost of the span that knows one', async (t) => {
  const call = (id: string, scope: string, more: Partial<UsageNode> = {}) =>
    node(id, 'root', { scope, usage: used(10, 2), ...more });
  const root = node('root', null);
  const first = [root, call('a', 'x'), call('b', 'y', { start: 1, cost: costs(7) })];
  t.same(traceTotals(first).cost, costs(7), 'the first span is kept, and has no cost');
  t.same([counted(...first), countedCost(...first)], [['a'], ['b']]);
  const both = [root, call('a', 'x', { cost: costs(5) }), call('b', 'y', { cost: costs(7) })];
  t.same(traceTotals(both).cost, costs(5));
  t.same(countedCost(...both), ['a']);
  const responded = { responseId: 'r', start: 1 };
  const largest = [
    root,
    call('a', 'x', { ...responded, cost: costs(5) }),
    call('b', 'y', { ...responded, usage: used(11, 2), cost: costs(6) }),
    call('c', 'z', { ...responded, usage: used(12, 2) }),
    node('inner', 'b', { usage: used(11, 2), cost: costs(9) }),
  ];
  t.same(usageOf(...largest), all(12, 2));
  t.same(traceTotals(largest).cost, costs(9), 'of the span with the most tokens that has one');
  t.same([counted(...largest), countedCost(...largest)], [['c'], ['inner']]);
  const parent = [node('root', null, { usage: used(20, 2), cost: costs(3) }), ...first.slice(1)];
  t.same(traceTotals(parent).cost, costs(3), 'a parent with more tokens has its own cost');
  t.same(countedCost(...parent), ['root']);
});

t.test('a trace has more cycles than a call has arguments', async (t) => {
  const cycles = 150_000;
  const nodes = Array.from({ length: 2 * cycles }, (_, i) =>
    node(`n-${i}`, `n-${i ^ 1}`, { usage: used(1, 1) }),
  );
  t.same(usageOf(...nodes.slice(0, 4)), all(2, 2), 'each cycle repeats its call');
  t.same(summaryTotals(nodes).usage, all(cycles, cycles));
});

t.test('a cycle is broken at its earliest observation, which counts as a root', async (t) => {
  const nodes = [
    node('late', 'early', { start: 2, usage: used(1, 0) }),
    node('early', 'late', { start: 1, usage: used(5, 0) }),
    node('below', 'late', { start: 0, usage: used(1, 0) }),
    node('self', 'self', { usage: used(2, 0) }),
    node('orphan', 'unknown', { usage: used(3, 0) }),
  ];
  const totals = traceTotals(nodes);
  t.same([...totals.cycles].sort(), ['early', 'self']);
  t.equal(totals.usage?.input_tokens, 5 + 2 + 3);
});

t.test('a call below the cycle of its sibling counts', async (t) => {
  const call = (id: string, scope: string) => node(id, 'chain', { scope, usage: used(1, 1) });
  const nodes = [call('a', 'x'), call('b', 'y'), node('chain', 'b', { start: 1 })];
  t.same([...traceTotals(nodes).cycles], ['b']);
  t.same(usageOf(...nodes), all(1, 1));
});

t.test('adds up a chain of 100,000 observations', async (t) => {
  const chain = Array.from({ length: 100_000 }, (_, i) =>
    node(`${i}`, i === 0 ? null : `${i - 1}`, { usage: used(i, 1) }),
  );
  t.same(usageOf(...chain), all(99_999, 1));
});

type Definition = {
  readonly usage: Usage;
  readonly cost: number | null;
  /** Ids of the nodes that the usage and the cost are from. */
  readonly used: readonly string[];
  readonly priced: readonly string[];
};

/** The definition, by plain recursion; without scopes, so no sibling repeats a call. */
function byDefinition(nodes: readonly UsageNode[]): Definition {
  const ids = new Set(nodes.map(({ id }) => id));
  const total = (one: UsageNode): Definition => {
    const below = sum(nodes.filter(({ parentId }) => parentId === one.id).map(total));
    const own = one.usage ?? {};
    const usage = Object.fromEntries(
      ['input_tokens', 'output_tokens'].map((kind) => [
        kind,
        Math.max(own[kind] ?? 0, below.usage[kind] ?? 0),
      ]),
    );
    const size = (side: Usage) => (side.input_tokens ?? 0) + (side.output_tokens ?? 0);
    const isOwn = one.usage !== null && size(own) > size(below.usage);
    const ownCost = one.cost?.total ?? null;
    const [first, second] = isOwn ? [ownCost, below.cost] : [below.cost, ownCost];
    const hasOwnCost = ownCost !== null && (isOwn || below.cost === null);
    return {
      ...{ usage, cost: first ?? second, used: isOwn ? [one.id] : below.used },
      priced: hasOwnCost ? [one.id] : below.priced,
    };
  };
  const sum = (parts: readonly Definition[]): Definition => {
    const costs = parts.flatMap(({ cost }) => (cost === null ? [] : [cost]));
    return {
      usage: {
        input_tokens: parts.reduce((n, { usage }) => n + (usage.input_tokens ?? 0), 0),
        output_tokens: parts.reduce((n, { usage }) => n + (usage.output_tokens ?? 0), 0),
      },
      cost: costs.length === 0 ? null : costs.reduce((n, cost) => n + cost, 0),
      used: parts.flatMap(({ used }) => used),
      priced: parts.flatMap(({ priced }) => priced),
    };
  };
  return sum(nodes.filter(({ parentId }) => parentId === null || !ids.has(parentId)).map(total));
}

/** A forest: each node has an earlier one as its parent, or none. Each has tokens or none, and a cost or none. */
const forest = fc
  .array(
    fc.record({
      parent: fc.nat(),
      isRoot: fc.boolean(),
      usage: fc.option(fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 9 })), {
        nil: null,
      }),
      cost: fc.option(fc.integer({ min: 1, max: 9 }), { nil: null }),
    }),
    { minLength: 1, maxLength: 12 },
  )
  .map((items) =>
    items.map(({ parent, isRoot, usage, cost }, i) =>
      node(`n${i}`, isRoot || i === 0 ? null : `n${parent % i}`, {
        usage: usage === null ? null : used(...usage),
        cost: cost === null ? null : costs(cost),
      }),
    ),
  );

t.test('gives what the recursive definition gives, for any tree and in any order', async () => {
  const shuffled = forest.chain((nodes) =>
    fc.record({
      nodes: fc.constant(nodes),
      order: fc.shuffledSubarray(nodes, { minLength: nodes.length }),
    }),
  );
  const isOf = (found: ReadonlySet<string>, expected: readonly string[]) =>
    [...found].sort().join() === expected.toSorted().join();
  fc.assert(
    fc.property(shuffled, ({ nodes, order }) => {
      const expected = byDefinition(nodes);
      const found = traceTotals(order);
      const isSame = JSON.stringify(found) === JSON.stringify(traceTotals(nodes));
      return (
        isSame &&
        (found.usage?.input_tokens ?? 0) === expected.usage.input_tokens &&
        (found.usage?.output_tokens ?? 0) === expected.usage.output_tokens &&
        (found.cost?.total ?? null) === expected.cost &&
        isOf(found.countedUsage, expected.used) &&
        isOf(found.countedCost, expected.priced)
      );
    }),
    { numRuns: 1000 },
  );
});

t.test('any parents, scopes and times give the same totals in any order', async () => {
  const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
  const ONLY_TOTAL = { total_tokens: 3 };
  const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
  const graph = fc.tuple(
    ...ids.map((id) =>
      fc
        .record({
          parentId: maybe(fc.constantFrom(...ids, 'unknown')),
          scope: maybe(fc.constantFrom('x', 'y', 'z')),
          responseId: maybe(fc.constantFrom('r', 's')),
          start: maybe(fc.nat(3)),
          end: maybe(fc.nat(6)),
          usage: maybe(
            fc.constantFrom(
              used(1, 1),
              used(2, 1),
              { ...used(1, 3), cached_tokens: 1 },
              ONLY_TOTAL,
            ),
          ),
          cost: maybe(fc.nat(5).map(costs)),
        })
        .map(({ parentId, ...more }) => node(id, parentId, more)),
    ),
  );
  const shown = ({ usage, cost, ...sets }: Omit<TraceTotals, `summed${string}` | 'cycles'>) => {
    const [used, priced] = [[...sets.countedUsage].sort(), [...sets.countedCost].sort()];
    return JSON.stringify({ usage, cost, used, priced });
  };
  const totalsOf = (nodes: readonly UsageNode[]) => {
    const totals = traceTotals(nodes);
    return shown(totals) + [...totals.cycles].sort().join();
  };
  const ofSummary = (nodes: readonly UsageNode[]) => {
    const { usage, cost, omittedUsage, omittedCost } = summaryTotals(nodes);
    const used = nodes.filter((node) => node.usage !== null && !omittedUsage.has(node));
    const priced = nodes.filter((node) => node.cost !== null && !omittedCost.has(node));
    return shown({
      ...{ usage, cost, countedUsage: new Set(used.map(({ id }) => id)) },
      countedCost: new Set(priced.map(({ id }) => id)),
    });
  };
  const ofTree = (nodes: readonly UsageNode[]) => shown(nestedTotals(nodes));
  /** The cost of a trace is the sum over the observations that it is counted at. */
  const isSumOfCounted = (nodes: readonly UsageNode[]) => {
    const { cost, countedCost } = traceTotals(nodes);
    const sum = nodes.reduce(
      (n, one) => n + (countedCost.has(one.id) ? (one.cost?.total ?? 0) : 0),
      0,
    );
    return (cost?.total ?? 0) === sum;
  };
  /** So are the tokens, kind by kind, of those that are sent by kind. */
  const areSumsOfKinds = (nodes: readonly UsageNode[]) => {
    const { usage, omittedTokens } = summaryTotals(nodes);
    return SUMMED_KINDS.every((kind, i) => {
      const own = nodes.filter((one) => omittedTokens[i]?.has(one) === false);
      return (usage?.[kind] ?? 0) === own.reduce((n, one) => n + (one.usage?.[kind] ?? 0), 0);
    });
  };
  const cyclesIn = ({ cycles }: ReturnType<typeof traceTotals>) => [...cycles].sort().join();
  fc.assert(
    fc.property(
      graph.chain((nodes) =>
        fc.tuple(fc.constant(nodes), fc.shuffledSubarray(nodes, { minLength: 6 })),
      ),
      ([nodes, order]) =>
        totalsOf(nodes) === totalsOf(order) &&
        isSumOfCounted(order) &&
        areSumsOfKinds(order) &&
        ofSummary(order) === ofTree(order) &&
        shown(traceTotals(order)) === ofTree(order) &&
        cyclesIn(traceTotals(order)) === cyclesIn(nestedTotals(order)),
    ),
    { numRuns: 2000 },
  );
});
