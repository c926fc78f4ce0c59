import type { JSX } from 'preact';
import type { Pipelines } from '../../api/types.ts';
import { duration } from '../../parts/format.ts';
import { layoutOf } from './layout.ts';
import type { PipelineNode, Rates } from './rates.ts';
import { conditionOf, rateText, throughput } from './rates.ts';

type Props = {
  readonly data: Pipelines;
  readonly rates: ReadonlyMap<string, Rates>;
  readonly chosen: string | undefined;
  readonly onChoose: (id: string) => void;
};

/** Room around the drawing for the focus ring. */
const EDGE = 4;

/** The components from left to right, with their rates. */
export function Graph({ data, rates, chosen, onChoose }: Props): JSX.Element {
  const layout = layoutOf(data.nodes, data.edges);
  const nodes = new Map(data.nodes.map((node) => [node.id, node]));
  const [width, height] = [layout.width + 2 * EDGE, layout.height + 2 * EDGE];
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the graph scrolls by keyboard on a narrow screen.
    <section class="graph-scroll" tabIndex={0} aria-label="Pipelines as a graph">
      <div class="graph" style={{ width: `${width}px`, height: `${height}px` }}>
        <svg
          width={width}
          height={height}
          viewBox={`${-EDGE} ${-EDGE} ${width} ${height}`}
          aria-hidden="true"
        >
          <defs>
            <marker
              id="arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="8"
              markerHeight="8"
              orient="auto"
            >
              <path d="M0 0.5L7.500 4L0 7.500z" />
            </marker>
          </defs>
          {layout.frames.map((frame) => (
            <rect
              key={frame.id}
              x={frame.x}
              y={frame.y}
              width={frame.width}
              height={frame.height}
              rx={8}
            />
          ))}
          {layout.lines.map(({ id, path }) => (
            <path key={id} class="graph-line" d={path} marker-end="url(#arrow)" />
          ))}
        </svg>
        {layout.frames.map(({ id, name, x, y, width: size }) => (
          <span
            key={id}
            class="graph-frame cut"
            title={name}
            style={{ left: `${x + EDGE}px`, top: `${y + EDGE}px`, width: `${size}px` }}
          >
            {name}
          </span>
        ))}
        {layout.boxes.map(({ id, x, y, width: size, height: tall }) => {
          const node = nodes.get(id);
          return (
            node !== undefined && (
              <NodeButton
                key={id}
                node={node}
                rates={rates.get(id)}
                isChosen={id === chosen}
                onChoose={() => onChoose(id)}
                place={{ left: x + EDGE, top: y + EDGE, width: size, height: tall }}
              />
            )
          );
        })}
      </div>
    </section>
  );
}

type NodeProps = {
  readonly node: PipelineNode;
  readonly rates: Rates | undefined;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
  readonly place: Readonly<Record<'left' | 'top' | 'width' | 'height', number>>;
};

function NodeButton({ node, rates, isChosen, onChoose, place }: NodeProps): JSX.Element {
  const condition = conditionOf(node, rates);
  const style = Object.fromEntries(
    Object.entries(place).map(([name, value]) => [name, `${value}px`]),
  );
  return (
    <button
      type="button"
      class={`graph-node is-${condition}`}
      style={style}
      aria-pressed={isChosen}
      onClick={onChoose}
    >
      <span class="graph-name">
        <span class="cut" title={node.name}>
          {node.name}
        </span>
        {node.kind !== 'processor' && <span class="graph-kind">{node.kind}</span>}
      </span>
      <span class="graph-numbers">
        <strong>{rateText(throughput(node, rates))}</strong> {factOf(node, rates)}
        {condition !== 'good' && <span class="unseen">, needs attention</span>}
      </span>
    </button>
  );
}

/** The number that says most about a component beside its rate. */
function factOf({ queue, latency }: PipelineNode, rates: Rates | undefined): string {
  if (queue !== null) return `${queue.entries.toLocaleString('en-US')} waiting`;
  if ((rates?.items_rejected ?? 0) > 0) return `${rateText(rates?.items_rejected)} rejected`;
  if ((rates?.items_failed ?? 0) > 0) return `${rateText(rates?.items_failed)} failed`;
  if ((rates?.items_dropped ?? 0) > 0) return `${rateText(rates?.items_dropped)} dropped`;
  const p95 = latency?.p95_seconds ?? null;
  return p95 === null ? '' : `p95 ${duration(p95 * 1000)}`;
}
