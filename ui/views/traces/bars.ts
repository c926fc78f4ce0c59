import type { Stats } from '../../api/types.ts';
import type { Step } from '../../state/range.ts';
import { STEP_MS } from '../../state/range.ts';

/** A bar of the histogram. */
export type Bar = {
  /** Its beginning, milliseconds. */
  readonly at: number;
  readonly traces: number;
  readonly failed: number;
};

type Span = { readonly from: number; readonly to: number; readonly step: Step };

/** A bar for each step of the span, from counts that are grouped by status. */
export function barsIn(
  { groups }: Pick<Stats, 'groups'>,
  { from, to, step }: Span,
): readonly Bar[] {
  const size = STEP_MS[step];
  const bars = Array.from({ length: Math.max(1, Math.ceil((to - from) / size)) }, (_, index) => ({
    at: from + index * size,
    traces: 0,
    failed: 0,
  }));
  for (const { key, points } of groups) {
    for (const { time, traces = 0 } of points) {
      const bar = bars[Math.floor((Date.parse(time) - from) / size)];
      if (bar === undefined) continue;
      bar.traces += traces;
      if (key === 'error') bar.failed += traces;
    }
  }
  return bars;
}

/** Bars that a person marks, by their index: from the first one to the one that a pointer or a key moves. */
export type Marked = { readonly from: number; readonly to: number };

/** The bars that are marked after a key; undefined if the key does nothing. `isExtended` keeps the first one. */
export function markedBy(
  key: string,
  before: Marked | undefined,
  { count, isExtended }: { readonly count: number; readonly isExtended: boolean },
): Marked | undefined {
  const last = count - 1;
  const at = before?.to ?? count;
  const targets: Readonly<Record<string, number>> = {
    ...{ ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1 },
    ...{ Home: 0, End: last },
  };
  const target = targets[key];
  if (target === undefined || count === 0) return undefined;
  const to = Math.min(Math.max(target, 0), last);
  return { from: isExtended && before !== undefined ? before.from : to, to };
}

/** The range from one bar to another, both inclusive, in any order. */
export function selectionOf(
  bars: readonly Bar[],
  one: number,
  other: number,
  step: number,
): { readonly from: string; readonly to: string } | undefined {
  const first = bars[Math.min(one, other)];
  const last = bars[Math.max(one, other)];
  if (first === undefined || last === undefined) return undefined;
  return { from: new Date(first.at).toISOString(), to: new Date(last.at + step).toISOString() };
}
