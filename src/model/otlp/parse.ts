import type { OtlpIndex } from '../batch-index.ts';
import { decodeSafely } from '../json/decode.ts';
import type { OtlpResource, OtlpScope, OtlpSpan } from './span.ts';

/** Parses a scanned message. Integers above 2^53 become strings of digits. */
export function parseJson(index: OtlpIndex, start: number, end: number): unknown {
  const { bytes } = index;
  if (index.escapedKeys === true) return decodeSafely(bytes, start, exactNumber);
  const text = bytes.toString('utf8', start, end);
  // Quoted digits are exact in any case, so a match only costs time.
  if (!/[:[,\s]-?\d{16,}/.test(text)) return JSON.parse(text);
  return parseWithSource(text, (_key, value, context) =>
    typeof value === 'number' &&
    !Number.isSafeInteger(value) &&
    /^-?\d+$/.test(context?.source ?? '')
      ? context?.source
      : value,
  );
}

function exactNumber(text: string): number | string {
  const number = Number(text);
  return Number.isSafeInteger(number) || !/^-?\d+$/.test(text) ? number : text;
}

/** JSON.parse with source text access, which the library's types lack. */
const parseWithSource = JSON.parse as (
  text: string,
  reviver: (key: string, value: unknown, context?: { source?: string }) => unknown,
) => unknown;

export function parseSpan(index: OtlpIndex, start: number, end: number): OtlpSpan {
  return parseJson(index, start, end) as OtlpSpan;
}

/** An empty range is an absent resource or scope. */
export function parseResource(index: OtlpIndex, start: number, end: number): OtlpResource {
  return start === end ? {} : (parseJson(index, start, end) as OtlpResource);
}

export function parseScope(index: OtlpIndex, start: number, end: number): OtlpScope {
  return start === end ? {} : (parseJson(index, start, end) as OtlpScope);
}
