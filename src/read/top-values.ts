import type { RollupField } from '../store/rollups/fields.ts';
import { DAY } from '../store/rollups/fold.ts';
import type { FacetPart, Hours } from '../store/rollups/reading.ts';
import { byUse } from '../store/rollups/reading.ts';
import type { StoreReading } from './stored-request.ts';
import { SHARE_OF_SUMS } from './walk.ts';

/** `values`: null if there are no more than wanted. */
export type TopValues = { readonly values: readonly string[] | null; readonly leftOut: number };

type TopAsked = {
  readonly field: RollupField;
  readonly hours: Hours;
  /** Whether the points are those of hours. */
  readonly isByHour: boolean;
  readonly limit: number;
};

/** Hours of a part. Rows of hours cover it, since no whole day fits into it. */
const PART_HOURS = DAY / 2;
/** About the memory of a value and its count, beside the text. */
const VALUE_BYTES = 200;

/**
 * The most used values, if there are more than wanted: the rows of the others are not read.
 *
 * Whole days are counted by the rows of days. A day names only the first values that it had, and an hour of it may name others, which can
 * be the most used ones. So points of hours count such values by the rows of hours, newest first, as far as the work for sums allows.
 */
export async function topValues(reading: StoreReading, asked: TopAsked): Promise<TopValues> {
  const { field, hours, isByHour, limit } = asked;
  const ofDays = await partOf(reading, field, hours, limit);
  // A day that has values without a row of their own has many with one.
  if (ofDays.left === 0) return ALL;
  if (!isByHour || ofDays.others === 0 || hours.to - hours.from < DAY) {
    return { values: ofDays.values.map(([value]) => value), leftOut: ofDays.left };
  }
  const counts = await countByHour(reading, field, hours);
  if (counts.size <= limit) return ALL;
  const top = [...counts].sort(byUse).slice(0, limit);
  return { values: top.map(([value]) => value), leftOut: counts.size - limit };
}

const ALL: TopValues = { values: null, leftOut: 0 };

/** The traces of each value. */
async function countByHour(
  reading: StoreReading,
  field: RollupField,
  { from, to }: Hours,
): Promise<ReadonlyMap<string, number>> {
  const { read, reads } = reading;
  const counts = new Map<string, number>();
  let bytes = 0;
  let left = reads.limits.page_time * SHARE_OF_SUMS;
  for (let end = to; end > from; ) {
    const begin = left > 0 ? Math.max(from, end - PART_HOURS) : from;
    const part = await partOf(reading, field, { from: begin, to: end });
    for (const [value, traces] of part.values) {
      const known = counts.get(value);
      if (known === undefined) bytes += VALUE_BYTES + value.length;
      counts.set(value, (known ?? 0) + traces);
    }
    read.hold(bytes);
    left -= part.spentMs;
    end = begin;
  }
  return counts;
}

function partOf(
  { store, tenant, read }: StoreReading,
  field: RollupField,
  hours: Hours,
  most?: number,
): Promise<FacetPart> {
  const asked = { field, hours, prefix: '', ...(most === undefined ? {} : { most }) };
  return read.turn(() => store.rollups.facet(tenant.projectId, asked));
}
