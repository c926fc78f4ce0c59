import { CUSTOM_FIELDS_PATHS } from '../attributes.ts';

/**
 * A key on the way to `custom_fields`: of an attribute, or of an entry of its kvlist. Readers of both encodings
 * (custom-fields-wire.ts, custom-fields-json.ts) follow it without decoding the attributes beside it.
 */
export type KeyOfFields = {
  readonly key: string;
  /** The keys to follow within its value; none if the value is `custom_fields`. */
  readonly within: readonly KeyOfFields[];
  /** The path from the attribute to `custom_fields`. */
  readonly path: string;
};

/** The four attributes that are `custom_fields`, and the four that may hold it in a kvlist. */
export const ATTRIBUTES_OF_FIELDS: readonly KeyOfFields[] = [...CUSTOM_FIELDS_PATHS].map(
  ([key, within]) => {
    const path = [key, ...within].join('.');
    const inner = within.reduceRight<readonly KeyOfFields[]>(
      (behind, key) => [{ key, within: behind, path }],
      [],
    );
    return { key, within: inner, path };
  },
);

const LENGTHS = ATTRIBUTES_OF_FIELDS.reduce((mask, { key }) => mask | (1 << key.length), 0);

/** A cheap check by length and first letter: true for all of those keys and for few others. */
export function mayHoldCustomFields(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (length > 30 || ((LENGTHS >>> length) & 1) === 0) return false;
  const first = bytes[start];
  return first === 0x63 || first === 0x65 || first === 0x6d;
}

/** The key among `keys` whose text is at [start, end). */
export function keyOfFieldsAt(
  keys: readonly KeyOfFields[],
  bytes: Buffer,
  start: number,
  end: number,
): KeyOfFields | undefined {
  // A loop allocates no closure for each of millions of attributes.
  for (const candidate of keys) {
    if (candidate.key.length === end - start && isAsciiAt(candidate.key, bytes, start)) {
      return candidate;
    }
  }
  return undefined;
}

function isAsciiAt(text: string, bytes: Buffer, start: number): boolean {
  for (let at = 0; at < text.length; at++) {
    if (bytes[start + at] !== text.charCodeAt(at)) return false;
  }
  return true;
}
