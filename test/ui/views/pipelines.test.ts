import fc from 'fast-check';
import t from 'tap';
import type { Pipelines } from '../../../ui/api/types.ts';
import { layoutOf, NODE } from '../../../ui/views/pipelines/layout.ts';
import {
  conditionOf,
  type PipelineNode,
  ratesOf,
  rateText,
  remembered,
  throughput,
} from '../../../ui/views/pipelines/rates.ts';

const receiver = { id: 'r', kind: 'receiver', pipeline: 'a' } as const;
const first = { id: 'p1', kind: 'processor', pipeline: 'a' } as const;
const second = { id: 'p2', kind: 'processor', pipeline: 'a' } as const;
const exporter = { id: 'e', kind: 'exporter', pipeline: null } as const;
const edge = (from: string, to: string) => ({ from, to, pipeline: 'a' });

t.test(
  'components are in columns from left to right, processors of a pipeline in one',
  async (t) => {
    const edges = [edge('r', 'p1'), edge('p1', 'p2'), edge('p2', 'e')];
    const { boxes, frames, lines } = layoutOf([receiver, first, second, exporter], edges);
    const at = new Map(boxes.map((box) => [box.id, box]));
    const x = (id: string) => at.get(id)?.x ?? Number.NaN;
    t.ok(x('r') + NODE.width < x('p1'));
    t.equal(x('p1'), x('p2'));
    t.ok(x('p2') + NODE.width < x('e'));
    t.equal(frames[0]?.name, 'a');
    t.equal(lines.length, 3);
  },
);

const graphs = fc
  .integer({ min: 0, max: 12 })
  .chain((length) =>
    fc.record({
      nodes: fc.array(
        fc.record({
          kind: fc.constantFrom('receiver', 'processor', 'exporter', 'connector'),
          pipeline: fc.constantFrom('a', 'b', null),
        }),
        { minLength: length, maxLength: length },
      ),
      edges: fc.array(fc.tuple(fc.nat(12), fc.nat(12)), { maxLength: 40 }),
    }),
  )
  .map(({ nodes, edges }) => ({
    nodes: nodes.map((node, index) => ({ ...node, id: `n${index}` }) as const),
    edges: edges.map(([from, to]) => edge(`n${from}`, `n${to}`)),
  }));

t.test('no two components overlap, whatever the graph, with cycles too', async () => {
  fc.assert(
    fc.property(graphs, ({ nodes, edges }) => {
      const { boxes, width, height } = layoutOf(nodes, edges);
      const isInside = boxes.every(
        (box) =>
          box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= height,
      );
      const isApart = boxes.every((a, i) =>
        boxes
          .slice(i + 1)
          .every(
            (b) =>
              a.x + a.width <= b.x ||
              b.x + b.width <= a.x ||
              a.y + a.height <= b.y ||
              b.y + b.height <= a.y,
          ),
      );
      return boxes.length === nodes.length && isInside && isApart;
    }),
  );
});

function node(counters: Partial<PipelineNode['counters']>): PipelineNode {
  const none = { rejected: {}, refused: {}, dropped: {}, failed: {} };
  return {
    ...{ id: 'n', kind: 'exporter', name: 'n', type: 'n', pipeline: null, codes: none },
    counters: { items_rejected: 0, items_dropped: 0, items_failed: 0, ...counters },
    ...{ latency: null, queue: null, health: null },
  };
}

const START = Date.parse('2026-11-20T10:00:00.000Z');
function answer(seconds: number, items: number, since = 0): Pipelines {
  const iso = (at: number) => new Date(START + at * 1000).toISOString();
  const nodes = [node({ items_out: items })];
  return { at: iso(seconds), since: iso(since), processes: 1, nodes, edges: [] };
}

t.test('a rate is the difference of two answers by the time between them', async (t) => {
  t.equal(ratesOf([]).size, 0);
  t.equal(ratesOf([answer(0, 5)]).size, 0);
  t.equal(ratesOf([answer(0, 5), answer(4, 25)]).get('n')?.items_out, 5);
  t.equal(ratesOf([answer(0, 25), answer(4, 5)]).get('n')?.items_out, 0, 'never below zero');
});

t.test('rates look back ten seconds, and begin again after a restart', async (t) => {
  const all = [answer(0, 0), answer(2, 2), answer(12, 12)];
  const kept = all.reduce<readonly Pipelines[]>(remembered, []);
  t.equal(kept[0]?.at, all[1]?.at, 'exactly ten seconds ago');
  t.equal(remembered(kept, answer(12.001, 12)).length, 3 - 1);
  const late = remembered([answer(0, 0)], answer(60, 60));
  t.equal(late.length, 2, 'a page that was in the background keeps one answer');
  t.equal(remembered(all, answer(14, 1, 13)).length, 1, 'other counters');
});

t.test('a component that never counted an item has no throughput', async (t) => {
  t.equal(throughput(node({ items_in: 0, items_out: 0 }), { items_in: 0 }), undefined);
  t.equal(throughput(node({ items_in: 9 }), { items_in: 3 }), 3);
  t.equal(throughput(node({ items_in: 9, items_out: 7 }), { items_in: 3, items_out: 2 }), 3);
  t.equal(throughput(node({ items_in: 9 }), undefined), undefined);
});

t.test('a rate has one digit below ten', async (t) => {
  const texts = [undefined, 0, 0.0123, 0.31, 4.4, 9.4, 9.95, 12.4, 1234].map(rateText);
  t.strictSame(texts, ['–', '0/s', '0.01/s', '0.3/s', '4/s', '9/s', '10/s', '12/s', '1,234/s']);
});

t.test('failures at this moment and dead letters warn; bad health is bad', async (t) => {
  const queue = {
    ...{ entries: 0, leased: 0, items: 0, oldest_at: null, bytes: 0, max_bytes: 0 },
    ...{ dead_letters: 1, dead_letter_items: 1, quarantined: null, branches: [] },
  };
  const health = { ready: true, healthy: false, message: null, details: {} };
  t.equal(conditionOf(node({}), undefined), 'good');
  t.equal(conditionOf(node({}), { items_failed: 0.1 }), 'warn');
  t.equal(conditionOf({ ...node({}), queue }, {}), 'warn');
  t.equal(conditionOf({ ...node({}), queue: { ...queue, dead_letters: 0 } }, {}), 'good');
  t.equal(conditionOf({ ...node({}), queue, health }, {}), 'bad');
});
