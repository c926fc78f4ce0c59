/** A line without its end; `bytes` is undefined if the line is too long. */
export type TextLine = { readonly number: number; readonly bytes: Buffer | undefined };

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The lines of a text, numbered from 1. Memory holds one line; a line above `maxBytes` is skipped without being
 * held. Text after the last end of line is a line too.
 */
export async function* splitLines(
  chunks: AsyncIterable<Buffer>,
  maxBytes: number,
): AsyncGenerator<TextLine> {
  const pending = new PendingLine(maxBytes);
  let number = 1;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      pending.add(chunk.subarray(start, end));
      yield { number, bytes: withoutMark(pending.take(), number) };
      number++;
      start = end + 1;
    }
    pending.add(chunk.subarray(start));
  }
  if (pending.length > 0) yield { number, bytes: withoutMark(pending.take(), number) };
}

class PendingLine {
  length = 0;
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  add(piece: Buffer): void {
    this.length += piece.length;
    if (this.length > this.#maxBytes) this.#pieces = [];
    else if (piece.length > 0) this.#pieces.push(piece);
  }

  take(): Buffer | undefined {
    const [first = Buffer.alloc(0)] = this.#pieces;
    const whole = this.#pieces.length > 1 ? Buffer.concat(this.#pieces) : first;
    const isTooLong = this.length > this.#maxBytes;
    this.#pieces = [];
    this.length = 0;
    return isTooLong ? undefined : withoutReturn(whole);
  }
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === CARRIAGE_RETURN ? line.subarray(0, -1) : line;
}

function withoutMark(line: Buffer | undefined, number: number): Buffer | undefined {
  const isMarked = number === 1 && line?.subarray(0, 3).equals(BYTE_ORDER_MARK) === true;
  return isMarked ? line?.subarray(3) : line;
}
