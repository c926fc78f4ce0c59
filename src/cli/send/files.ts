import type { OtlpIndex } from '../../model/batch-index.ts';
import { type LineSlice, lineRequest, scanLine } from './line-request.ts';
import { splitLines } from './lines.ts';
import type { SendRequest } from './pump.ts';
import type { InputSource } from './source.ts';

/** A longer line is skipped. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;
/** Lines are joined up to this, below the limits of usual servers. */
const MAX_JOINED_BYTES = 8 * 1024 * 1024;

export type FileReading = {
  readonly sources: readonly InputSource[];
  readonly encoding: 'proto' | 'json';
  /** Spans in a request; undefined makes each line a request. */
  readonly maxSpans: number | undefined;
  /** The first line to send of the first source. */
  readonly fromLine: number;
  readonly progress: ReadProgress;
};

/** Reports what is read. */
type ReadProgress = {
  /** Bytes of a source, before decompression. */
  bytes(count: number): void;
  line(spans: number): void;
  /** `place` is `FILE:LINE`. */
  skipped(place: string, reason: string): void;
};

/**
 * Requests with the spans of files in the Collector's form: each line is an ExportTraceServiceRequest in JSON.
 *
 *   source ─▶ inflate ─▶ lines ─▶ scan ─▶ requests of at most `maxSpans` spans
 *                                   └─▶ skipped: lines that cannot be read
 */
export async function* requestsOfFiles(reading: FileReading): AsyncGenerator<SendRequest> {
  const { encoding, maxSpans } = reading;
  let joined: LineSlice[] = [];
  let room = maxSpans ?? 0;
  let bytes = 0;
  for await (const line of readLines(reading)) {
    if (maxSpans === undefined) {
      yield lineRequest([line], encoding);
      continue;
    }
    const bytesPerSpan = line.index.bytes.length / line.index.count;
    for (let start = 0; start < line.end; ) {
      const fitting = Math.floor((MAX_JOINED_BYTES - bytes) / bytesPerSpan);
      // A request has at least one span, however large.
      const most = joined.length === 0 ? Math.max(1, fitting) : fitting;
      const end = start + Math.min(room, line.end - start, most);
      if (end > start) joined.push({ ...line, start, end });
      room -= end - start;
      bytes += (end - start) * bytesPerSpan;
      start = end;
      if (room > 0 && start === line.end) break;
      yield lineRequest(joined, encoding);
      joined = [];
      room = maxSpans;
      bytes = 0;
    }
  }
  if (joined.length > 0) yield lineRequest(joined, encoding);
}

async function* readLines(reading: FileReading): AsyncGenerator<LineSlice> {
  const { sources, fromLine, progress } = reading;
  for (const [number, source] of sources.entries()) {
    const first = number === 0 ? fromLine : 1;
    let last = 0;
    try {
      for await (const line of splitLines(source.open(progress.bytes), MAX_LINE_BYTES)) {
        last = line.number;
        if (last < first) continue;
        const index = read(line.bytes, `${source.name}:${last}`, progress);
        if (index === undefined) continue;
        const at = { source: number, line: last };
        yield { index, file: source.name, at, start: 0, end: index.count };
      }
    } catch (error) {
      const reason = `the rest of the file cannot be read: ${reasonOf(error)}`;
      progress.skipped(`${source.name}:${last + 1}`, reason);
    }
  }
}

/** Undefined if the line has no spans to send. */
function read(
  bytes: Buffer | undefined,
  place: string,
  progress: ReadProgress,
): OtlpIndex | undefined {
  if (bytes === undefined) {
    progress.skipped(place, 'the line is longer than 64 MiB');
    return undefined;
  }
  if (isBlank(bytes)) return undefined;
  try {
    const index = scanLine(bytes);
    if (index.count === 0 && !bytes.includes('"resourceSpans"')) {
      progress.skipped(place, 'the line has no resourceSpans');
      return undefined;
    }
    progress.line(index.count);
    return index.count === 0 ? undefined : index;
  } catch (error) {
    progress.skipped(place, reasonOf(error));
    return undefined;
  }
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
