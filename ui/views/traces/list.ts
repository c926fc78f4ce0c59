import type { Trace } from '../../api/types.ts';

/** The part of a list that is there. */
type Bounds = {
  /** The beginning of its range; undefined without one. */
  readonly from: string | undefined;
  /** Further pages have the traces behind the last one. */
  readonly hasMore: boolean;
};

/**
 * Traces in the order of their start, newest first, after some of them changed. A trace that is new comes in, unless it is
 * older than the range or than the pages that are there.
 */
export function withChanged(
  traces: readonly Trace[],
  changed: readonly Trace[],
  { from, hasMore }: Bounds,
): readonly Trace[] {
  const newest = new Map(changed.map((each) => [each.id, each]));
  const kept = traces.map((each) => {
    const now = newest.get(each.id);
    newest.delete(each.id);
    return now ?? each;
  });
  const oldest = [from, hasMore ? traces.at(-1)?.start_time : undefined]
    .map((time) => Date.parse(time ?? ''))
    .filter((time) => !Number.isNaN(time));
  const added = [...newest.values()].filter((each) => startOf(each) >= Math.max(...oldest));
  if (added.length === 0) return kept;
  return [...added, ...kept].sort((a, b) => startOf(b) - startOf(a));
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
