import { parseInstant } from '../../model/instant.ts';
import { cutTo, fit, oneLine, widthOf } from '../width.ts';
import { costText, latencyText, timeText, tokensText } from './figures.ts';
import type { TreeObservation, TreeRow } from './forest.ts';
import { treeRows } from './forest.ts';
import type { ListedTrace } from './listing.ts';

export type ShownTrace = ListedTrace & {
  readonly observation_count: number;
  readonly error_count: number;
  readonly models: readonly string[];
};

type Style = 'red' | 'yellow' | 'cyan' | 'dim' | 'bold';

export type TreeOptions = {
  readonly columns: number;
  readonly all: boolean;
  /** Colours a text; the identity without colours. */
  readonly paint: (style: Style, text: string) => string;
};

const GAP = '  ';
const LEAST_NAME = 16;
const LEAST_BAR = 10;
const MOST_BAR = 60;
const DURATION = 8;
const TOKENS = 7;
/** From this width on, rows have the kind and the cost. */
const WIDE_COLUMNS = 110;
const KIND = 11;
const COST = 9;

/** The trace's head, then a row for each observation: name, bar of its time, duration, tokens. */
export function renderTree(
  trace: ShownTrace,
  observations: readonly TreeObservation[],
  options: TreeOptions,
): string {
  const rows = treeRows(observations, options.all);
  const layout = layoutOf(rows, spanOf(observations), options);
  return [...headOf(trace, options), '', ...rows.flatMap((row) => linesOf(row, layout))].join('\n');
}

function headOf(trace: ShownTrace, { columns, paint }: TreeOptions): string[] {
  const { error_count: failed, observation_count: count, models, user_id, session_id } = trace;
  const facts = [trace.state, latencyText(trace.latency_ms), `${tokensText(trace)} tokens`];
  const name = trace.name ?? '-';
  const observed = `${count} observation${count === 1 ? '' : 's'}${failed === 0 ? '' : `, ${failed} failed`}`;
  const about = [
    observed,
    ...(models.length === 0 ? [] : [`models ${models.join(', ')}`]),
    ...(user_id === null ? [] : [`user ${user_id}`]),
    ...(session_id === null ? [] : [`session ${session_id}`]),
  ];
  return [
    paint('bold', cutTo(oneLine([name, ...facts, costText(trace)].join(GAP)), columns)),
    ...[`trace ${trace.id}  ${timeText(trace.start_time)}`, about.join(GAP)].map((line) =>
      paint('dim', cutTo(oneLine(line), columns)),
    ),
  ];
}

/** Milliseconds. */
type Span = { readonly from: number; readonly to: number };

type Layout = TreeOptions & {
  readonly name: number;
  readonly bar: number;
  readonly isWide: boolean;
  readonly whole: Span | undefined;
};

function layoutOf(rows: readonly TreeRow[], whole: Span | undefined, options: TreeOptions): Layout {
  const { columns } = options;
  const isWide = columns >= WIDE_COLUMNS;
  const figures = 3 * GAP.length + DURATION + TOKENS + (isWide ? KIND + COST + 2 * GAP.length : 0);
  const longest = rows.reduce((most, row) => Math.max(most, widthOf(labelOf(row))), 0);
  const room = columns - figures;
  const most = Math.max(LEAST_NAME, Math.min(Math.floor(columns * 0.45), room - LEAST_BAR));
  const name = Math.min(Math.max(longest, LEAST_NAME), most);
  const bar = Math.max(0, Math.min(MOST_BAR, room - name));
  return { ...options, name, bar, isWide, whole };
}

function labelOf(row: TreeRow): string {
  if ('omitted' in row) {
    const failed = row.failed === 0 ? '' : `, ${row.failed} failed`;
    return `${row.prefix}… ${row.omitted} more${failed} (--all)`;
  }
  const { name, id, status } = row.observation;
  return `${row.prefix}${status === 'error' ? '✗ ' : ''}${oneLine(name ?? id)}`;
}

function linesOf(row: TreeRow, layout: Layout): string[] {
  const { paint, columns } = layout;
  if ('omitted' in row) return [paint('dim', cutTo(labelOf(row), columns))];
  const { observation } = row;
  const { kind, error } = observation;
  const style = styleOf(observation);
  const label = fit(labelOf(row), layout.name);
  const cells = [
    style === 'red' ? paint('red', label) : label,
    ...(layout.isWide ? [fit(kind ?? '-', KIND)] : []),
    paint(style, barOf(observation, layout)),
    fit(latencyText(durationOf(observation)), DURATION, 'right'),
    fit(tokensText(observation), TOKENS, 'right'),
    ...(layout.isWide ? [fit(costText(observation), COST, 'right')] : []),
  ];
  const line = cells.join(GAP);
  const problem = [error?.type, error?.message].filter((text) => text != null && text !== '');
  if (problem.length === 0) return [line];
  const indent = ' '.repeat(Math.min(row.prefix.length + 2, LEAST_NAME));
  return [line, paint('red', cutTo(`${indent}${oneLine(problem.join(': '))}`, columns))];
}

function styleOf({ status, end_time }: TreeObservation): Style {
  if (status === 'error') return 'red';
  return end_time === null ? 'yellow' : 'cyan';
}

/** The place of an observation in the time of the trace. One without an end reaches to the end, in a lighter shade. */
function barOf(observation: TreeObservation, { whole, bar }: Layout): string {
  const from = msOf(observation.start_time);
  if (bar === 0 || from === undefined || whole === undefined) return ' '.repeat(bar);
  const length = Math.max(whole.to - whole.from, 1e-6);
  const to = msOf(observation.end_time);
  const first = Math.min(bar - 1, Math.max(0, Math.floor(((from - whole.from) / length) * bar)));
  const end = Math.round((((to ?? whole.to) - whole.from) / length) * bar);
  const width = Math.max(1, Math.min(end, bar) - first);
  const mark = to === undefined ? '░' : '█';
  return `${' '.repeat(first)}${mark.repeat(width)}${' '.repeat(Math.max(0, bar - first - width))}`;
}

function spanOf(observations: readonly TreeObservation[]): Span | undefined {
  let from = Infinity;
  let to = -Infinity;
  for (const { start_time, end_time } of observations) {
    const [start, end] = [msOf(start_time), msOf(end_time)];
    if (start !== undefined) from = Math.min(from, start);
    to = Math.max(to, end ?? -Infinity, start ?? -Infinity);
  }
  return from <= to ? { from, to } : undefined;
}

function durationOf({ start_time, end_time }: TreeObservation): number | null {
  const [from, to] = [msOf(start_time), msOf(end_time)];
  return from === undefined || to === undefined ? null : Math.max(0, to - from);
}

function msOf(time: string | null): number | undefined {
  const instant = time === null ? undefined : parseInstant(time);
  return instant && instant.ms + instant.ns / 1e6;
}
