import type { Clock } from '../../src/component/component.ts';

/** When the worker last completed something: it took a batch, or a delivery or a job ended within its bound. */
export class Progress {
  readonly #clock: Clock;
  #lastAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#lastAt = clock.now();
  }

  /** Milliseconds since the epoch. */
  get lastAt(): number {
    return this.#lastAt;
  }

  made(): void {
    this.#lastAt = this.#clock.now();
  }
}
