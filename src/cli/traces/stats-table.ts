import { fit, oneLine, widthOf } from '../width.ts';
import { costText, latencyText, tokensText } from './figures.ts';

/** The answer of `/stats`, as far as the table shows it. */
export type StatsAnswer = {
  readonly step: '5m' | '1h' | '1d';
  readonly from: string;
  readonly to: string;
  readonly group_by: string | null;
  readonly groups: readonly StatsGroupAnswer[];
  readonly left_out: number;
  readonly partial: boolean;
  readonly searched_to: string | null;
};

type StatsGroupAnswer = { readonly key: string | null; readonly points: readonly PointAnswer[] };

type PointAnswer = {
  readonly time: string;
  readonly traces?: number;
  readonly observations?: number;
  readonly errors?: number;
  readonly input_tokens?: number;
  readonly output_tokens?: number;
  readonly cost?: number;
  readonly latency_p50_ms?: number | null;
  readonly latency_p95_ms?: number | null;
  readonly latency_p99_ms?: number | null;
};

const STEP_MS = { '5m': 300_000, '1h': 3_600_000, '1d': 86_400_000 };
const BARS = '▁▂▃▄▅▆▇█';
/** Columns of the bars of a line. */
const MOST_BARS = 24;
const MOST_KEY = 40;
const GAP = '  ';

type StatsColumn = {
  readonly head: string;
  /** The column is shown if the points have it. */
  readonly member?: keyof PointAnswer;
  cell(group: StatsGroupAnswer): string;
};

/** A line for each group, with the traces of each step as bars. The bars are left out if the terminal is too narrow. */
export function renderStats(answer: StatsAnswer, columns: number): string {
  const points = answer.groups.flatMap((group) => group.points);
  const has = ({ member }: StatsColumn): boolean =>
    member === undefined || points.some((point) => point[member] !== undefined);
  const shown = columnsOf(answer).filter(has);
  const lines = [
    shown.map(({ head }) => head),
    ...answer.groups.map((group) => shown.map(({ cell }) => oneLine(cell(group)))),
  ];
  const widths = shown.map((_, i) => Math.max(...lines.map((line) => widthOf(line[i] ?? ''))));
  const isWide = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length) <= columns;
  const kept = isWide || shown.length === 1 ? shown.length : shown.length - 1;
  return lines
    .map((line) =>
      line
        .slice(0, kept)
        .map((cell, i) =>
          fit(cell, widths[i] ?? 0, i === 0 || i === shown.length - 1 ? 'left' : 'right'),
        )
        .join(GAP)
        .trimEnd(),
    )
    .join('\n');
}

function columnsOf(answer: StatsAnswer): StatsColumn[] {
  const sum = (member: 'traces' | 'observations' | 'errors') => ({
    member,
    cell: (group: StatsGroupAnswer) => String(total(group, member)),
  });
  const worst = (member: 'latency_p50_ms' | 'latency_p95_ms' | 'latency_p99_ms') => ({
    member,
    cell: (group: StatsGroupAnswer) => latencyText(highest(group, member)),
  });
  return [
    { head: (answer.group_by ?? 'all').toUpperCase(), cell: ({ key }) => keyText(answer, key) },
    { head: 'TRACES', ...sum('traces') },
    { head: 'OBSERVATIONS', ...sum('observations') },
    { head: 'ERRORS', ...sum('errors') },
    { head: 'TOKENS', member: 'input_tokens', cell: tokensOfGroup },
    {
      head: 'COST',
      member: 'cost',
      cell: (group) => costText({ cost: { total: total(group, 'cost') } }),
    },
    { head: 'MAX P50', ...worst('latency_p50_ms') },
    { head: 'MAX P95', ...worst('latency_p95_ms') },
    { head: 'MAX P99', ...worst('latency_p99_ms') },
    { head: 'TRACES BY TIME', member: 'traces', cell: (group) => bars(answer, group) },
  ];
}

function keyText({ group_by }: StatsAnswer, key: string | null): string {
  if (key === null) return group_by === null ? 'all' : '(other)';
  const text = oneLine(key);
  return widthOf(text) <= MOST_KEY ? text : fit(text, MOST_KEY).trimEnd();
}

function tokensOfGroup(group: StatsGroupAnswer): string {
  const [input_tokens, output_tokens] = [
    total(group, 'input_tokens'),
    total(group, 'output_tokens'),
  ];
  return tokensText({ usage: { input_tokens, output_tokens } });
}

type Summed = 'traces' | 'observations' | 'errors' | 'input_tokens' | 'output_tokens' | 'cost';

function total({ points }: StatsGroupAnswer, member: Summed): number {
  return points.reduce((sum, point) => sum + (point[member] ?? 0), 0);
}

/** Quantiles do not add up: the highest one of all steps. */
function highest(
  { points }: StatsGroupAnswer,
  member: 'latency_p50_ms' | 'latency_p95_ms' | 'latency_p99_ms',
): number | null {
  let most: number | null = null;
  for (const point of points) most = Math.max(most ?? 0, point[member] ?? 0);
  return most;
}

/** The traces of each step, of several steps together if there are many, as bars up to the highest one. */
function bars({ step, from, to }: StatsAnswer, { points }: StatsGroupAnswer): string {
  const begin = Date.parse(from);
  const steps = Math.max(1, Math.ceil((Date.parse(to) - begin) / STEP_MS[step]));
  const perBar = Math.ceil(steps / MOST_BARS);
  const counts = new Array<number>(Math.ceil(steps / perBar)).fill(0);
  for (const { time, traces = 0 } of points) {
    const bar = Math.max(0, Math.floor((Date.parse(time) - begin) / STEP_MS[step] / perBar));
    counts[bar] = (counts[bar] ?? 0) + traces;
  }
  const most = Math.max(...counts);
  return counts.map((count) => barOf(count, most)).join('');
}

function barOf(count: number, most: number): string {
  if (count === 0) return ' ';
  return BARS[Math.ceil((count / most) * BARS.length) - 1] ?? ' ';
}
