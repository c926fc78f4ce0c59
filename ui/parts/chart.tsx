import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { theme } from '../state/theme.ts';
import './chart.css';
import { NOTHING } from './format.ts';
import type { Marked } from './marks.ts';
import { endsOf, markedBy } from './marks.ts';
import { aloneIn, isWhole, type Series, stacked, WHOLE_STEPS } from './series.ts';

type Props = {
  /** The accessible name of the figure. */
  readonly label: string;
  /** Starts of the periods, milliseconds since 1970, ascending. */
  readonly times: readonly number[];
  /** At most six: there are six colors. */
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** `bars` stacks the series; `lines` draws a line for each. */
  readonly kind?: 'bars' | 'lines';
  /** The names of the series below the chart; off if there is one that the label names. */
  readonly hasLegend?: boolean;
  readonly height?: number;
  /** A person dragged over a range; milliseconds since 1970, `to` is exclusive. */
  readonly onSelect?: (from: number, to: number) => void;
};

const HUES = 6;
/** The least width of the axis of values: the plots of charts below each other begin at the same place. */
const AXIS_WIDTH = 58;
/** Between the labels and the plot, and between the labels and the edge. */
const LABEL_GAP = 5;
const LABEL_FONT = '12px system-ui, sans-serif';
/** The diameter of the dot that stands for a line of one value. */
const DOT = 6;

/** The settings of the system that change the colors of the theme. */
const COLOR_SETTINGS = [
  matchMedia('(prefers-color-scheme: dark)'),
  matchMedia('(forced-colors: active)'),
];

/**
 * A chart over time. Its colors are those of the theme; the values below the pointer show in its caption. Arrow keys mark a period, with
 * Shift more of them; Enter chooses their range, as the end of a drag does.
 */
export function Chart(props: Props): JSX.Element {
  const { label, times, series, format, kind = 'bars', hasLegend = true, height = 180 } = props;
  const { onSelect } = props;
  const place = useRef<HTMLDivElement>(null);
  const current = useRef(props);
  current.current = props;
  const [at, setAt] = useState<number | undefined>(undefined);
  const [marked, setMarked] = useState<Marked | undefined>(undefined);
  const chosenTheme = theme.value;
  const shape = [isWhole(series), ...series.map((each) => each.id)].join('\n');

  const plot = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const draw = (): void => {
      plot.current?.destroy();
      const options = optionsOf(() => current.current, element, { kind, height, setAt });
      plot.current = new uPlot(options, dataOf(current.current), element);
    };
    draw();
    const resize = new ResizeObserver(() => {
      const width = element.clientWidth;
      if (width > 0 && width !== plot.current?.width) plot.current?.setSize({ width, height });
    });
    resize.observe(element);
    for (const each of COLOR_SETTINGS) each.addEventListener('change', draw);
    return () => {
      for (const each of COLOR_SETTINGS) each.removeEventListener('change', draw);
      resize.disconnect();
      plot.current?.destroy();
      plot.current = undefined;
    };
  }, [chosenTheme, kind, height, shape]);

  useEffect(() => plot.current?.setData(dataOf(current.current)), [times, series]);

  // Periods move on with the time, and those of another range are other ones: a mark on them would name another time.
  useEffect(() => setMarked(undefined), [times[0], times.length]);
  useEffect(() => drawMark(plot.current, marked, times), [marked]);

  const shown = marked ?? (at === undefined ? undefined : { from: at, to: at });
  const time = shown === undefined ? undefined : timeOf(shown, times);
  const values = series.map((each) => textOf(valueIn(each, shown, kind), format));
  const named = series.map(({ label: name }, index) => `${name} ${values[index] || NOTHING}`);
  const choose = (): void => {
    if (marked !== undefined) onSelect?.(...rangeOfMark(marked, times));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { key, shiftKey, ctrlKey, metaKey, altKey } = event;
    if (ctrlKey || metaKey || altKey) return;
    const isExtended = shiftKey && onSelect !== undefined;
    const next = markedBy(key, marked, { count: times.length, isExtended });
    if (next !== undefined) setMarked(next);
    else if (marked !== undefined && key === 'Enter') choose();
    else if (marked !== undefined && key === 'Escape') setMarked(undefined);
    else return;
    event.preventDefault();
  };
  return (
    <figure class="chart" aria-label={label}>
      <div
        ref={place}
        class="chart-plot"
        role="slider"
        tabIndex={0}
        aria-label={`Period of ${label}`}
        aria-valuemin={1}
        aria-valuemax={Math.max(1, times.length)}
        aria-valuenow={Math.max(1, (marked?.to ?? times.length - 1) + 1)}
        aria-valuetext={`${time ?? 'The whole range'}: ${named.join(', ')}`}
        onKeyDown={onKeyDown}
        onPointerDown={() => setMarked(undefined)}
        onBlur={() => setMarked(undefined)}
      />
      <Caption {...{ series, values, time }} isListed={hasLegend || shown !== undefined} />
    </figure>
  );
}

