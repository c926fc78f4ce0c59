import type { OtlpIndex } from '../../model/batch-index.ts';
import { STORED_LIMITS } from '../../model/formats.ts';
import { decodeSpansAt, encodeOtlp } from '../../model/otlp/encode.ts';
import { otlpJson } from '../../model/otlp/format.ts';
import type { LinePosition, SendRequest } from './pump.ts';

/** Some spans of a line. */
export type LineSlice = {
  readonly index: OtlpIndex;
  readonly file: string;
  readonly at: LinePosition;
  /** Positions of the spans in the line; `end` is exclusive. */
  readonly start: number;
  readonly end: number;
};

/** Scans a line. Throws a `Refusal` with the reason if it is no request in OTLP/JSON. */
export function scanLine(bytes: Buffer): OtlpIndex {
  return otlpJson.scan(bytes, STORED_LIMITS);
}

export function lineRequest(slices: readonly LineSlice[], encoding: 'proto' | 'json'): SendRequest {
  const last = slices.at(-1);
  return {
    name: nameOf(slices),
    spans: slices.reduce((sum, { start, end }) => sum + end - start, 0),
    from: slices[0]?.at,
    next: last === undefined ? undefined : positionAfter(last),
    encode: () => encode(slices, encoding),
    halves: () => halvesOf(slices).map((half) => lineRequest(half, encoding)),
  };
}

function nameOf(slices: readonly LineSlice[]): string {
  const names: string[] = [];
  for (const file of new Set(slices.map((slice) => slice.file))) {
    const lines = slices.filter((slice) => slice.file === file).map(({ at }) => at.line);
    const [from, to] = [lines[0], lines.at(-1)];
    names.push(from === to ? `${file}:${from}` : `${file}:${from}-${to}`);
  }
  return names.join(', ');
}

/** A run resumes at the start of a line; a span that is sent again is the same span. */
function positionAfter({ at, end, index }: LineSlice): LinePosition {
  return end < index.count ? at : { ...at, line: at.line + 1 };
}

function encode(slices: readonly LineSlice[], encoding: 'proto' | 'json'): Buffer {
  const [only] = slices;
  const isWhole = slices.length === 1 && only?.start === 0 && only.end === only.index.count;
  // A whole line is sent unchanged, with the fields that OTLP does not define.
  if (encoding === 'json' && isWhole) return only.index.bytes;
  const resourceSpans = slices.flatMap(({ index, start, end }) => {
    const positions = Array.from({ length: end - start }, (_, i) => start + i);
    return decodeSpansAt(index, positions).resourceSpans;
  });
  return encodeOtlp({ resourceSpans }, encoding);
}

function halvesOf(slices: readonly LineSlice[]): readonly (readonly LineSlice[])[] {
  if (slices.length > 1) {
    const middle = slices.length >> 1;
    return [slices.slice(0, middle), slices.slice(middle)];
  }
  const [only] = slices;
  if (only === undefined || only.end - only.start < 2) return [];
  const middle = (only.start + only.end) >> 1;
  return [[{ ...only, end: middle }], [{ ...only, start: middle }]];
}
