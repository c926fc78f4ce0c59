import type { LinePage } from '../store.ts';
import type { FoundRows } from './page.ts';
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
const LINE_END = '\n';

export function packLines({ rows, hasMore }: FoundRows<LineRow>): PackedLines {
  let joined = '';
  for (const { line } of rows) joined += line + LINE_END;
  const text = new TextEncoder().encode(joined);
  const isAscii = text.length === joined.length;
  const cells = new Float64Array(rows.length * CELL.WIDTH);
  let end = 0;
  for (const [i, { line, trace, place }] of rows.entries()) {
    end += LINE_END.length + (isAscii ? line.length : Buffer.byteLength(line));
    cells.set([end, trace, place.ms, place.ns, place.n], i * CELL.WIDTH);
  }
  return { text, cells, hasMore };
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