type CaptionProps = {
  readonly series: readonly Series[];
  readonly values: readonly string[];
  readonly time: string | undefined;
  readonly isListed: boolean;
};

function Caption({ series, values, time, isListed }: CaptionProps): JSX.Element {
  return (
    <figcaption>
      <span class="muted chart-time">{time ?? 'UTC'}</span>
      {isListed && (
        <ul>
          {series.map(({ id, label: name }, index) => (
            <li key={id}>
              <span class={`chart-mark hue-${(index % HUES) + 1}`} aria-hidden="true" />
              <span class="cut" title={name}>
                {name}
              </span>
              <strong>{values[index]}</strong>
            </li>
          ))}
        </ul>
      )}
    </figcaption>
  );
}

/** Draws the mark of the keyboard as the pointer and its drag are drawn; without one, takes it away. */
function drawMark(
  plot: uPlot | undefined,
  marked: Marked | undefined,
  times: readonly number[],
): void {
  if (plot === undefined) return;
  const at = marked === undefined ? undefined : times[marked.to];
  const hidden = { left: -10, top: -10 };
  plot.setCursor(
    at === undefined ? hidden : { left: plot.valToPos(at / 1000, 'x'), top: 0 },
    false,
  );
  const isRange = marked !== undefined && marked.from !== marked.to;
  const [from, to] = isRange ? rangeOfMark(marked, times) : [0, 0];
  const left = isRange ? plot.valToPos(from / 1000, 'x') : 0;
  const width = isRange ? plot.valToPos(to / 1000, 'x') - left : 0;
  plot.setSelect({ left, width, top: 0, height: plot.over.clientHeight }, false);
}

/** The beginning of the first marked period and the end of the last one, milliseconds. */
function rangeOfMark(marked: Marked, times: readonly number[]): [from: number, to: number] {
  const [first = 0, last = 0] = endsOf(marked).map((index) => times[index]);
  return [first, last + stepOf(times)];
}

/** Milliseconds of a period. */
function stepOf([first, second]: readonly number[]): number {
  return first === undefined || second === undefined ? 3_600_000 : second - first;
}

/** The value of a period, or the sum over several. */
function valueIn(
  { values }: Series,
  shown: Marked | undefined,
  kind: 'bars' | 'lines',
): number | null | undefined {
  if (shown === undefined) return sumOf(values, kind);
  const [first, last] = endsOf(shown);
  if (first === last) return values[first];
  return sumOf(values.slice(first, last + 1), kind);
}

/** A day is named as a whole, an hour by its beginning: a range of days ends with the last one, that of hours behind it. */
function timeOf(shown: Marked, times: readonly number[]): string | undefined {
  const [first, last] = endsOf(shown).map((index) => times[index]);
  if (first === undefined || last === undefined) return undefined;
  if (first === last) return periodName(first, times);
  const end = areDays(times) ? last : last + stepOf(times);
  return `${periodName(first, times)} – ${periodName(end, times)}`;
}

/** The sum of bars; lines have values that cannot be added. */
function sumOf(values: readonly (number | null)[], kind: 'bars' | 'lines'): number | undefined {
  if (kind === 'lines') return undefined;
  return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
}

function textOf(value: number | null | undefined, format: (value: number) => string): string {
  if (value === undefined) return '';
  return value === null ? NOTHING : format(value);
}

function periodName(time: number, times: readonly number[]): string {
  const text = new Date(time).toISOString();
  return areDays(times)
    ? `${text.slice(0, 10)} (UTC)`
    : `${text.slice(0, 16).replace('T', ' ')} UTC`;
}

function areDays(times: readonly number[]): boolean {
  return times.every((each) => each % 86_400_000 === 0);
}

/** uPlot draws the first series first: with bars the tallest one, which the others cover in part. */
function dataOf({ times, series, kind = 'bars' }: Props): uPlot.AlignedData {
  const seconds = times.map((time) => time / 1000);
  const values = kind === 'bars' ? stacked(series) : series.map((each) => each.values);
  return [seconds, ...values.map((each) => [...each])];
}

