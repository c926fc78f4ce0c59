/** How the rows of a store refer to a raw batch: by its number in the file, or by its id. */
export type BatchRef = number | string;

/**
 * The order of the events of one observation: the higher version wins; among equals a terminal operation (finish,
 * error) beats a start; then the later raw event id. The order is total, so every field has the same winner in
 * whatever order the events arrive. Rows hold marks as JSON: append to the tuple, never reorder it.
 */
export type EventMark<B extends BatchRef> = readonly [
  batch: B,
  /** The position of the item in the batch's body. */
  position: number,
  version: Version,
  terminal: 0 | 1,
];

export const MARK = { BATCH: 0, POSITION: 1, VERSION: 2, TERMINAL: 3 } as const;

/** 0 to 2^64-1: a number if it is exact, else decimal digits. */
export type Version = number | string;

export function versionOf(digits: string): Version {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : digits;
}

/** `batchId` returns the id (a ULID) of a batch. Above 0 if `a` wins, 0 for the same event. */
export function compareMarks<B extends BatchRef>(
  a: EventMark<B>,
  b: EventMark<B>,
  batchId: (batch: B) => string,
): number {
  const byVersion = compareVersions(a[MARK.VERSION], b[MARK.VERSION]);
  if (byVersion !== 0) return byVersion;
  const byOperation = a[MARK.TERMINAL] - b[MARK.TERMINAL];
  if (byOperation !== 0) return byOperation;
  const batchA = a[MARK.BATCH];
  const batchB = b[MARK.BATCH];
  if (batchA === batchB) return a[MARK.POSITION] - b[MARK.POSITION];
  return batchId(batchA) > batchId(batchB) ? 1 : -1;
}

export function compareVersions(a: Version, b: Version): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  const difference = BigInt(a) - BigInt(b);
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
}
