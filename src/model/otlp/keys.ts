import { type AttributeKey, attributeKey } from '../attributes.ts';

/**
 * A cache of attribute keys by their bytes, so that no string is made of a known key: an application has few keys and
 * repeats them with every span. The table has one place per hash value; a new key evicts the old one, so its size
 * is bounded.
 */
const PLACES = 4096;
const MAX_KEY_BYTES = 256;

type Place = { readonly bytes: Uint8Array; readonly key: AttributeKey };
const table: (Place | undefined)[] = new Array(PLACES).fill(undefined);

export function keyAt(bytes: Buffer, start: number, end: number): AttributeKey {
  const length = end - start;
  if (length > MAX_KEY_BYTES || length === 0) return attributeKey(textAt(bytes, start, end));
  const at = placeOf(bytes, start, end, length);
  const place = table[at];
  if (place !== undefined && isAt(place.bytes, bytes, start, length)) return place.key;
  const key = attributeKey(textAt(bytes, start, end));
  table[at] = { bytes: Uint8Array.from(bytes.subarray(start, end)), key };
  return key;
}

/** Hashes the length and a few bytes, most of them near the end, where keys differ most. */
function placeOf(bytes: Buffer, start: number, end: number, length: number): number {
  let hash = Math.imul(length, 0x9e3779b1);
  hash = Math.imul(hash ^ (bytes[end - 1] as number), 0x85ebca6b);
  hash = Math.imul(hash ^ (bytes[start] as number), 0xc2b2ae35);
  hash = Math.imul(hash ^ (bytes[start + (length >> 1)] as number), 0x27d4eb2f);
  hash = Math.imul(hash ^ (bytes[end - 1 - (length >> 2)] as number), 0x165667b1);
  hash = Math.imul(hash ^ (bytes[start + (length >> 2)] as number), 0x9e3779b1);
  hash = Math.imul(hash ^ (bytes[end - 1 - (length >> 3)] as number), 0x85ebca6b);
  return (hash ^ (hash >>> 15)) & (PLACES - 1);
}

function isAt(key: Uint8Array, bytes: Buffer, start: number, length: number): boolean {
  if (key.length !== length) return false;
  for (let i = 0; i < length; i++) if (key[i] !== bytes[start + i]) return false;
  return true;
}

function textAt(bytes: Buffer, start: number, end: number): string {
  return bytes.toString('utf8', start, end);
}

const texts: ({ readonly bytes: Uint8Array; readonly text: string } | undefined)[] = new Array(
  PLACES,
).fill(undefined);

/** Text that often repeats, such as the name of a model or span, from a cache like that of the keys. */
export function repeatedTextAt(bytes: Buffer, start: number, end: number): string {
  const length = end - start;
  if (length > 64 || length === 0) return textAt(bytes, start, end);
  const at = placeOf(bytes, start, end, length);
  const place = texts[at];
  if (place !== undefined && isAt(place.bytes, bytes, start, length)) return place.text;
  const text = textAt(bytes, start, end);
  texts[at] = { bytes: Uint8Array.from(bytes.subarray(start, end)), text };
  return text;
}
