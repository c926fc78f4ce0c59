/**
 * A cache of short texts by their bytes: clients repeat the names of models and spans, and the keys of their objects, so that no string
 * is made of a known text. The table has one place per hash value; a new text evicts the old one, so its size is bounded.
 */
export const PLACES = 4096;
const MAX_BYTES = 64;

const texts: ({ readonly bytes: Uint8Array; readonly text: string } | undefined)[] = new Array(
  PLACES,
).fill(undefined);

/** The text at [start, end), which is UTF-8. */
export function repeatedTextAt(bytes: Buffer, start: number, end: number): string {
  const length = end - start;
  if (length > MAX_BYTES || length === 0) return bytes.toString('utf8', start, end);
  const at = hashPlaceOf(bytes, start, end, length);
  const place = texts[at];
  if (place !== undefined && isAt(place.bytes, bytes, start, length)) return place.text;
  const text = bytes.toString('utf8', start, end);
  texts[at] = { bytes: copyOf(bytes, start, end), text };
  return text;
}

/** A loop over a few bytes costs less than a view of them. */
export function copyOf(bytes: Buffer, start: number, end: number): Uint8Array {
  const copy = new Uint8Array(end - start);
  for (let i = 0; i < copy.length; i++) copy[i] = bytes[start + i] as number;
  return copy;
}

/** Hashes the length and a few bytes, most of them near the end, where keys differ most. */
export function hashPlaceOf(bytes: Buffer, start: number, end: number, length: number): number {
  let hash = Math.imul(length, 0x9e3779b1);
  hash = Math.imul(hash ^ (bytes[end - 1] as number), 0x85ebca6b);
  hash = Math.imul(hash ^ (bytes[start] as number), 0xc2b2ae35);
  hash = Math.imul(hash ^ (bytes[start + (length >> 1)] as number), 0x27d4eb2f);
  hash = Math.imul(hash ^ (bytes[end - 1 - (length >> 2)] as number), 0x165667b1);
  hash = Math.imul(hash ^ (bytes[start + (length >> 2)] as number), 0x9e3779b1);
  hash = Math.imul(hash ^ (bytes[end - 1 - (length >> 3)] as number), 0x85ebca6b);
  return (hash ^ (hash >>> 15)) & (PLACES - 1);
}

export function isAt(key: Uint8Array, bytes: Buffer, start: number, length: number): boolean {
  if (key.length !== length) return false;
  for (let i = 0; i < length; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}
