/** Bits for the findings of the prefilter at a place. They select the rules that search there. */
export const Cause = {
  API_KEY: 1,
  JWT: 2,
  PRIVATE_KEY: 4,
  EMAIL: 8,
  PHONE: 16,
  /** A long run of digits, or of digits and capitals: a card, an IBAN, the id of an AWS key. */
  RUN: 32,
  /** A name whose value is secret. */
  NAME: 64,
  /** The text that a pattern of the configuration starts with. */
  PATTERN: 128,
  /** A character that any rule may need is spelled as a JSON escape. */
  ESCAPE: 255,
} as const;

/**
 * One place covers all places of the same cause in the bytes behind it, up to this distance: a body full of `@`
 * costs no memory for each.
 */
export const SPACING = 256;

const NO_ENTRIES = new Float64Array(0);

/** Places in a body at which something may have to be redacted. */
export class Candidates {
  /** A place and its cause in one number: `position * 256 + cause`. Most bodies have none. */
  #entries = NO_ENTRIES;
  #count = 0;
  /** Where `has` goes on. */
  #next = 0;
  readonly #lastOfCause = new Map<number, number>();

  get count(): number {
    return this.#count;
  }

  /** Whether a place of the cause stands for this position already. */
  covers(position: number, cause: number): boolean {
    return position - (this.#lastOfCause.get(cause) ?? -SPACING) < SPACING;
  }

  add(position: number, cause: number): void {
    if (this.covers(position, cause)) return;
    this.#lastOfCause.set(cause, position);
    if (this.#count === this.#entries.length) {
      const larger = new Float64Array(Math.max(64, this.#count * 2));
      larger.set(this.#entries);
      this.#entries = larger;
    }
    this.#entries[this.#count++] = position * 256 + cause;
  }

  /** Puts the places in order, before `within` is asked. */
  sort(): void {
    this.#entries.subarray(0, this.#count).sort();
  }

  /** Places in the bytes [start,end), and places so close before them that they stand for further ones. */
  *within(start: number, end: number): Generator<{ position: number; cause: number }> {
    for (let i = this.#firstFrom(start - SPACING); i < this.#count; i++) {
      const entry = this.#entries[i] ?? 0;
      const position = Math.floor(entry / 256);
      if (position >= end) return;
      yield { position: Math.max(position, start), cause: entry % 256 };
    }
  }

  /** The causes of the places in [start,end), joined; 0 without a place. */
  causesIn(start: number, end: number): number {
    let causes = 0;
    for (const { cause } of this.within(start, end)) causes |= cause;
    return causes;
  }

  /** Whether there is any. Cheap for ranges in ascending order. */
  has(start: number, end: number): boolean {
    const least = (start - SPACING) * 256;
    if ((this.#entries[this.#next - 1] ?? -1) >= least)
      this.#next = this.#firstFrom(start - SPACING);
    while (this.#next < this.#count && (this.#entries[this.#next] ?? 0) < least) this.#next++;
    return this.#next < this.#count && (this.#entries[this.#next] ?? 0) < end * 256;
  }

  #firstFrom(position: number): number {
    let low = 0;
    let high = this.#count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle] ?? 0) < position * 256) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
