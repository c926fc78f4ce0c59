import type { Stats } from '../../api/types.ts';
import type { Marked } from '../../parts/marks.ts';
import { endsOf } from '../../parts/marks.ts';
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

/** The range from one bar to another, both inclusive, in any order. */
export function selectionOf(
  bars: readonly Bar[],
  marked: Marked,
  step: number,
): { readonly from: string; readonly to: string } | undefined {
  const [first, last] = endsOf(marked).map((index) => bars[index]);
  if (first === undefined || last === undefined) return undefined;
  return { from: new Date(first.at).toISOString(), to: new Date(last.at + step).toISOString() };
}
