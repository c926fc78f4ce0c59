import fc from 'fast-check';
import t from 'tap';
import { criticalPath, ownTimes } from '../../../../ui/views/trace/critical-path.ts';
import { layoutOf } from '../../../../ui/views/trace/tree-layout.ts';
import { anyObservations, largeTrace, observation } from './trees.ts';

const at = (ms: number): string => new Date(Date.parse('2026-01-01T00:00:00Z') + ms).toISOString();

function span(id: string, parent_id: string | null, start: number, end: number) {
  return observation({ id, parent_id, start_time: at(start), end_time: at(end) });
}

t.test('follows what the end of the trace waited for', async (t) => {
  const layout = layoutOf([
    span('root', null, 0, 100),
    span('first', 'root', 10, 40),
    span('beside', 'root', 10, 20),
    span('last', 'root', 40, 90),
    span('inner', 'last', 50, 95),
  ]);
  const path = criticalPath(layout);
  t.same([...path], [20, 30, Number.NaN, 10, 40]);
  t.same([...ownTimes(layout)], [20, 30, 10, 10, 45]);
});

t.test(
  'leaves out observations without both times, and those that end before they start',
  async (t) => {
    const layout = layoutOf([
      span('root', null, 0, 10),
      span('reversed', 'root', 8, 2),
      observation({ id: 'open', parent_id: 'root', start_time: at(1) }),
    ]);
    t.same([...criticalPath(layout)], [10, Number.NaN, Number.NaN]);
    t.same([...ownTimes(layout)], [10, Number.NaN, Number.NaN]);
    t.same([...criticalPath(layoutOf([]))], []);
  },
);

t.test('takes the root, not an orphan that took longer', async (t) => {
  const layout = layoutOf([span('orphan', 'gone', 0, 100), span('root', null, 0, 10)]);
  t.same([...criticalPath(layout)], [Number.NaN, 10]);
  t.same([...criticalPath(layoutOf([span('orphan', 'gone', 0, 7)]))], [7]);
});

t.test(
  'counts no time of a child before its parent, and takes the first of equal roots',
  async (t) => {
    const early = layoutOf([
      span('root', null, 10, 20),
      span('early', 'root', 0, 15),
      span('inner', 'early', 2, 12),
    ]);
    t.same([...criticalPath(early)], [5, 3, 2]);
    const equal = layoutOf([span('one', null, 0, 10), span('other', null, 5, 15)]);
    t.same([...criticalPath(equal)], [10, Number.NaN]);
  },
);

t.test('the times on the path add up to the duration of its root', async () => {
  fc.assert(
    fc.property(anyObservations, (observations) => {
      const layout = layoutOf(observations);
      const path = criticalPath(layout);
      const on = [...path.keys()].filter((row) => !Number.isNaN(path[row]));
      if (on.some((row) => (path[row] ?? -1) < 0)) return false;
      const root = on[0];
      if (root === undefined) return true;
      const duration = (layout.ends[root] ?? 0) - (layout.starts[root] ?? 0);
      const sum = on.reduce((total, row) => total + (path[row] ?? 0), 0);
      const own = ownTimes(layout);
      const inside = on.every((row) => (own[row] ?? -1) >= 0);
      return inside && Math.abs(sum - duration) <= 0.01 * on.length + duration * 1e-9;
    }),
  );
});

t.test('takes 100,000 observations', async (t) => {
  const layout = layoutOf(largeTrace(100_000));
  const before = performance.now();
  t.equal(criticalPath(layout).length, 100_000);
  t.equal(ownTimes(layout).length, 100_000);
  t.ok(performance.now() - before < 2_000);
});
