import type { StepPage, WalkedRows } from '../rows/walked-page.ts';
import { walkedPage } from '../rows/walked-page.ts';

/** The place of a trace in listings, and the column `rollup`. */
export type ContributedRow = readonly [ms: number, ns: number, n: number, rollup: string | null];

export type ContributionStep = WalkedRows<ContributedRow>;
/** Contributions of traces, for sums that rollups do not have. */
export type ContributionPage = StepPage<ContributedTrace>;

export type ContributedTrace = {
  /** The time that orders listings, in milliseconds since the epoch. */
  readonly at: number;
  /** Its column `rollup`. The reader decodes it, so that the work counts as the reader's. */
  readonly rollup: string;
};

/** The columns of a `ContributedRow`, in its order. */
export const CONTRIBUTED_COLUMNS = 't.at_ms, t.at_ns, t.n, t.rollup';

export function contributedBytes([, , , rollup]: ContributedRow): number {
  return rollup?.length ?? 0;
}

/** Traces that have not contributed yet are left out, as rollups do not have them either. */
export function contributionPage(step: ContributionStep): ContributionPage {
  return walkedPage(step, ([at, , , rollup]) => (rollup === null ? undefined : { at, rollup }));
}
