import type { Clock } from '../../src/component/component.ts';

/**
 * When the worker last completed something: it took a batch, or a delivery or a job ended within its bound. Work that
 * fails counts too, because it does not hang. After work was abandoned, only work that ends is progress: taking the same
 * batches again is none.
 */
export class Progress {
  readonly #clock: Clock;
  #lastAt: number;
  #abandonedAt: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#lastAt = clock.now();
  }

  /** Milliseconds since the epoch. */
  get lastAt(): number {
    return this.#lastAt;
  }

  /** When a job or a delivery was last abandoned; undefined if the worker has made progress since. */
  get abandonedAt(): number | undefined {
    return this.#abandonedAt;
  }

  made(): void {
    this.#lastAt = this.#clock.now();
    this.#abandonedAt = undefined;
  }

  taken(): void {
    if (this.#abandonedAt === undefined) this.made();
  }

  /** A job or a delivery exceeded its bound; it is retried. */
  abandoned(): void {
    this.#abandonedAt = this.#clock.now();
  }
}
