import type { OtlpIndex } from '../../model/batch-index.ts';
import { linesOf } from './lines.ts';
import { otlpPiece, type Part, readLine } from './otlp-piece.ts';
import type { Piece } from './piece.ts';
import type { Source } from './source.ts';

/** A longer line is left out. */
export const MAX_LINE_BYTES = 64 * 1024 * 1024;
/** Lines are put together up to this, so that a request stays below what servers take. */
const MAX_JOINED_BYTES = 8 * 1024 * 1024;

export type Reading = {
  readonly sources: readonly Source[];
  readonly encoding: 'proto' | 'json';
  /** Spans of a request; undefined leaves each line a request of its own. */
  readonly maxSpans: number | undefined;
  /** Of the first source. */
  readonly fromLine: number;
  /** Told of what is read, as it is. */
  readonly progress: ReadProgress;
};

export type ReadProgress = {
  /** Bytes of a source, compressed as they are. */
  bytes(count: number): void;
  line(spans: number): void;
  /** A line that is not sent, and why; `place` is `FILE:LINE`. */
  leftOut(place: string, reason: string): void;
};

/**
 * The spans of files in the Collector's form, one ExportTraceServiceRequest in JSON a line, as requests.
 *
 *   source ─▶ inflate ─▶ lines ─▶ scan ─▶ requests of as many spans as are wanted
 *                                   └─▶ left out: what cannot be read
 */
export async function* piecesOfFiles(reading: Reading): AsyncGenerator<Piece> {
  const { encoding, maxSpans } = reading;
  let joined: Part[] = [];
  let room = maxSpans ?? 0;
  let bytes = 0;
  for await (const line of readLines(reading)) {
    if (maxSpans === undefined) {
      yield otlpPiece([line], encoding);
      continue;
    }
    const bytesPerSpan = line.index.bytes.length / line.index.count;
    for (let start = 0; start < line.end; ) {
      const fitting = Math.floor((MAX_JOINED_BYTES - bytes) / bytesPerSpan);
      // One span at least, however large it is.
      const most = joined.length === 0 ? Math.max(1, fitting) : fitting;
      const end = start + Math.min(room, line.end - start, most);
      if (end > start) joined.push({ ...line, start, end });
      room -= end - start;
      bytes += (end - start) * bytesPerSpan;
      start = end;
      if (room > 0 && start === line.end) break;
      yield otlpPiece(joined, encoding);
      joined = [];
      room = maxSpans;
      bytes = 0;
    }
  }
  if (joined.length > 0) yield otlpPiece(joined, encoding);
}

async function* readLines(reading: Reading): AsyncGenerator<Part> {
  const { sources, fromLine, progress } = reading;
  for (const [number, source] of sources.entries()) {
    const first = number === 0 ? fromLine : 1;
    let last = 0;
    try {
      for await (const line of linesOf(source.open(progress.bytes), MAX_LINE_BYTES)) {
        last = line.number;
        if (last < first) continue;
        const index = read(line.bytes, `${source.name}:${last}`, progress);
        if (index === undefined) continue;
        const at = { source: number, line: last };
        yield { index, file: source.name, at, start: 0, end: index.count };
      }
    } catch (error) {
      progress.leftOut(
        `${source.name}:${last + 1}`,
        `the file cannot be read on: ${reasonOf(error)}`,
      );
    }
  }
}

/** Undefined where there is nothing to send in it. */
function read(
  bytes: Buffer | undefined,
  place: string,
  progress: ReadProgress,
): OtlpIndex | undefined {
  if (bytes === undefined) {
    progress.leftOut(place, 'the line is longer than 64 MiB');
    return undefined;
  }
  if (isBlank(bytes)) return undefined;
  try {
    const index = readLine(bytes);
    if (index.count === 0 && !bytes.includes('"resourceSpans"')) {
      progress.leftOut(place, 'the line has no resourceSpans');
      return undefined;
    }
    progress.line(index.count);
    return index.count === 0 ? undefined : index;
  } catch (error) {
    progress.leftOut(place, reasonOf(error));
    return undefined;
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
