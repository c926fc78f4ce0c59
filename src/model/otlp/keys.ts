import { type AttributeKey, attributeKey } from '../attributes.ts';
import { copyOf, hashPlaceOf, isAt, PLACES } from '../repeated-text.ts';

/**
 * A cache of attribute keys by their bytes, so that no string is made of a known key: an application has few keys and
 * repeats them with every span. The table has one place per hash value; a new key evicts the old one, so its size
 * is bounded.
 */
const MAX_KEY_BYTES = 256;

type Place = { readonly bytes: Uint8Array; readonly key: AttributeKey };
const table: (Place | undefined)[] = new Array(PLACES).fill(undefined);

export function keyAt(bytes: Buffer, start: number, end: number): AttributeKey {
  const length = end - start;
  if (length > MAX_KEY_BYTES || length === 0) return attributeKey(textAt(bytes, start, end));
  const at = hashPlaceOf(bytes, start, end, length);
  const place = table[at];
  if (place !== undefined && isAt(place.bytes, bytes, start, length)) return place.key;
  const key = attributeKey(textAt(bytes, start, end));
  table[at] = { bytes: copyOf(bytes, start, end), key };
  return key;
}

function textAt(bytes: Buffer, start: number, end: number): string {
  return bytes.toString('utf8', start, end);
}
