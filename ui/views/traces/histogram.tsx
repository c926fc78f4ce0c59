import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { readStats } from '../../api/reading.ts';
import type { Stats } from '../../api/types.ts';
import { grouped } from '../../parts/format.ts';
import type { Bars, Range } from '../../state/range.ts';
import { barsOf, countedIn, rangeKey, STEP_MS } from '../../state/range.ts';
import { useResource } from '../../state/resource.ts';
import type { Bar } from './bars.ts';
import { barsIn, selectionOf } from './bars.ts';

type Props = {
  readonly project: string;
  readonly query: string;
  readonly range: Range;
  /** Milliseconds between two readings; undefined for one. */
  readonly every: number | undefined;
  readonly onSelect: (from: string, to: string) => void;
};

const HEIGHT = 56;

/** Traces by time, failed ones apart. Dragging over the bars selects a range. */
export function Histogram({ project, query, range, every, onSelect }: Props): JSX.Element {
  const { data, failure, isStale } = useResource(
    [project, query, rangeKey(range)].join(' '),
    async (signal) => {
      const span = barsOf(range, Date.now());
      const { from, to } = countedIn(range, span);
      const asked = { q: query, from, to, step: span.step, group_by: 'status', metric: 'traces' };
      return { span, stats: await readStats(project, asked, signal) };
    },
    { every },
  );
  const bars = data === undefined ? [] : barsIn(data.stats, data.span);
  const total = bars.reduce((sum, bar) => sum + bar.traces, 0);
  const failed = bars.reduce((sum, bar) => sum + bar.failed, 0);
  return (
    <figure class={isStale ? 'histogram is-loading' : 'histogram'} aria-label="Traces over time">
      <figcaption class="muted">
        {failure === undefined ? said(data, total, failed) : failure.message}
      </figcaption>
      <BarsDrawn
        bars={bars}
        step={data === undefined ? 1 : STEP_MS[data.span.step]}
        onSelect={onSelect}
      />
    </figure>
  );
}

type Counted = { readonly span: Bars; readonly stats: Stats };

function said(data: Counted | undefined, total: number, failed: number): JSX.Element {
  if (data === undefined) return <span>…</span>;
  const { span, stats } = data;
  return (
    <>
      <strong>{grouped(total)}</strong> {total === 1 ? 'trace' : 'traces'}
      {failed > 0 && <span class="bad"> · {grouped(failed)} failed</span>}
      {span.days !== undefined && ` · of the last ${span.days} days of the range`}
      {stats.partial && ' · of the newest part of the range'}
    </>
  );
}

type BarsProps = {
  readonly bars: readonly Bar[];
  /** Milliseconds of a bar. */
  readonly step: number;
  readonly onSelect: (from: string, to: string) => void;
};

function BarsDrawn({ bars, step, onSelect }: BarsProps): JSX.Element {
  const place = useRef<SVGSVGElement>(null);
  const [drag, setDrag] = useState<{ readonly from: number; readonly to: number } | undefined>();
  const most = Math.max(1, ...bars.map(({ traces }) => traces));
  const indexAt = ({ clientX }: PointerEvent): number => {
    const { left = 0, width = 1 } = place.current?.getBoundingClientRect() ?? {};
    const index = Math.floor(((clientX - left) / width) * bars.length);
    return Math.min(Math.max(index, 0), bars.length - 1);
  };
  const begin = (event: PointerEvent): void => {
    if (bars.length === 0) return;
    place.current?.setPointerCapture(event.pointerId);
    setDrag({ from: indexAt(event), to: indexAt(event) });
  };
  const end = (): void => {
    const chosen = drag && selectionOf(bars, drag.from, drag.to, step);
    setDrag(undefined);
    if (chosen !== undefined) onSelect(chosen.from, chosen.to);
  };
  return (
    <svg
      ref={place}
      viewBox={`0 0 ${Math.max(bars.length, 1)} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="presentation"
      onPointerDown={begin}
      onPointerMove={(event) => drag && setDrag({ ...drag, to: indexAt(event) })}
      onPointerUp={end}
      onPointerCancel={() => setDrag(undefined)}
    >
      {bars.map((bar, index) => (
        <g key={bar.at} class="bar">
          <title>{titleOf(bar)}</title>
          <rect class="bar-place" x={index} y={0} width={1} height={HEIGHT} />
          <rect class="bar-good" {...column(index, bar.traces, bar.failed, most)} />
          <rect class="bar-bad" {...column(index, bar.failed, 0, most)} />
        </g>
      ))}
      {drag !== undefined && (
        <rect
          class="bar-selection"
          x={Math.min(drag.from, drag.to)}
          y={0}
          width={Math.abs(drag.to - drag.from) + 1}
          height={HEIGHT}
        />
      )}
    </svg>
  );
}

/** The rectangle of the traces between two counts. A count that is not 0 has a visible height. */
function column(index: number, upper: number, lower: number, most: number) {
  const y = (count: number): number =>
    count === 0 ? 0 : Math.max(2, (count / most) * (HEIGHT - 2));
  return { x: index + 0.08, width: 0.84, y: HEIGHT - y(upper), height: y(upper) - y(lower) };
}

function titleOf({ at, traces, failed }: Bar): string {
  const time = new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' });
  return `${time}: ${traces} ${traces === 1 ? 'trace' : 'traces'}, ${failed} failed`;
}
