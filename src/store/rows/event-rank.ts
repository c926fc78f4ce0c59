/** What a row says in place of a raw batch's id: its number in the file, or the id itself. */
export type BatchRef = number | string;

/**
 * How events of one observation are ordered: the higher version wins; among equals a terminal operation
 * (finish, error) beats a start; then the later raw event id. A total order, so that the winner of every
 * field is the same whatever order the events came in.
 */
export type EventMark<B extends BatchRef> = readonly [
  /** The raw batch as the store refers to it. */
  batch: B,
  /** Position of the item in its body. */
  position: number,
  version: Version,
  terminal: 0 | 1,
];

/** 0 to 2^64-1: a number where it is exact, else decimal digits. */
export type Version = number | string;

export function versionOf(digits: string): Version {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : digits;
}

/** `batchId` gives the id (a ULID) of a batch. Above 0 when `a` wins, 0 for the same event. */
export function compareMarks<B extends BatchRef>(
  a: EventMark<B>,
  b: EventMark<B>,
  batchId: (batch: B) => string,
): number {
  const byVersion = compareVersions(a[2], b[2]);
  if (byVersion !== 0) return byVersion;
  if (a[3] !== b[3]) return a[3] - b[3];
  if (a[0] === b[0]) return a[1] - b[1];
  return batchId(a[0]) > batchId(b[0]) ? 1 : -1;
}

export function compareVersions(a: Version, b: Version): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  const difference = BigInt(a) - BigInt(b);
  return difference > 0n ? 1 : difference < 0n ? -1 : 0;
}
