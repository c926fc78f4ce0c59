import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { daemonNow } from '../../api/clock.ts';
import { readStats } from '../../api/reading.ts';
import type { Stats } from '../../api/types.ts';
import { grouped } from '../../parts/format.ts';
import type { Marked } from '../../parts/marks.ts';
import { markedBy } from '../../parts/marks.ts';
import type { Bars, Range } from '../../state/range.ts';
import { barsOf, countedIn, rangeKey, STEP_MS, shortTime } from '../../state/range.ts';
import { useResource } from '../../state/resource.ts';
import type { Bar } from './bars.ts';
import { barsIn, selectionOf } from './bars.ts';
import { CountFailure } from './count-failure.tsx';

type Props = {
  readonly project: string;
  readonly query: string;
  readonly range: Range;
  /** Milliseconds between two readings; undefined for one. */
  readonly every: number | undefined;
  readonly onSelect: (from: string, to: string) => void;
};

const HEIGHT = 56;

/** Traces by time, failed ones apart. Dragging over the bars, or the keyboard, selects a range. */
export function Histogram({ project, query, range, every, onSelect }: Props): JSX.Element {
  const of = [project, query, rangeKey(range)].join(' ');
  const { data, failure, isStale, reload } = useResource(
    of,
    async (signal) => {
      const span = barsOf(range, daemonNow());
      const { from, to } = countedIn(range, span);
      const asked = { q: query, from, to, step: span.step, group_by: 'status', metric: 'traces' };
      return { of, span, stats: await readStats(project, asked, signal) };
    },
    { every },
  );
  const bars = data === undefined ? [] : barsIn(data.stats, data.span);
  const step = data === undefined ? 1 : STEP_MS[data.span.step];
  const [marked, setMarked] = useState<Marked | undefined>();
  // The bars of a live list move on, and those of another range are other ones: a mark on them would name another time.
  useEffect(() => setMarked(undefined), [bars[0]?.at, step]);
  const named = markedText(bars, marked, step);
  const total = bars.reduce((sum, bar) => sum + bar.traces, 0);
  const failed = bars.reduce((sum, bar) => sum + bar.failed, 0);
  return (
    <figure class={isStale ? 'histogram is-loading' : 'histogram'} aria-label="Traces over time">
      <figcaption class="muted">
        {failure !== undefined && <CountFailure failure={failure} retry={reload} />}
        {/* The counts of a live list change all the time: a screen reader says only those of a search. */}
        <div role="status" aria-live={every === undefined ? 'polite' : 'off'}>
          {failure === undefined && named === undefined && (
            <div key={data?.of}>{said(data, total, failed)}</div>
          )}
        </div>
        {/* One line, or two that a phone has room for: the bars stay below a pointer that drags. */}
        {failure === undefined && named !== undefined && (
          <span class="cut histogram-marked">{named}</span>
        )}
      </figcaption>
      <BarsDrawn {...{ bars, step, marked, onSelect }} onMark={setMarked} />
    </figure>
  );
}

type Counted = { readonly of: string; readonly span: Bars; readonly stats: Stats };

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
  readonly marked: Marked | undefined;
  readonly onMark: (marked: Marked | undefined) => void;
  readonly onSelect: (from: string, to: string) => void;
};

