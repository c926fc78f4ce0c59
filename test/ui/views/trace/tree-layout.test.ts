import fc from 'fast-check';
import t from 'tap';
import type { TreeLayout } from '../../../../ui/views/trace/tree-layout.ts';
import { childRows, isOrphan, layoutOf } from '../../../../ui/views/trace/tree-layout.ts';
import {
  expandedRows,
  matchingRows,
  nextError,
  slowestRows,
} from '../../../../ui/views/trace/visible-rows.ts';
import { anyObservations, largeTrace, observation } from './trees.ts';

function idsOf({ observations, order }: TreeLayout): string[] {
  return [...order].map((index) => observations[index]?.id ?? '');
}

function branch(id: string, parent_id: string | null) {
  return observation({ id, parent_id });
}

t.test(
  'puts each observation behind its parent, siblings in the order of the answer',
  async (t) => {
    const layout = layoutOf([
      branch('root', null),
      branch('b', 'root'),
      branch('c', 'root'),
      branch('b1', 'b'),
      branch('other', null),
      branch('b2', 'b'),
    ]);
    t.same(idsOf(layout), ['root', 'b', 'b1', 'b2', 'c', 'other']);
    t.same([...layout.depths], [0, 1, 2, 2, 1, 0]);
    t.same([...layout.sizes], [5, 3, 1, 1, 1, 1]);
    t.same([...childRows(layout, 0)], [1, 4]);
  },
);

t.test('breaks cycles, and makes orphans roots', async (t) => {
  const cycle = layoutOf([branch('a', 'c'), branch('b', 'a'), branch('c', 'b')]);
  t.same(idsOf(cycle), ['a', 'b', 'c'], 'at the first observation');
  const marked = [
    branch('a', 'c'),
    observation({ id: 'b', parent_id: 'a', cycle: true }),
    branch('c', 'b'),
  ];
  t.same(idsOf(layoutOf(marked)), ['b', 'c', 'a'], 'where the daemon breaks it');
  const itself = layoutOf([branch('a', 'a')]);
  t.same([...itself.depths], [0]);
  const orphan = layoutOf([branch('a', null), branch('b', 'gone')]);
  t.same([isOrphan(orphan, 0), isOrphan(orphan, 1)], [false, true]);
});

t.test('a layout has every observation once, and subtrees without gaps', async () => {
  fc.assert(
    fc.property(anyObservations, (observations) => {
      const { order, depths, parents, sizes } = layoutOf(observations);
      const seen = new Set(order);
      if (seen.size !== observations.length) return false;
      for (let row = 0; row < order.length; row++) {
        const above = parents[row] ?? -1;
        const depth = above === -1 ? 0 : (depths[above] ?? 0) + 1;
        if (depths[row] !== depth || above >= row) return false;
        const end = row + (sizes[row] ?? 0);
        if (above !== -1 && end > above + (sizes[above] ?? 0)) return false;
        if (end < order.length && (depths[end] ?? 0) > depth) return false;
      }
      return true;
    }),
  );
});

t.test(
  'lays out 100,000 observations, also in one chain and in one cycle, in linear time',
  async (t) => {
    const COUNT = 100_000;
    const chain = Array.from({ length: COUNT }, (_, index) =>
      branch(`o${index}`, index === 0 ? null : `o${index - 1}`),
    );
    const cycle = chain.map((each, index) =>
      index === 0 ? { ...each, parent_id: `o${COUNT - 1}` } : each,
    );
    const wide = chain.map((each, index) => (index === 0 ? each : { ...each, parent_id: 'o0' }));
    for (const given of [largeTrace(COUNT), chain, cycle, wide, [...chain].reverse()]) {
      const before = performance.now();
      const { order, depths } = layoutOf(given);
      t.equal(order.length, COUNT);
      t.ok(depths.length === COUNT && performance.now() - before < 2_000);
    }
  },
);

t.test('collapsed rows hide their subtree', async (t) => {
  const layout = layoutOf([
    branch('a', null),
    branch('b', 'a'),
    branch('c', 'b'),
    branch('d', 'a'),
  ]);
  t.same([...expandedRows(layout, new Set()).rows], [0, 1, 2, 3]);
  const { rows, indexOf } = expandedRows(layout, new Set(['b']));
  t.same([...rows], [0, 1, 3]);
  t.same([...indexOf], [0, 1, -1, 2]);
  t.same([...expandedRows(layout, new Set(['a', 'gone'])).rows], [0]);
});

t.test('a filter keeps the matches and what is above them', async (t) => {
  const layout = layoutOf([
    branch('a', null),
    branch('b', 'a'),
    observation({ id: 'c', parent_id: 'b', model: 'GPT-4.1' }),
    observation({ id: 'd', parent_id: 'a', error: { type: 'TypeError', message: 'boom' } }),
  ]);
  const { rows, matches } = matchingRows(layout, ' gpt ');
  t.same([[...rows], matches], [[0, 1, 2], 1]);
  t.same([...matchingRows(layout, 'BOOM').rows], [0, 3]);
  t.same([...matchingRows(layout, 'nothing').rows], []);
});

t.test('finds the next error, round the end', async (t) => {
  const layout = layoutOf([
    branch('a', null),
    observation({ id: 'b', parent_id: 'a', state: 'error' }),
    branch('c', 'a'),
    observation({ id: 'd', parent_id: 'a', state: 'error' }),
  ]);
  t.same([nextError(layout, 0), nextError(layout, 1), nextError(layout, 3)], [1, 3, 1]);
  t.equal(nextError(layoutOf([branch('a', null)]), 0), undefined);
  t.equal(nextError(layoutOf([]), 0), undefined);
});

t.test('finds the slowest rows, the slowest first', async (t) => {
  t.same(slowestRows(Float64Array.of(1, Number.NaN, 5, 0, 3)), [2, 4, 0]);
  t.same(slowestRows(Float64Array.of(1, 2, 5, 4, 3), 2), [2, 3]);
});
