import type { TraceSummary } from './trace-summary.ts';
import type { TracePostings, TraceTerms } from './trace-terms.ts';

/** A larger trace is summarized in the background, so that no write reads it whole. */
export const MAX_SUMMARIZED = 500;

/** A trace during a write. */
export class WrittenTrace {
  readonly n: number;
  /** The trace's first and newest event, in milliseconds since the epoch. */
  createdAt: number;
  updatedAt: number;
  /** The id of the API key that sent the first event. */
  keyId: string | null = null;
  count = 0;
  /** The summary of its observations; undefined if it has to be made in the background. */
  summary: TraceSummary | undefined = undefined;
  /** The contribution to the rollups (`src/store/rollups/contribution.ts`) as it is stored; null before the first one. */
  rollup: string | null = null;
  /** The terms of the summary. */
  terms: TraceTerms | undefined = undefined;
  /** The postings that the store has; null for a trace of an earlier version, which has none. */
  postings: TracePostings | null = null;

  constructor(n: number, at: number) {
    this.n = n;
    this.createdAt = at;
    this.updatedAt = at;
  }

  /** An event of the trace was received. */
  seen(at: number, keyId: string | null): void {
    if (keyId !== null && (this.keyId === null || at < this.createdAt)) this.keyId = keyId;
    if (at < this.createdAt) this.createdAt = at;
    if (at > this.updatedAt) this.updatedAt = at;
  }
}
