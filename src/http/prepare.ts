import type { Encoding, Format } from '../model/batch.ts';
import type { BatchIndex } from '../model/batch-index.ts';
import { Refusal } from '../model/errors.ts';
import { MAX_BODY_BYTES, scan } from '../model/formats.ts';
import { InflateError, inflateSync } from '../model/inflate.ts';
import { MAX_JSON_DEPTH } from '../model/json/grammar.ts';
import { WRAPPED_LEVELS, wrapRun } from '../model/runs/wrap.ts';
import { tooLarge } from './too-large.ts';

/** What is to be made of a received body. */
export type Preparation = {
  readonly format: Format;
  readonly encoding: Encoding;
  /** One more item is refused. */
  readonly maxItems: number;
  /** Bytes of the inflated body; one more is refused. 25 MiB where undefined. */
  readonly maxBytes?: number;
  /** Levels of JSON nesting; undefined for those that a request may have. */
  readonly maxDepth?: number;
  /** A large body is judged by the rules of its format together with the scan. */
  readonly judges?: boolean;
  /** Set where the body is one run, to be wrapped into a batch; with the id of the path on an update. */
  readonly singleRun?: { readonly pathId?: string };
};

/** The body that is kept, how it is compressed, and where its items stand. */
export type Prepared = {
  readonly body: Buffer;
  readonly encoding: Encoding;
  readonly index: BatchIndex;
};

/**
 * Received bytes → inflated, once and within `maxBytes` bytes → (wrapped) → scanned. Pure and
 * synchronous: it runs on the event loop for small bodies and in a worker for large ones.
 * Throws a `Refusal`: `body_too_large`, or that of the scan.
 */
export function prepare(
  body: Buffer,
  wanted: Preparation,
  maxBytes: number = wanted.maxBytes ?? MAX_BODY_BYTES,
): Prepared {
  const { format, encoding, maxItems, maxDepth } = wanted;
  const inflated = inflate(body, encoding, maxBytes);
  if (wanted.singleRun !== undefined) {
    const wrapped = wrapRun(inflated, wanted.singleRun.pathId);
    // The levels around the run are ours, not the client's.
    const limits = { maxItems, maxDepth: MAX_JSON_DEPTH + WRAPPED_LEVELS };
    return { body: wrapped, encoding: 'identity', index: scan(format, wrapped, limits) };
  }
  const limits = maxDepth === undefined ? { maxItems } : { maxItems, maxDepth };
  return { body, encoding, index: scan(format, inflated, limits) };
}

function inflate(body: Buffer, encoding: Encoding, maxBytes: number): Buffer {
  try {
    return inflateSync(body, encoding, maxBytes);
  } catch (error) {
    if (!(error instanceof InflateError)) throw error;
    if (error.reason === 'too_large') throw tooLarge('inflated body', maxBytes, error);
    throw new Refusal('invalid_request', error.message, { cause: error });
  }
}
