/** A part of a text that patterns are searched in at a time. */
export type TextPiece = {
  readonly start: number;
  readonly end: number;
  readonly isEscaped: boolean;
  /** The piece in front of this one finds the matches that start before it. */
  readonly firstMatch: number;
};

type Text = { readonly start: number; readonly end: number; readonly isEscaped: boolean };

/** Decoding a piece to all of its forms takes a few milliseconds. */
const PIECE_BYTES = 131_072;
/** Pieces overlap by the bytes of the longest match that is found across two of them (patterns.ts), spelled with escapes of six bytes. */
const OVERLAP_BYTES = 24_576;
/** A piece may start within an escape of a further form, so that its first characters are misread. */
const UNSURE_BYTES = 128;

/** The pieces of a text, in their order; none if no pattern `isWanted`. Their edges divide neither a character nor an escape of JSON. */
export function* piecesOf(bytes: Buffer, text: Text, isWanted: boolean): Generator<TextPiece> {
  if (!isWanted) return;
  const { end, isEscaped } = text;
  let { start } = text;
  let firstMatch = start;
  while (end - start > PIECE_BYTES + OVERLAP_BYTES) {
    const next = boundaryBehind(bytes, start, start + PIECE_BYTES, isEscaped);
    yield {
      start,
      end: boundaryBehind(bytes, next, next + OVERLAP_BYTES, isEscaped),
      isEscaped,
      firstMatch,
    };
    start = next;
    firstMatch = start + UNSURE_BYTES;
  }
  yield { start, end, isEscaped, firstMatch };
}

/** The first position at or behind `wanted` that is between two characters and escapes, as `start` is. */
function boundaryBehind(bytes: Buffer, start: number, wanted: number, isEscaped: boolean): number {
  let at = wanted;
  if (isEscaped) {
    for (at = start; at < wanted; ) {
      if (bytes[at] !== BACKSLASH) at++;
      else at += bytes[at + 1] === LETTER_U ? UNICODE_ESCAPE : SHORT_ESCAPE;
    }
  }
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

const BACKSLASH = 0x5c;
const LETTER_U = 0x75;
const UNICODE_ESCAPE = 6;
const SHORT_ESCAPE = 2;
