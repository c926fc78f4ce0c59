import type { OtlpIndex } from '../batch-index.ts';
import { decodeSafely } from '../json/decode.ts';
import { QUOTE } from '../json/grammar.ts';
import type { OtlpResource, OtlpScope, OtlpSpan } from './span.ts';

/** Parses a scanned message. Integers above 2^53 become strings of digits. */
export function parseJson(index: OtlpIndex, start: number, end: number): unknown {
  const { bytes } = index;
  // JSON.parse with a reviver, which gets the digits of numbers, takes ten times as long as this.
  if (index.escapedKeys === true || hasLongNumber(bytes, start, end)) {
    return decodeSafely(bytes, start, exactNumber);
  }
  return JSON.parse(bytes.toString('utf8', start, end));
}

/** Digits that may be above 2^53. */
const LONG = 16;

/**
 * Whether a number has 16 digits in a row; a quoted one is exact in any case. Hot path: a regular expression costs six times as much. A run
 * of 16 digits has one in every sixteenth place.
 */
function hasLongNumber(bytes: Buffer, start: number, end: number): boolean {
  for (let at = start + LONG - 1; at < end; at += LONG) {
    if (!isDigit(bytes[at])) continue;
    let first = at;
    while (first > start && isDigit(bytes[first - 1])) first--;
    let last = at;
    while (last < end - 1 && isDigit(bytes[last + 1])) last++;
    if (last - first >= LONG - 1 && bytes[first - 1] !== QUOTE) return true;
    at = last;
  }
  return false;
}

function isDigit(byte = 0): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function exactNumber(text: string): number | string {
  const number = Number(text);
  return Number.isSafeInteger(number) || !/^-?\d+$/.test(text) ? number : text;
}

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
