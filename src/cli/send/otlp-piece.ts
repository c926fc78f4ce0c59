import type { OtlpIndex } from '../../model/batch-index.ts';
import { STORED_LIMITS } from '../../model/formats.ts';
import { decodeSpansAt, encodeOtlp } from '../../model/otlp/encode.ts';
import { otlpJson } from '../../model/otlp/format.ts';
import type { Piece, Position } from './piece.ts';

/** Some spans of a line. */
export type Part = {
  readonly index: OtlpIndex;
  readonly file: string;
  readonly at: Position;
  /** Positions in the line: from `start` up to, but without, `end`. */
  readonly start: number;
  readonly end: number;
};

/** A line's spans, all of them. Throws a `Refusal` that says what is wrong with it. */
export function readLine(bytes: Buffer): OtlpIndex {
  return otlpJson.scan(bytes, STORED_LIMITS);
}

export function otlpPiece(parts: readonly Part[], encoding: 'proto' | 'json'): Piece {
  const [first] = parts;
  const last = parts.at(-1);
  return {
    name: nameOf(parts),
    spans: parts.reduce((sum, { start, end }) => sum + end - start, 0),
    from: first?.at,
    next: last === undefined ? undefined : afterPart(last),
    encode: () => encode(parts, encoding),
    halves: () => halvesOf(parts).map((half) => otlpPiece(half, encoding)),
  };
}

function nameOf(parts: readonly Part[]): string {
  const names: string[] = [];
  for (const file of new Set(parts.map((part) => part.file))) {
    const lines = parts.filter((part) => part.file === file).map(({ at }) => at.line);
    const [from, to] = [lines[0], lines.at(-1)];
    names.push(from === to ? `${file}:${from}` : `${file}:${from}-${to}`);
  }
  return names.join(', ');
}

/** A line of which more is to come is begun anew: what is sent twice is the same span. */
function afterPart({ at, end, index }: Part): Position {
  return end < index.count ? at : { ...at, line: at.line + 1 };
}

function encode(parts: readonly Part[], encoding: 'proto' | 'json'): Buffer {
  const [only] = parts;
  const isWhole = parts.length === 1 && only?.start === 0 && only.end === only.index.count;
  // A whole line leaves as it came, with fields that nobody here knows.
  if (encoding === 'json' && isWhole) return only.index.bytes;
  const resourceSpans = parts.flatMap(({ index, start, end }) => {
    const positions = Array.from({ length: end - start }, (_, i) => start + i);
    return decodeSpansAt(index, positions).resourceSpans;
  });
  return encodeOtlp({ resourceSpans }, encoding);
}

function halvesOf(parts: readonly Part[]): readonly (readonly Part[])[] {
  if (parts.length > 1) {
    const middle = parts.length >> 1;
    return [parts.slice(0, middle), parts.slice(middle)];
  }
  const [only] = parts;
  if (only === undefined || only.end - only.start < 2) return [];
  const middle = (only.start + only.end) >> 1;
  return [[{ ...only, end: middle }], [{ ...only, start: middle }]];
}