type Drawing = {
  readonly kind: 'bars' | 'lines';
  readonly height: number;
  readonly setAt: (index: number | undefined) => void;
};

function optionsOf(
  props: () => Props,
  element: HTMLElement,
  { kind, height, setAt }: Drawing,
): uPlot.Options {
  const color = colorsOf(element);
  const axis = { stroke: color('--text-muted'), font: LABEL_FONT, gap: LABEL_GAP };
  const line = { stroke: color('--line'), width: 1 };
  const canSelect = props().onSelect !== undefined;
  return {
    width: Math.max(1, element.clientWidth),
    height,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    padding: [8, 24, 0, 0],
    legend: { show: false },
    scales: {
      x: { range: (_, min, max) => rangeOf(props().times, min, max) },
      y: { range: fromZero },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        ticks: line,
        space: 70,
        size: 32,
        values: (_, splits, __, ___, step) => splits.map((at) => timeLabel(at, step)),
      },
      {
        ...axis,
        size: widthOfLabels,
        grid: line,
        ticks: { show: false },
        ...(isWhole(props().series) && { incrs: WHOLE_STEPS }),
        values: (_, splits) => splits.map((value) => props().format(value)),
      },
    ],
    cursor: {
      y: false,
      points: { show: kind === 'lines' },
      drag: { x: canSelect, y: false, setScale: false },
    },
    series: [
      {},
      ...props().series.map((_, index): uPlot.Series => {
        const hue = color(`--hue-${(index % HUES) + 1}`);
        if (kind === 'lines') {
          const alone = (plot: uPlot, at: number): number[] => aloneIn(plot.data[at] ?? []);
          const points = { show: false, filter: alone, size: DOT, width: 0, fill: hue };
          return { stroke: hue, width: 2, points };
        }
        const paths = uPlot.paths.bars?.({ size: [0.8, 48], align: 1 });
        return {
          stroke: hue,
          fill: hue,
          width: 0,
          points: { show: false },
          ...(paths && { paths }),
        };
      }),
    ],
    hooks: {
      setCursor: [({ cursor }) => setAt(cursor.idx ?? undefined)],
      setSelect: [(plot) => select(plot, props())],
      draw: [({ bbox }) => alignCaption(element, bbox.left / uPlot.pxRatio)],
    },
  };
}

/** The width of the axis of values; uPlot asks before there are labels, too. */
function widthOfLabels({ ctx }: uPlot, labels: readonly string[] | null): number {
  ctx.save();
  ctx.font = LABEL_FONT;
  const widths = (labels ?? []).map((label) => ctx.measureText(label).width + 2 * LABEL_GAP);
  ctx.restore();
  return Math.max(AXIS_WIDTH, ...widths);
}

/** The caption begins below the plot, `left` pixels from the edge. */
function alignCaption(element: HTMLElement, left: number): void {
  element.parentElement?.style.setProperty('--plot-left', `${left}px`);
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `Nov 22`, and `14:00` within a day; UTC. `step` is the distance of two labels; both are seconds. */
function timeLabel(at: number, step: number): string {
  const text = new Date(at * 1000).toISOString();
  const time = text.slice(11, 16);
  if (step < 86_400 && time !== '00:00') return time;
  return `${MONTHS[Number(text.slice(5, 7)) - 1]} ${Number(text.slice(8, 10))}`;
}

/** Bars begin at their time: the last one needs a step of space. */
function rangeOf(times: readonly number[], min: number, max: number): uPlot.Range.MinMax {
  return [min, max + stepOf(times) / 1000];
}

function fromZero(_: uPlot, __: number, max: number): uPlot.Range.MinMax {
  return [0, max > 0 ? max * 1.08 : 1];
}

function select(plot: uPlot, { onSelect, times }: Props): void {
  const { left, width } = plot.select;
  if (width < 4 || onSelect === undefined) return;
  const step = stepOf(times);
  const from = plot.posToVal(left, 'x') * 1000;
  const to = plot.posToVal(left + width, 'x') * 1000;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  onSelect(Math.floor(from / step) * step, Math.ceil(to / step) * step);
}

/** A canvas does not resolve custom properties: an element does. */
function colorsOf(element: HTMLElement): (name: string) => string {
  return (name) => {
    const probe = document.createElement('span');
    probe.style.color = `var(${name})`;
    // With high contrast the browser would give every element the color of the text.
    probe.style.setProperty('forced-color-adjust', 'none');
    element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}
