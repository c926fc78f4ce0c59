import { hash } from 'node:crypto';
import type { RequestHead } from '../component/component.ts';
import { hashOfBody, SEED_BYTES } from './body-hash.ts';

/**
 * A client that was answered 503, or not at all, sends the same bytes again, although the first request may have become
 * durable. Without an `Idempotency-Key`, project, route, type, encoding and body are the key of a request for a window of
 * time: the second request gets the answer of the first and counts nothing. The store that makes the batch durable looks
 * for the key in the same transaction, so a repetition that arrives during the first request waits for its commit, and is
 * recognized after a crash, and by every process that shares the store. In a pipeline with several exporters the key is
 * claimed before any of them has the batch, as an `Idempotency-Key` is.
 */
export type Repeats = {
  /** Milliseconds for which a request is remembered. */
  readonly window: number;
  /**
   * Whether the next request of a project is remembered. A process remembers a bounded number in a window, and a project at
   * most as many as are left for others: alone half of them, and no project takes them all.
   */
  admit(project: string, now: number): boolean;
};

export type RepeatsConfig = {
  readonly enabled: boolean;
  readonly window: number;
  readonly max_entries: number;
};

export function repeatsOf({
  enabled,
  window,
  max_entries: most,
}: RepeatsConfig): Repeats | undefined {
  if (!enabled) return undefined;
  let since = Number.NEGATIVE_INFINITY;
  let free = most;
  const byProject = new Map<string, number>();
  return {
    window,
    admit(project, now) {
      if (Math.abs(now - since) >= window) {
        since = now;
        free = most;
        byProject.clear();
      }
      const count = byProject.get(project) ?? 0;
      if (count >= free) return false;
      byProject.set(project, count + 1);
      free--;
      return true;
    },
  };
}

const GZIP_MAGIC = 0x1f8b;
/** The bytes of the time in the header of a gzip body. */
const TIME = { from: 4, end: 8 } as const;

/**
 * 144 bits that tell the requests of one project apart, as text; all processes recognize each other's requests. Bodies with the same tag
 * can be made on purpose; their client then loses the second one, and no other client is concerned.
 *
 * The time in the header of a gzip body counts as 0: the OTLP exporter of Python compresses each retry again, and writes
 * the present time there.
 */
export function tagOf(type: RequestType, body: Buffer): string {
  const seed = seedOf(type);
  const hasTime = body.length >= TIME.end && body.readUInt16BE(0) === GZIP_MAGIC;
  return hasTime ? hashOfBody(body, seed, TIME.from, TIME.end) : hashOfBody(body, seed);
}

/** The same for most requests of a client. */
export type RequestType = {
  readonly method: string;
  readonly path: string;
  readonly contentType: string;
  readonly encoding: string;
};

export function requestTypeOf({ method, path, headers }: RequestHead): RequestType {
  const encoding = headers.get('content-encoding') ?? headers.get('grpc-encoding');
  return {
    method,
    path,
    contentType: joined(headers.get('content-type')),
    encoding: joined(encoding),
  };
}

function joined(values: readonly string[] | undefined): string {
  if (values === undefined) return '';
  return values.length === 1 ? (values[0] ?? '') : values.join();
}

/** Paths with ids of runs differ in each request, so the map is bounded. */
const MAX_SEEDS = 1000;
const seeds = new Map<string, Buffer>();

/** That of the last request, for which no text is made. */
let last: { readonly type: RequestType; readonly seed: Buffer } | undefined;

/** The start of the hash: a hash of method, path, type and encoding. No header may contain a NUL. */
function seedOf(type: RequestType): Buffer {
  if (last !== undefined && isSameType(last.type, type)) return last.seed;
  const { method, path, contentType, encoding } = type;
  const text = `${method}\0${path}\0${contentType}\0${encoding}`;
  let seed = seeds.get(text);
  if (seed === undefined) {
    seed = hash('sha256', text, 'buffer').subarray(0, SEED_BYTES);
    if (seeds.size === MAX_SEEDS) seeds.clear();
    seeds.set(text, seed);
  }
  last = { type, seed };
  return seed;
}

function isSameType(a: RequestType, b: RequestType): boolean {
  return (
    a.path === b.path &&
    a.method === b.method &&
    a.contentType === b.contentType &&
    a.encoding === b.encoding
  );
}
