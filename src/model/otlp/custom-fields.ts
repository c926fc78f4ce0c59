import { attributeKey } from '../attributes.ts';
import { within } from './facts.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { isNonNull } from './value.ts';

/** The four attributes that are `custom_fields`, and the four that may hold it in a kvlist. */
const WHOLE_KEYS = new Set([
  'custom_fields',
  'metadata.custom_fields',
  'extra.metadata.custom_fields',
  'context_metadata.custom_fields',
  'metadata',
  'extra',
  'extra.metadata',
  'context_metadata',
]);
const LENGTHS = [...WHOLE_KEYS].reduce((mask, key) => mask | (1 << key.length), 0);

/** A cheap check by length and first letter: true for all of those keys and for few others. */
export function mayHoldCustomFields(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (length > 30 || ((LENGTHS >>> length) & 1) === 0) return false;
  const first = bytes[start];
  return first === 0x63 || first === 0x65 || first === 0x6d;
}

/** The path of the first `custom_fields` that is neither an object nor null; undefined if all are right. */
export function wrongCustomFields(
  attributes: readonly OtlpKeyValue[] | null | undefined,
): string | undefined {
  for (const { key, value } of attributes ?? []) {
    if (key === undefined || !WHOLE_KEYS.has(key)) continue;
    for (const rule of attributeKey(key).rules) {
      if (rule.role !== 'custom_fields') continue;
      const path = rule.within ?? [];
      const found = within(value, path);
      if (found !== undefined && !isObjectOrNull(found)) return [key, ...path].join('.');
    }
  }
  return undefined;
}

function isObjectOrNull(value: OtlpValue | null): boolean {
  if (value === null) return true;
  if (value.kvlistValue !== undefined && value.kvlistValue !== null) return true;
  return !isNonNull(value);
}
