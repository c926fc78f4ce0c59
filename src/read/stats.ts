import { formatInstant, formatMs } from '../model/instant.ts';
import { HOUR_MS } from '../model/usage-window.ts';
import type { Query } from '../query/query.ts';
import type { RollupField } from '../store/rollups/fields.ts';
import { GROUP_FIELDS, isRollupField } from '../store/rollups/fields.ts';
import { POINT } from '../store/rollups/points.ts';
import { answerBytes } from './answer.ts';
import { invalidParameter, one, traceQuery } from './query.ts';
import type { StatsOf, SummedStats } from './stats-sums.ts';
import { sumStats } from './stats-sums.ts';
import { STATS_METRICS, StatsText } from './stats-text.ts';
import type { StoredRequest, StoreReading } from './stored-request.ts';
import type { StepRange } from './time-range.ts';
import { DAY_MS, widenedRange } from './time-range.ts';

export const STATS_REQUEST: StoredRequest = {
  path: '/stats',
  parameters: ['from', 'to', 'step', 'group_by', 'metric', 'q', 'limit'],
  work: showStats,
};

/** The steps of points, with the range that is answered without `from`. `range` is the longest one. */
const STEPS = {
  '5m': { ms: 300_000, byDefault: HOUR_MS, range: DAY_MS },
  '1h': { ms: HOUR_MS, byDefault: DAY_MS, range: Number.POSITIVE_INFINITY },
  '1d': { ms: DAY_MS, byDefault: 30 * DAY_MS, range: Number.POSITIVE_INFINITY },
} as const;
type StepName = keyof typeof STEPS;

const MOST_GROUPS = 100;
const GROUPS_BY_DEFAULT = 20;

/** About the memory of a point. */
const POINT_BYTES = 128;

/** Numbers of traces by time, and by the values of a field. */
async function showStats(reading: StoreReading): Promise<void> {
  const { exchange, query, read, reads } = reading;
  const now = exchange.clock.now();
  const step = stepOf(query);
  const { ms, byDefault } = STEPS[step];
  const range = widenedRange(query, { now, byDefault, step: Math.min(ms, HOUR_MS) });
  const steps = stepsOf(range, step, reads.limits.stats_points);
  const groupBy = groupByOf(query);
  const metrics = metricsOf(query);
  const asked: StatsOf = {
    ...{ range, stepMs: ms, groupBy },
    query: queryOf(query, now),
    limit: limitOf(query, groupBy === null ? 1 : steps, reads.limits.stats_points),
  };
  const stats = await sumStats(reading, asked);
  read.hold(stats.points.cells.length * (POINT_BYTES / POINT.WIDTH));
  answerBytes(exchange, read, answerOf(step, asked, metrics, stats));
}

function answerOf(
  step: StepName,
  { range, groupBy }: StatsOf,
  metrics: readonly string[],
  { points, groups, leftOut, isPartial, searchedTo }: SummedStats,
): Buffer {
  const about = JSON.stringify({
    step,
    from: formatMs(range.from),
    to: formatMs(range.to),
    group_by: groupBy,
    left_out: leftOut,
    partial: isPartial,
    searched_to: searchedTo === null ? null : formatInstant(searchedTo),
  });
  const text = new StatsText(points, metrics);
  text.add(`${about.slice(0, -1)},"groups":[`);
  for (const [i, { key, from, to }] of groups.entries()) {
    text.add(`${i === 0 ? '' : ','}{"key":${JSON.stringify(key)},"points":[`);
    text.addPoints(from, to);
    text.add(']}');
  }
  text.add(']}');
  return text.bytes();
}

function stepOf(query: URLSearchParams): StepName {
  const step = one(query, 'step') ?? '1h';
  if (Object.hasOwn(STEPS, step)) return step as StepName;
  throw invalidParameter('step', `must be one of ${Object.keys(STEPS).join(', ')}`);
}

/** The number of steps. Throws a `Refusal` (400) for too many. */
function stepsOf({ from, to }: StepRange, step: StepName, most: number): number {
  const { ms, range } = STEPS[step];
  if (to - from > range) {
    throw invalidParameter('step', `${step} covers at most 24 hours; take 1h or a shorter range`);
  }
  const steps = Math.ceil((to - from) / ms);
  if (steps <= most) return steps;
  const longer = step === '1d' ? 'a shorter range' : '1d or a shorter range';
  throw invalidParameter('step', `gives ${steps} points, of at most ${most}; take ${longer}`);
}

function groupByOf(query: URLSearchParams): RollupField | null {
  const field = one(query, 'group_by');
  if (field === undefined) return null;
  if (isRollupField(field) && field !== 'all') return field;
  throw invalidParameter('group_by', `must be one of ${GROUP_FIELDS.join(', ')}`);
}

function metricsOf(query: URLSearchParams): readonly string[] {
  const text = one(query, 'metric');
  if (text === undefined) return STATS_METRICS;
  const names = text.split(',');
  if (names.every((name) => STATS_METRICS.includes(name))) return names;
  throw invalidParameter('metric', `must be a list of ${STATS_METRICS.join(', ')}`);
}

/** The number of groups. Throws a `Refusal` (400) if they could have too many points. */
function limitOf(query: URLSearchParams, steps: number, mostPoints: number): number {
  const fitting = Math.max(1, Math.floor(mostPoints / steps));
  const text = one(query, 'limit');
  if (text === undefined) return Math.min(GROUPS_BY_DEFAULT, fitting);
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MOST_GROUPS)
    throw invalidParameter('limit', `must be 1 to ${MOST_GROUPS}`);
  if (limit <= fitting) return limit;
  throw invalidParameter(
    'limit',
    `must be at most ${fitting} for ${steps} points a group; take a longer step or a shorter range`,
  );
}

function queryOf(query: URLSearchParams, now: number): Query {
  return traceQuery(new URLSearchParams({ q: one(query, 'q') ?? '' }), now);
}
