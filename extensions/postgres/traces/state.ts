import { sumsOf, sumsToText, TraceState } from '../../../src/store/rows/trace-sums.ts';
import type { Cell } from './cells.ts';
import { fromStoredText, toStoredText } from './cells.ts';

/** The columns of what a trace sums up, in this order, with the types of their arrays. */
export const TRACE_CELLS = [
  ['n', 'bigint'],
  ['at_ms', 'bigint'],
  ['at_ns', 'integer'],
  ['start_ms', 'bigint'],
  ['start_ns', 'integer'],
  ['end_ms', 'bigint'],
  ['end_ns', 'integer'],
  ['root', 'bigint'],
  ['root_has_parent', 'smallint'],
  ['root_ms', 'bigint'],
  ['root_ns', 'integer'],
  ['name', 'text'],
  ['status', 'smallint'],
  ['observations', 'integer'],
  ['model_usage', 'text'],
  ['other_usage', 'text'],
  ['created_at', 'bigint'],
  ['updated_at', 'bigint'],
] as const;

export function traceCells(trace: TraceState): Cell[] {
  const { rootKey } = trace;
  return [
    trace.n,
    trace.startMs ?? trace.createdAt,
    trace.startNs ?? 0,
    trace.startMs,
    trace.startNs,
    trace.endMs,
    trace.endNs,
    trace.root,
    rootKey?.[0] ?? null,
    rootKey?.[1] ?? null,
    rootKey?.[2] ?? null,
    trace.name === null ? null : toStoredText(trace.name),
    trace.status,
    trace.count,
    textOf(sumsToText(trace.modelUsage)),
    textOf(sumsToText(trace.otherUsage)),
    trace.createdAt,
    trace.updatedAt,
  ];
}

function ofText(cell: Cell | undefined): string | null {
  return typeof cell === 'string' ? fromStoredText(cell) : null;
}

function textOf(text: string | null): string | null {
  return text === null ? null : toStoredText(text);
}

/** The inverse of `traceCells`; a new one each time, because it changes. */
export function traceStateOf(cells: readonly Cell[]): TraceState {
  const numbers = cells.map((cell) => (cell === null ? null : Number(cell)));
  const trace = new TraceState(Number(cells[0]), Number(cells[16]));
  trace.seen(Number(cells[17]));
  trace.startMs = numbers[3] ?? null;
  trace.startNs = numbers[4] ?? null;
  trace.endMs = numbers[5] ?? null;
  trace.endNs = numbers[6] ?? null;
  trace.root = numbers[7] ?? null;
  const hasParent = numbers[8] === 1 ? 1 : 0;
  if (trace.root !== null)
    trace.rootKey = [hasParent, numbers[9] ?? 0, numbers[10] ?? 0, trace.root];
  trace.name = ofText(cells[11]);
  trace.status = numbers[12] ?? null;
  trace.count = numbers[13] ?? 0;
  trace.modelUsage = sumsOf(ofText(cells[14]));
  trace.otherUsage = sumsOf(ofText(cells[15]));
  return trace;
}
