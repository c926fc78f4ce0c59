import { createCipheriv } from 'node:crypto';

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

/** All processes recognize each other's requests, so the key is a constant. */
const KEY = Buffer.from('repeated request');
const NONCE = Buffer.alloc(12);
/** The time of a gzip header that has none. */
const NO_TIME = Buffer.alloc(4);

/**
 * 128 bits that tell bodies of one project apart: the tag of AES-GCM, which takes an eighth of the time of SHA-256. Bodies
 * with the same tag can be made on purpose; their client then loses the second one, and no other client is concerned.
 *
 * The time in the header of a gzip body counts as 0: the OTLP exporter of Python compresses each retry again, and writes
 * the present time there.
 */
export function tagOf(body: Buffer): string {
  const cipher = createCipheriv('aes-128-gcm', KEY, NONCE);
  const hasTime = body.length >= 8 && body.readUInt16BE(0) === 0x1f8b && body.readInt32LE(4) !== 0;
  if (hasTime) {
    cipher.setAAD(body.subarray(0, 4));
    cipher.setAAD(NO_TIME);
    cipher.setAAD(body.subarray(8));
  } else cipher.setAAD(body);
  cipher.final();
  return cipher.getAuthTag().toString('hex');
}
