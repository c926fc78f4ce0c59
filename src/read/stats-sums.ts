import type { Instant } from '../model/observation.ts';
import { HOUR_MS } from '../model/usage-window.ts';
import type { Query, QueryTerm } from '../query/query.ts';
import type { RollupChange } from '../store/rollups/contribution.ts';
import { changesOfField } from '../store/rollups/contribution.ts';
import type { RollupField } from '../store/rollups/fields.ts';
import {
  isRollupField,
  MAX_ROLLUP_VALUE,
  OBSERVATION_FIELDS,
  ROLLUP_FIELDS,
} from '../store/rollups/fields.ts';
import type { PackedPoints } from '../store/rollups/points.ts';
import { POINT, PointSums } from '../store/rollups/points.ts';
import type { FacetCount } from '../store/rollups/reading.ts';
import { byUse } from '../store/rollups/reading.ts';
import type { StoreReading } from './stored-request.ts';
import type { StepRange } from './time-range.ts';
import { hoursOf } from './time-range.ts';
import { topValues } from './top-values.ts';
import { walkStarted } from './walk.ts';

export type StatsOf = {
  readonly range: StepRange;
  readonly stepMs: number;
  readonly groupBy: RollupField | null;
  readonly query: Query;
  /** The most groups. */
  readonly limit: number;
};

export type SummedStats = {
  readonly points: PackedPoints;
  /** Groups with more traces first, the one of all other values last. */
  readonly groups: readonly StatsGroup[];
  /** Groups beyond the limit. */
  readonly leftOut: number;
  readonly isPartial: boolean;
  readonly searchedTo: Instant | null;
};
/** The points from one index to another, which is exclusive. */
type StatsGroup = { readonly key: string | null; readonly from: number; readonly to: number };

/** About the memory of a point. */
const POINT_BYTES = 400;

/**
 * From rollups without a query, and for one term on a field of rollups; from the traces otherwise:
 *
 *   no term, or field:value ── hours, days ─▶ rollups ── a value without a row of its own ─┐
 *   any other query, or 5 minutes ────────────────────────▶ traces, within the budget ◀────┘
 */
export async function sumStats(reading: StoreReading, asked: StatsOf): Promise<SummedStats> {
  const filter = filterOf(asked);
  if (asked.stepMs >= HOUR_MS && filter !== undefined) {
    const found = await fromRollups(reading, asked, filter);
    if (found !== undefined) return found;
  }
  return fromTraces(reading, asked, filter);
}

/** The values that a query is about; null for all of the field. */
type Filter = { readonly field: RollupField; readonly values: readonly string[] | null };

/** Undefined for a query that is not about the values of one field with rollups. */
function filterOf({ query: { terms }, groupBy }: StatsOf): Filter | undefined {
  const [first, ...more] = terms;
  if (first === undefined) return { field: groupBy ?? 'all', values: null };
  const filter = more.length === 0 ? equalityIn(first) : undefined;
  if (filter === undefined || (groupBy !== null && groupBy !== filter.field)) return undefined;
  // A trace that has several of the values would count several times.
  if (isOfObservations(filter.field) && groupBy === null && filter.values.length > 1) {
    return undefined;
  }
  return filter;
}

type Equality = Filter & { readonly values: readonly string[] };

function equalityIn(term: QueryTerm): Equality | undefined {
  if (term.type !== 'values' || term.negated) return undefined;
  const { field, values } = term;
  if (!isRollupField(field)) return undefined;
  const isNamed = values.every(
    ({ text, isPrefix }) => !isPrefix && text.length <= MAX_ROLLUP_VALUE,
  );
  return isNamed ? { field, values: values.map(({ text }) => text) } : undefined;
}

function isOfObservations(field: RollupField): boolean {
  return OBSERVATION_FIELDS.some((one) => one === field);
}

/** Undefined if a wanted value may be counted without its text. */
async function fromRollups(
  reading: StoreReading,
  { range, stepMs, groupBy, limit }: StatsOf,
  { field, values }: Filter,
): Promise<SummedStats | undefined> {
  const { store, tenant, read } = reading;
  const hours = hoursOf(range);
  const isByHour = stepMs === HOUR_MS;
  const top =
    groupBy === null || values !== null
      ? null
      : await topValues(reading, { field, hours, isByHour, limit });
  const { points, isIncomplete } = await read.turn(() =>
    store.rollups.stats(tenant.projectId, {
      ...{ field, hours, isGrouped: groupBy !== null, step: stepMs / HOUR_MS },
      values: values ?? top?.values ?? null,
      isFiltered: values !== null,
    }),
  );
  if (values !== null && isIncomplete) return undefined;
  const { groups, leftOut } = grouped(points, limit);
  return {
    ...{ points, groups, leftOut: leftOut + (top?.leftOut ?? 0) },
    ...{ isPartial: false, searchedTo: null },
  };
}

async function fromTraces(
  reading: StoreReading,
  { query, range, stepMs, groupBy, limit }: StatsOf,
  filter: Filter | undefined,
): Promise<SummedStats> {
  const { store, tenant } = reading;
  const sums = new PointSums(stepMs);
  const field = groupBy ?? filter?.field ?? 'all';
  const pick = pickOf(groupBy, field, filter?.values ?? null);
  const walked = await walkStarted(
    reading,
    { query, range },
    (filter) => store.rollups.listContributions(tenant.projectId, filter),
    ({ at, rollup }) => {
      for (const change of changesOfField(rollup, field)) {
        const key = pick(change);
        if (key !== undefined) sums.add(key, at, change[NUMBERS], change[LATENCIES]);
      }
      return sums.size * POINT_BYTES;
    },
  );
  const points = sums.points();
  return { points, ...grouped(points, limit), ...walked };
}

/** Indexes of the parts of a `RollupChange`. */
const NUMBERS = 3;
const LATENCIES = 4;

/** The group that a change of a trace counts for; undefined for none. The numbers are those that rollups have. */
function pickOf(
  groupBy: RollupField | null,
  field: RollupField,
  values: readonly string[] | null,
): (change: RollupChange) => string | null | undefined {
  const number = ROLLUP_FIELDS[field];
  return ([, of, value]) => {
    if (of === -number && of !== 0) return groupBy === null || values !== null ? undefined : null;
    if (of !== number || (values !== null && !values.includes(value))) return undefined;
    return groupBy === null ? null : value;
  };
}

/** Groups with more traces first; those beyond the limit are left out. */
function grouped(
  { keys, ends, cells }: PackedPoints,
  limit: number,
): Pick<SummedStats, 'groups' | 'leftOut'> {
  const named: [...FacetCount, group: StatsGroup][] = [];
  const rest: StatsGroup[] = [];
  for (const [i, key] of keys.entries()) {
    const group = { key, from: ends[i - 1] ?? 0, to: ends[i] ?? 0 };
    if (key === null) rest.push(group);
    else named.push([key, tracesIn(cells, group), group]);
  }
  const shown = named.sort(byUse).slice(0, limit);
  const groups = [...shown.map(([, , group]) => group), ...rest];
  return { groups, leftOut: named.length - shown.length };
}

function tracesIn(cells: PackedPoints['cells'], { from, to }: StatsGroup): number {
  let traces = 0;
  for (let i = from; i < to; i++) traces += cells[i * POINT.WIDTH + POINT.TRACES] ?? 0;
  return traces;
}
