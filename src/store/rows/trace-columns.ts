import type { Instant } from '../../model/observation.ts';
import type { TraceFacts, TraceSummary } from './trace-summary.ts';
import type { TracePostings, TraceTerms } from './trace-terms.ts';
import type { WrittenTrace } from './written-trace.ts';

/** A trace whose summary is known. */
export type SummarizedTrace = Pick<WrittenTrace, 'n' | 'createdAt' | 'rollup'> & {
  readonly summary: TraceSummary;
  readonly terms: TraceTerms;
};

/** The time that orders listings: the start, or the arrival of a trace without one. */
export function listedAt({ summary, createdAt }: SummarizedTrace): Instant {
  return { ms: summary.startMs ?? createdAt, ns: summary.startNs ?? 0 };
}

/** The postings that belong to the row of a trace. */
export function postingsOf(trace: SummarizedTrace): TracePostings {
  return { at: listedAt(trace), terms: trace.terms.terms };
}

/** The cells of `SUMMARY_COLUMNS`. */
export function summaryCells(trace: SummarizedTrace): (string | number | null)[] {
  return SUMMARY_COLUMNS.map(({ of }) => of(trace));
}

export function isSummarized(trace: WrittenTrace): trace is WrittenTrace & SummarizedTrace {
  return trace.summary !== undefined && trace.terms !== undefined;
}

export type TraceColumn<Trace> = {
  readonly name: string;
  readonly type: 'integer' | 'bigint' | 'real' | 'text';
  readonly of: (trace: Trace) => string | number | null;
};

/**
 * The columns of `traces` that every write of a trace sets. Beside them, `stale_changes` is above 0 while the background has to make the
 * summary. Each write that leaves the summary to it sets a number that the trace did not have before: a summary is saved only if the trace
 * has the number that it had before its observations were read.
 */
export const STATE_COLUMNS = [
  { name: 'observations', type: 'integer', of: ({ count }) => count },
  { name: 'created_at', type: 'bigint', of: ({ createdAt }) => createdAt },
  { name: 'updated_at', type: 'bigint', of: ({ updatedAt }) => updatedAt },
  { name: 'key_id', type: 'text', of: ({ keyId }) => keyId },
] as const satisfies readonly TraceColumn<WrittenTrace>[];

/** The columns that a summary sets. Both stores name them so. */
export const SUMMARY_COLUMNS = [
  { name: 'at_ms', type: 'bigint', of: (trace) => listedAt(trace).ms },
  { name: 'at_ns', type: 'integer', of: (trace) => listedAt(trace).ns },
  { name: 'start_ms', type: 'bigint', of: ({ summary }) => summary.startMs },
  { name: 'start_ns', type: 'integer', of: ({ summary }) => summary.startNs },
  { name: 'end_ms', type: 'bigint', of: ({ summary }) => summary.endMs },
  { name: 'end_ns', type: 'integer', of: ({ summary }) => summary.endNs },
  { name: 'root', type: 'bigint', of: ({ summary }) => summary.root },
  { name: 'name', type: 'text', of: ({ summary }) => summary.name },
  { name: 'status', type: 'integer', of: ({ summary }) => summary.status },
  { name: 'source', type: 'integer', of: ({ summary }) => summary.source },
  { name: 'is_ended', type: 'integer', of: ({ summary }) => Number(summary.isEnded) },
  { name: 'newest_ms', type: 'bigint', of: ({ summary }) => summary.newestMs },
  { name: 'latency', type: 'real', of: ({ summary }) => summary.latency },
  { name: 'ttft', type: 'real', of: ({ summary }) => summary.ttft },
  { name: 'errors', type: 'integer', of: ({ summary }) => summary.errors },
  { name: 'session_id', type: 'text', of: ({ summary }) => summary.session },
  { name: 'user_id', type: 'text', of: ({ summary }) => summary.user },
  { name: 'environment', type: 'text', of: ({ summary }) => summary.environment },
  { name: 'release', type: 'text', of: ({ summary }) => summary.release },
  { name: 'input_tokens', type: 'bigint', of: ({ summary }) => tokens(summary, 'input_tokens') },
  { name: 'output_tokens', type: 'bigint', of: ({ summary }) => tokens(summary, 'output_tokens') },
  { name: 'tokens', type: 'bigint', of: ({ summary }) => tokens(summary, 'total_tokens') },
  { name: 'cost', type: 'bigint', of: ({ summary }) => bounded(summary.facts.cost?.total) },
  { name: 'is_skewed', type: 'integer', of: ({ summary }) => Number(summary.isSkewed) },
  { name: 'input_preview', type: 'text', of: ({ summary }) => summary.inputPreview },
  { name: 'output_preview', type: 'text', of: ({ summary }) => summary.outputPreview },
  { name: 'facts', type: 'text', of: ({ summary }) => factsToColumn(summary.facts) },
  { name: 'rollup', type: 'text', of: ({ rollup }) => rollup },
] as const satisfies readonly TraceColumn<SummarizedTrace>[];

function tokens({ facts }: TraceSummary, kind: string): number | null {
  return bounded(facts.usage?.[kind]);
}

/** The largest number below 2^63. Readers take sums as real numbers: one of many calls may exceed the safe integers. */
const LARGEST_SUM = 2 ** 63 - 1024;

function bounded(sum: number | undefined): number | null {
  return sum === undefined ? null : Math.min(sum, LARGEST_SUM);
}

function factsToColumn(facts: TraceFacts): string | null {
  return Object.keys(facts).length === 0 ? null : JSON.stringify(facts);
}
