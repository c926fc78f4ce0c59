import type { BatchRef, EventMark } from './event-rank.ts';
import { compareMarks, compareVersions } from './event-rank.ts';

/** The fields that events win one by one, in the order of `MergedRow.values`. */
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
] as const;
/** From here on a field is a payload: its value is only that an event has it. */
export const FIRST_PAYLOAD = 13;

export type Value = string | number | Uint8Array | readonly [ms: number, ns: number] | null;

/** An observation over one event or many. */
export type MergedRow<B extends BatchRef> = {
  /** Null where no event has the field. */
  readonly values: readonly Value[];
  /** The event each field comes from; null where the value is. */
  readonly marks: readonly (EventMark<B> | null)[];
  /** The event that beats all others; its format is the row's. */
  readonly top: EventMark<B>;
  readonly source: number;
  readonly ended: boolean;
  readonly createdAt: number;
  readonly updatedAt: number;
};

/**
 * Both together: per field the winner, an absent value never. Commutative, associative and idempotent, so
 * that any order and any repetition of events gives the same row.
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
    const takesB = markB !== null && (markA === null || compareMarks(markB, markA, batchId) > 0);
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
    createdAt: Math.min(a.createdAt, b.createdAt),
    updatedAt: Math.max(a.updatedAt, b.updatedAt),
  };
}

/** The winners as kept in a row: the distinct events, and per field which of them (`-` for none). */
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

/** The inverse; without a text every field that has a value comes from `top`. */
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
  return a[0] === b[0] && a[1] === b[1] && a[3] === b[3] && compareVersions(a[2], b[2]) === 0;
}
