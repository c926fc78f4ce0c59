import type { Trace } from '../../api/types.ts';

/** The part of a list that is there. */
type Bounds = {
  /** The beginning of its range; undefined without one. */
  readonly from: string | undefined;
  /** Further pages have the traces behind the last one. */
  readonly hasMore: boolean;
};

/** A trace after its change; undefined if it has left the list. Later changes have greater numbers. */
export type Change = {
  readonly id: string;
  readonly number: number;
  readonly trace: Trace | undefined;
};

type Listing = { readonly isByTime: boolean; readonly limit: number };

/**
 * Whether the next page may follow one that ended early with so many traces, without a person. A list by a value is in parts then, and
 * only the last page of a part is short: the next part begins the order again, and a person should see where.
 */
export function goesOn(found: number, { isByTime, limit }: Listing): boolean {
  return isByTime ? found > 0 : found >= limit;
}

/** Changes of a list, each trace once, the newest one last. */
export type Changes = {
  readonly kept: readonly Change[];
  /** The number of the newest change that is not kept, because there were too many; 0 if none was. */
  readonly lost: number;
};

export const NO_CHANGES: Changes = { kept: [], lost: 0 };

/** A list that cannot be read again keeps the newest changes. */
const MOST_CHANGES = 2_000;

/**
 * The newest change of each trace. One that left matters only if `mayList`: a query that finds few traces of a busy project gets
 * many of them.
 */
export function gathered(
  before: Changes,
  news: readonly Change[],
  mayList: (id: string) => boolean,
): Changes {
  const newest = new Map(before.kept.map((each) => [each.id, each]));
  for (const each of news) {
    newest.delete(each.id);
    if (each.trace !== undefined || mayList(each.id)) newest.set(each.id, each);
  }
  const all = [...newest.values()];
  const lost = all.at(-1 - MOST_CHANGES)?.number ?? before.lost;
  return { kept: all.slice(-MOST_CHANGES), lost };
}

/**
 * Traces in the order of their start, newest first, after some of them changed. A trace that is new comes in, unless it is
 * older than the range or than the pages that are there.
 */
export function withChanged(
  traces: readonly Trace[],
  changes: readonly Change[],
  { from, hasMore }: Bounds,
): readonly Trace[] {
  const ids = new Set(traces.map(({ id }) => id));
  const newest = new Map(changes.map(({ id, trace }) => [id, trace]));
  const kept = traces.flatMap((each) => (newest.has(each.id) ? (newest.get(each.id) ?? []) : each));
  const oldest = [from, hasMore ? traces.at(-1)?.start_time : undefined]
    .map((time) => Date.parse(time ?? ''))
    .filter((time) => !Number.isNaN(time));
  const added = [...newest.values()]
    .filter((each) => each !== undefined)
    .filter((each) => !ids.has(each.id) && startOf(each) >= Math.max(...oldest));
  if (added.length === 0) return kept;
  const places = placesOf(kept, added);
  const placeOf = ({ id }: Trace): number => places.get(id) ?? 0;
  return [...added.toReversed(), ...kept].sort((a, b) => placeOf(b) - placeOf(a));
}

/**
 * The time by which each trace has its place. One without a start is listed by its arrival, which no answer has: in the list it was later
 * than the start of the next trace, and of the added ones, the newest last, later than those before it.
 */
function placesOf(kept: readonly Trace[], added: readonly Trace[]): ReadonlyMap<string, number> {
  const places = new Map<string, number>();
  let next = Number.NEGATIVE_INFINITY;
  for (const each of kept.toReversed()) {
    if (each.start_time !== null) next = startOf(each);
    places.set(each.id, next);
  }
  let newest = Math.max(Number.NEGATIVE_INFINITY, ...places.values());
  for (const each of added) {
    const place = each.start_time === null ? newest : startOf(each);
    places.set(each.id, place);
    newest = Math.max(newest, place);
  }
  return places;
}

/** The traces of a range that begins at `from`. One without a start is listed by its arrival, and stays. */
export function withoutOlder(traces: readonly Trace[], from: string | undefined): readonly Trace[] {
  if (from === undefined) return traces;
  const oldest = Date.parse(from);
  return traces.filter((each) => startOf(each) >= oldest);
}

function startOf({ start_time }: Trace): number {
  const at = Date.parse(start_time ?? '');
  // A trace without a start is listed by its arrival, which is now.
  return Number.isNaN(at) ? Number.POSITIVE_INFINITY : at;
}

/** The pages of a list as one; a trace that moved between two requests is there once. */
export function joined(before: readonly Trace[], page: readonly Trace[]): readonly Trace[] {
  const ids = new Set(before.map(({ id }) => id));
  return [...before, ...page.filter(({ id }) => !ids.has(id))];
}
