import type { Clock } from '../../src/component/component.ts';

/**
 * When the worker last completed something: it took a batch, or a delivery or a job ended within its bound. Work that
 * fails counts too, because it does not hang.
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

  /** When a job was last abandoned; undefined if the worker has made progress since. */
  get abandonedAt(): number | undefined {
    return this.#abandonedAt;
  }

  made(): void {
    this.#lastAt = this.#clock.now();
    this.#abandonedAt = undefined;
  }

  /** A job exceeded its bound; it is retried. */
  abandoned(): void {
    this.#abandonedAt = this.#clock.now();
  }
}
