import type { LinePage } from '../store.ts';
import type { Place } from './place.ts';
import { cursorOf } from './place.ts';

/** The JSON of an observation. */
export type LineRow = {
  readonly line: string;
  /** The index of its trace among those that were asked for. */
  readonly trace: number;
  readonly place: Place;
};

/** Lines as bytes and numbers, which move between threads without a copy. */
export type PackedLines = {
  readonly text: Uint8Array<ArrayBuffer>;
  /** The cells of `CELL`, for each line. Places in time need more than 32 bits. */
  readonly cells: Float64Array<ArrayBuffer>;
  readonly hasMore: boolean;
};

const CELL = { END: 0, TRACE: 1, MS: 2, NS: 3, N: 4, WIDTH: 5 } as const;
const LINE_END = 0x0a;
/** Bytes of a page of lines: more than those of a page of rows, since lines are bytes, and 500 usual ones are to fit. */
export const LINES_BYTES = 1_048_576;
/** About the bytes of a line, for the first size of the memory of a page. */
const USUAL_BYTES = 1024;
/** The most bytes of a character (UTF-16 unit) in UTF-8. */
const CHARACTER_BYTES = 3;

/**
 * Takes lines up to the limit and about `LINES_BYTES`, and at least one. The iterator has one line beyond the limit, if there is one. A line becomes
 * bytes before the next one is made, so that what it is made of is garbage at once.
 */
export function packLines(lines: Iterable<LineRow>, limit: number): PackedLines {
  let text = Buffer.allocUnsafeSlow(Math.min(limit * USUAL_BYTES, LINES_BYTES));
  const cells: number[] = [];
  let end = 0;
  let hasMore = false;
  for (const { line, trace, place } of lines) {
    const isFull = cells.length > 0 && end + line.length > LINES_BYTES;
    if (isFull || cells.length === limit * CELL.WIDTH) {
      hasMore = true;
      break;
    }
    text = withRoom(text, end, line.length * CHARACTER_BYTES + 1);
    end += text.write(line, end);
    text[end++] = LINE_END;
    cells.push(end, trace, place.ms, place.ns, place.n);
  }
  // A message moves bytes only if they are all of their buffer.
  const bytes = new Uint8Array(text.buffer.transfer(end));
  return { text: bytes, cells: Float64Array.from(cells), hasMore };
}

function withRoom(text: Buffer<ArrayBuffer>, end: number, bytes: number): Buffer<ArrayBuffer> {
  if (end + bytes <= text.length) return text;
  const larger = Buffer.allocUnsafeSlow(Math.max(text.length * 2, end + bytes));
  text.copy(larger, 0, 0, end);
  return larger;
}

/** The lines of some traces, as a page. */
export function linePage(
  { text, cells, hasMore }: PackedLines,
  traceIds: readonly string[],
): LinePage {
  const count = cells.length / CELL.WIDTH;
  const cellOf = (line: number, cell: number): number => cells[line * CELL.WIDTH + cell] ?? 0;
  const cursorAfter = (line: number): string => {
    if (line < 0 || line >= count) throw new RangeError(`the page has no line ${line}`);
    return cursorOf({
      ...{ ms: cellOf(line, CELL.MS), ns: cellOf(line, CELL.NS), n: cellOf(line, CELL.N) },
    });
  };
  return {
    text,
    items: Array.from({ length: count }, (_, line) => ({
      traceId: traceIds[cellOf(line, CELL.TRACE)] ?? '',
      end: cellOf(line, CELL.END),
    })),
    nextCursor: hasMore ? cursorAfter(count - 1) : null,
    cursorAfter,
  };
}
