import { createCipheriv, hash } from 'node:crypto';

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

/** A body up to this size is hashed with SHA-256: 1.7 µs and 0.6 µs a KiB. AES-GCM takes 6 µs and 0.05 µs a KiB. */
export const SMALL_BODY = 8 * 1024;

/** All processes recognize each other's requests, so the key is a constant. */
const KEY = Buffer.from('repeated request');
const NONCE = Buffer.alloc(12);

/**
 * 128 bits that tell bodies of one project apart, as text. Large bodies with the same tag can be made on purpose; their client then
 * loses the second one, and no other client is concerned.
 *
 * The time in the header of a gzip body counts as 0: the OTLP exporter of Python compresses each retry again, and writes
 * the present time there.
 */
export function tagOf(body: Buffer): string {
  const hasTime = body.length >= 8 && body.readUInt16BE(0) === 0x1f8b && body.readInt32LE(4) !== 0;
  const timeless = hasTime ? withoutTime(body) : body;
  if (body.length > SMALL_BODY) return gcmTag(timeless);
  return hash('sha256', timeless, 'base64').slice(0, TAG_CHARACTERS);
}

/** 132 bits as base64. */
const TAG_CHARACTERS = 22;

function withoutTime(body: Buffer): Buffer {
  const copy = Buffer.from(body);
  copy.fill(0, 4, 8);
  return copy;
}

function gcmTag(body: Buffer): string {
  const cipher = createCipheriv('aes-128-gcm', KEY, NONCE);
  cipher.setAAD(body);
  cipher.final();
  return cipher.getAuthTag().toString('base64');
}
