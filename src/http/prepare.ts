import type { AttachmentLimits } from '../model/attachments.ts';
import type { Encoding, Format, SentEncoding } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import { Refusal } from '../model/errors.ts';
import { MAX_BODY_BYTES, scan } from '../model/formats.ts';
import { gzipOfDeflate, InflateError, inflateSync } from '../model/inflate.ts';
import { MAX_JSON_DEPTH } from '../model/json/grammar.ts';
import type { LogCounts } from '../model/otlp/log-request.ts';
import { convertLogs } from '../model/otlp/log-request.ts';
import type { AssembledRuns } from '../model/runs/assemble.ts';
import { assembleRuns } from '../model/runs/assemble.ts';
import { WRAPPED_LEVELS, wrapRun } from '../model/runs/wrap.ts';
import { tooLarge } from './body.ts';

/** How to prepare a received body. */
export type Preparation = {
  readonly format: Format;
  readonly encoding: SentEncoding;
  /** A body with more items is refused. */
  readonly maxItems: number;
  /** Limit of the inflated body; undefined: 25 MiB. */
  readonly maxBytes?: number;
  /** Limit of JSON nesting; undefined: that of requests. */
  readonly maxDepth?: number;
  /** The thread that scans a large body also applies the rules of OTLP to it, or sums the attachments of runs. */
  readonly judges?: boolean;
  /** Set if the body is one run, to be wrapped into a batch; `pathId` is the id in the path of an update. */
  readonly singleRun?: { readonly pathId?: string };
  /** Set if the body has runs in parts, to be put together into a batch. Without limits, attachments are left out. */
  readonly multipart?: { readonly boundary: string; readonly attachments?: AttachmentLimits };
  /** Set if the body has log records, to be converted to spans. */
  readonly logs?: boolean;
};

/** The body to keep, its compression, and the positions of its items. */
export type Prepared = {
  readonly body: Buffer;
  readonly encoding: Encoding;
  readonly index: BatchIndex;
  /** Of a multipart body: items to be rejected. */
  readonly faults?: AssembledRuns['faults'];
  readonly attachments?: AssembledRuns['attachments'];
  readonly feedback?: AssembledRuns['feedback'];
  readonly leftOut?: AssembledRuns['leftOut'];
  /** Of a body of log records. */
  readonly logs?: LogCounts;
};

/** Bounds below those of a thread. Beyond them, preparation throws a `Refusal` that a thread may not throw. */
export type Bounds = {
  readonly maxBytes?: number | undefined;
  readonly maxMergedFields?: number;
};

/**
 * Received bytes → inflated, once and within `maxBytes` bytes → (wrapped or converted) → scanned. Pure and synchronous: it runs
 * on the event loop for small bodies and in a thread for large ones. Throws a `Refusal`: `body_too_large`, or that
 * of the scan.
 */
export function prepare(
  body: Buffer,
  wanted: Preparation,
  { maxBytes = wanted.maxBytes ?? MAX_BODY_BYTES, maxMergedFields }: Bounds = {},
): Prepared {
  const { format, encoding, maxItems, maxDepth } = wanted;
  const inflated = inflate(body, encoding, maxBytes);
  if (wanted.singleRun !== undefined) {
    const wrapped = wrapRun(inflated, wanted.singleRun.pathId);
    // The wrapper's own levels do not count against the client's limit.
    const limits = { maxItems, maxDepth: MAX_JSON_DEPTH + WRAPPED_LEVELS };
    return { body: wrapped, encoding: 'identity', index: scan(format, wrapped, limits) };
  }
  if (wanted.multipart !== undefined) {
    const limits = { maxItems, maxDepth: MAX_JSON_DEPTH + WRAPPED_LEVELS };
    const { boundary, attachments } = wanted.multipart;
    const assembled = assembleRuns(inflated, boundary, limits, attachments);
    return { ...assembled, encoding: 'identity' };
  }
  const limits = { maxItems, maxDepth, maxMergedFields };
  if (wanted.logs === true) {
    const type = format === 'otlp_json' ? 'otlp_json' : 'otlp_proto';
    return { ...convertLogs(type, inflated, limits), encoding: 'identity' };
  }
  const index = scan(format, inflated, limits);
  // Processors see what the index has: nothing else may be stored.
  if (index.bytes !== inflated) return { body: index.bytes, encoding: 'identity', index };
  if (encoding === 'deflate')
    return { body: gzipOfDeflate(body, inflated), encoding: 'gzip', index };
  return { body, encoding, index };
}

function inflate(body: Buffer, encoding: SentEncoding, maxBytes: number): Buffer {
  try {
    return inflateSync(body, encoding, maxBytes);
  } catch (error) {
    if (!(error instanceof InflateError)) throw error;
    if (error.reason === 'too_large') throw tooLarge('inflated body', maxBytes, error);
    throw new Refusal('invalid_request', error.message, { cause: error });
  }
}