/** The bars. Arrow keys mark one, with Shift more of them; Enter chooses their range, as the end of a drag does. */
function BarsDrawn({ bars, step, marked, onMark, onSelect }: BarsProps): JSX.Element {
  const place = useRef<SVGSVGElement>(null);
  const isDragging = useRef(false);
  const most = Math.max(1, ...bars.map(({ traces }) => traces));
  const last = Math.max(bars.length - 1, 0);
  const indexAt = ({ clientX }: PointerEvent): number => {
    const { left = 0, width = 1 } = place.current?.getBoundingClientRect() ?? {};
    const index = Math.floor(((clientX - left) / width) * bars.length);
    return Math.min(Math.max(index, 0), bars.length - 1);
  };
  const begin = (event: PointerEvent): void => {
    if (bars.length === 0) return;
    place.current?.setPointerCapture(event.pointerId);
    isDragging.current = true;
    onMark({ from: indexAt(event), to: indexAt(event) });
  };
  const unmark = (): void => {
    isDragging.current = false;
    onMark(undefined);
  };
  const choose = (): void => {
    const chosen = marked && selectionOf(bars, marked, step);
    unmark();
    if (chosen !== undefined) onSelect(chosen.from, chosen.to);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { key, shiftKey, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey || isDragging.current) return;
    const next = markedBy(key, marked, { count: bars.length, isExtended: shiftKey });
    if (next !== undefined) onMark(next);
    else if (marked !== undefined && key === 'Enter') choose();
    else if (marked !== undefined && key === 'Escape') unmark();
    else return;
    event.preventDefault();
  };
  return (
    <div
      role="slider"
      tabIndex={0}
      aria-label="Range of time"
      aria-valuemin={1}
      aria-valuemax={last + 1}
      aria-valuenow={Math.min(marked?.to ?? last, last) + 1}
      aria-valuetext={markedText(bars, marked, step) ?? 'The whole range'}
      onKeyDown={onKeyDown}
      onBlur={unmark}
    >
      <svg
        ref={place}
        viewBox={`0 0 ${last + 1} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="presentation"
        onPointerDown={begin}
        onPointerMove={(event) =>
          isDragging.current && marked && onMark({ ...marked, to: indexAt(event) })
        }
        onPointerUp={() => isDragging.current && choose()}
        onPointerCancel={unmark}
      >
        {bars.map((bar, index) => (
          <BarDrawn key={bar.at} bar={bar} index={index} most={most} />
        ))}
        {marked !== undefined && (
          <rect
            class="bar-selection"
            x={Math.min(marked.from, marked.to)}
            y={0}
            width={Math.abs(marked.to - marked.from) + 1}
            height={HEIGHT}
          />
        )}
      </svg>
    </div>
  );
}

type BarProps = { readonly bar: Bar; readonly index: number; readonly most: number };

function BarDrawn({ bar, index, most }: BarProps): JSX.Element {
  return (
    <g class="bar">
      <title>{titleOf(bar)}</title>
      <rect class="bar-place" x={index} y={0} width={1} height={HEIGHT} />
      <rect class="bar-good" {...column(index, bar.traces, bar.failed, most)} />
      <rect class="bar-bad" {...column(index, bar.failed, 0, most)} />
    </g>
  );
}

/** The marked bars as the caption names them, and a screen reader. */
function markedText(
  bars: readonly Bar[],
  marked: Marked | undefined,
  step: number,
): string | undefined {
  if (marked === undefined) return undefined;
  const first = bars[Math.min(marked.from, marked.to)];
  const last = bars[Math.max(marked.from, marked.to)];
  if (first === undefined || last === undefined) return undefined;
  if (first === last) return titleOf(first);
  const covered = bars.filter(({ at }) => at >= first.at && at <= last.at);
  const sum = { traces: 0, failed: 0 };
  for (const { traces, failed } of covered) {
    sum.traces += traces;
    sum.failed += failed;
  }
  return `${timeOf(first.at)} – ${timeOf(last.at + step)} UTC: ${countsOf(sum)}`;
}

/** The rectangle of the traces between two counts. A count that is not 0 has a visible height. */
function column(index: number, upper: number, lower: number, most: number) {
  const y = (count: number): number =>
    count === 0 ? 0 : Math.max(2, (count / most) * (HEIGHT - 2));
  return { x: index + 0.08, width: 0.84, y: HEIGHT - y(upper), height: y(upper) - y(lower) };
}

function titleOf(bar: Bar): string {
  return `${timeOf(bar.at)} UTC: ${countsOf(bar)}`;
}

function countsOf({ traces, failed }: Pick<Bar, 'traces' | 'failed'>): string {
  return `${traces} ${traces === 1 ? 'trace' : 'traces'}, ${failed} failed`;
}

function timeOf(at: number): string {
  return shortTime(new Date(at).toISOString(), { year: 'numeric' });
}
