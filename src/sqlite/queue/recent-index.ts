/**
 * An index in memory over the log of recent requests: the fingerprint of a request's tag leads to its number in the log. Two
 * tags may have one fingerprint, so the row in the log decides.
 *
 *   segment 1 (oldest) ─ segment 2 ─ … ─ segment n: new requests
 *       │
 *       └─ dropped as a whole when its requests have expired, or when there are too many segments
 *
 * A segment is a hash table in typed arrays, which has no object for each request: a full one takes 8 MiB.
 */
export type RecentIndexSize = {
  /** Requests of a segment, a power of two. */
  readonly segment: number;
  readonly segments: number;
};

/** 4,194,304 requests, in 128 MiB. */
const SIZE: RecentIndexSize = { segment: 2 ** 18, segments: 16 };
const FIRST_SLOTS = 1024;

export class RecentIndex {
  readonly #size: RecentIndexSize;
  #segments: Segment[] = [];

  constructor(size: RecentIndexSize = SIZE) {
    this.#size = size;
  }

  /** Requests come in the order of their numbers. */
  add(fingerprint: number, seq: number, expiresAt: number): void {
    let newest = this.#segments.at(-1);
    if (newest === undefined || newest.count === this.#size.segment) {
      newest = new Segment(this.#size.segment);
      this.#segments.push(newest);
      if (this.#segments.length > this.#size.segments) this.#segments.shift();
    }
    newest.add(fingerprint, seq, expiresAt);
  }

  /** The number of the newest request with the fingerprint. */
  find(fingerprint: number): number | undefined {
    for (let i = this.#segments.length - 1; i >= 0; i--) {
      const seq = this.#segments[i]?.find(fingerprint);
      if (seq !== undefined) return seq;
    }
    return undefined;
  }

  /** Drops the segments whose requests have all expired. */
  expire(now: number): void {
    this.#segments = this.#segments.filter(({ expiresAt }) => expiresAt > now);
  }

  get segments(): number {
    return this.#segments.length;
  }
}

/** Open addressing, at most half full; the number 0 marks an empty slot. */
class Segment {
  count = 0;
  /** The latest end of its requests. */
  expiresAt = 0;
  #fingerprints: Float64Array;
  #seqs: Float64Array;

  constructor(most: number) {
    const slots = Math.min(FIRST_SLOTS, 2 * most);
    this.#fingerprints = new Float64Array(slots);
    this.#seqs = new Float64Array(slots);
  }

  add(fingerprint: number, seq: number, expiresAt: number): void {
    this.expiresAt = Math.max(this.expiresAt, expiresAt);
    if (2 * (this.count + 1) > this.#seqs.length) this.#grow();
    const slot = this.#slotOf(fingerprint);
    if (this.#seqs[slot] === 0) this.count++;
    this.#fingerprints[slot] = fingerprint;
    this.#seqs[slot] = seq;
  }

  find(fingerprint: number): number | undefined {
    return this.#seqs[this.#slotOf(fingerprint)] || undefined;
  }

  /** The slot of the fingerprint, or the empty one where it belongs. */
  #slotOf(fingerprint: number): number {
    const last = this.#seqs.length - 1;
    let slot = (fingerprint >>> 0) & last;
    while (this.#seqs[slot] !== 0 && this.#fingerprints[slot] !== fingerprint) {
      slot = (slot + 1) & last;
    }
    return slot;
  }

  #grow(): void {
    const [fingerprints, seqs] = [this.#fingerprints, this.#seqs];
    this.#fingerprints = new Float64Array(2 * seqs.length);
    this.#seqs = new Float64Array(2 * seqs.length);
    for (let i = 0; i < seqs.length; i++) {
      const seq = seqs[i] ?? 0;
      if (seq === 0) continue;
      const fingerprint = fingerprints[i] ?? 0;
      const slot = this.#slotOf(fingerprint);
      this.#fingerprints[slot] = fingerprint;
      this.#seqs[slot] = seq;
    }
  }
}

/** 48 bits of a hash over the tag, which is a hash itself, and over the project. */
export function fingerprintOf(tag: string, project: string): number {
  let low = 0;
  let high = 0;
  for (let i = 0; i < tag.length; i++) {
    const code = tag.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high + code, 0x00010dcd);
  }
  for (let i = 0; i < project.length; i++) {
    const code = project.charCodeAt(i);
    low = Math.imul(low ^ code, 0x01000193);
    high = Math.imul(high + code, 0x00010dcd);
  }
  return (low >>> 0) + ((high >>> 8) & 0xffff) * 2 ** 32;
}
