import type { Trace } from '../../api/types.ts';

/** Traces in the order of their start, newest first, after some of them changed. A trace that is new comes in. */
export function withChanged(traces: readonly Trace[], changed: readonly Trace[]): readonly Trace[] {
  const newest = new Map(changed.map((each) => [each.id, each]));
  const kept = traces.map((each) => {
    const now = newest.get(each.id);
    newest.delete(each.id);
    return now ?? each;
  });
  if (newest.size === 0) return kept;
  return [...newest.values(), ...kept].sort((a, b) => startOf(b) - startOf(a));
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
