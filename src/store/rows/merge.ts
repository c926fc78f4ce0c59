import type { Cost } from '../../model/details.ts';
import { DETAIL_NAMES } from '../../model/details.ts';
import type { Instant } from '../../model/observation.ts';
import type { BatchRef, EventMark } from './event-rank.ts';
import { compareMarks, compareVersions, MARK } from './event-rank.ts';

/** The fields that events win independently, in the order of `MergedRow.values`. */
const MERGED_FIELDS = [
  'parent',
  'name',
  'kind',
  'status',
  'start',
  'end',
  'model',
  'usage',
  'session',
  'user',
  'error',
  'custom',
  'external',
  'inputs',
  'outputs',
  'events',
  'metadata',
  'context_metadata',
  ...DETAIL_NAMES,
] as const;
/** From this index on a field is a payload; its value is 1 if an event has it. */
export const FIRST_PAYLOAD = 13;
/** From this index on a field is a detail; its value is JSON. */
export const FIRST_DETAIL = MERGED_FIELDS.length - DETAIL_NAMES.length;

const COST = MERGED_FIELDS.indexOf('cost');

export type Value = string | number | Uint8Array | Instant | null;

export function isInstant(value: Value | undefined): value is Instant {
  return typeof value === 'object' && value !== null && 'ms' in value;
}

/** An observation, merged from one event or many. */
export type MergedRow<B extends BatchRef> = {
  /** Null for a field that no event has. */
  readonly values: readonly Value[];
  /** The event of each field; null if the value is null. */
  readonly marks: readonly (EventMark<B> | null)[];
  /** The event that wins against all others; its format is the format of the row. */
  readonly top: EventMark<B>;
  readonly source: number;
  readonly ended: boolean;
  readonly sentTwice: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/**
 * Takes the winner of each field; an absent value never wins. The operation is commutative, associative and idempotent,
 * so any order and any repetition of events gives the same row.
 */
export function mergeRows<B extends BatchRef>(
  a: MergedRow<B>,
  b: MergedRow<B>,
  batchId: (batch: B) => string,
): MergedRow<B> {
  const values: Value[] = [];
  const marks: (EventMark<B> | null)[] = [];
  for (let i = 0; i < MERGED_FIELDS.length; i++) {
    const markA = a.marks[i] ?? null;
    const markB = b.marks[i] ?? null;
    let takesB = markB !== null && (markA === null || compareMarks(markB, markA, batchId) > 0);
    if (i === COST) takesB = takesCostOf(a.values[i] ?? null, b.values[i] ?? null, takesB);
    values.push((takesB ? b.values[i] : a.values[i]) ?? null);
    marks.push(takesB ? markB : markA);
  }
  const topIsB = compareMarks(b.top, a.top, batchId) > 0;
  return {
    values,
    marks,
    top: topIsB ? b.top : a.top,
    source: topIsB ? b.source : a.source,
    ended: a.ended || b.ended,
    sentTwice: a.sentTwice || b.sentTwice,
    createdAt: Math.min(a.createdAt, b.createdAt),
    updatedAt: Math.max(a.updatedAt, b.updatedAt),
  };
}

/** A cost that a client sent wins against a computed one of any event. */
function takesCostOf(a: Value, b: Value, byMark: boolean): boolean {
  if (a === null || b === null) return byMark;
  const [isSentA, isSentB] = [isSent(a), isSent(b)];
  return isSentA === isSentB ? byMark : isSentB;
}

function isSent(cost: Value): boolean {
  return typeof cost === 'string' && (JSON.parse(cost) as Cost).source === 'sent';
}

/** The winning events as a row keeps them: the distinct events, and for each field the index of one (`-` for none). */
export function marksToText<B extends BatchRef>(row: MergedRow<B>): string | null {
  const events: EventMark<B>[] = [row.top];
  let fields = '';
  for (const mark of row.marks) {
    if (mark === null) {
      fields += '-';
      continue;
    }
    let at = events.findIndex((event) => isSame(event, mark));
    if (at === -1) at = events.push(mark) - 1;
    fields += at.toString(36);
  }
  return events.length === 1 ? null : JSON.stringify([fields, ...events]);
}

/** The inverse of `marksToText`; without a text every field with a value comes from `top`. */
export function marksFromText<B extends BatchRef>(
  text: string | null,
  top: EventMark<B>,
  values: readonly Value[],
): (EventMark<B> | null)[] {
  if (text === null) return values.map((value) => (value === null ? null : top));
  const [fields, ...events] = JSON.parse(text) as [string, ...EventMark<B>[]];
  return [...fields].map((at) => (at === '-' ? null : (events[Number.parseInt(at, 36)] ?? top)));
}

function isSame<B extends BatchRef>(a: EventMark<B>, b: EventMark<B>): boolean {
  return (
    a[MARK.BATCH] === b[MARK.BATCH] &&
    a[MARK.POSITION] === b[MARK.POSITION] &&
    a[MARK.TERMINAL] === b[MARK.TERMINAL] &&
    compareVersions(a[MARK.VERSION], b[MARK.VERSION]) === 0
  );
}
