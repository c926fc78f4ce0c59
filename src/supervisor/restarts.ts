import { backoff } from '../component/backoff.ts';

const delayAfter = backoff({ first: 200, max: 10_000 });
/** A worker that ran for this long counts as healthy, and its next end as the first of a new row. */
const HEALTHY_MS = 60_000;

/** Backoff of a worker's restarts: doubles with each end until the worker was healthy. */
export class Restarts {
  #inRow = 0;

  /** Ends in a row without a healthy run between them. */
  get inRow(): number {
    return this.#inRow;
  }

  /** Records an end after `ranMs` milliseconds. Returns the milliseconds until the restart. */
  ended(ranMs: number): number {
    if (ranMs >= HEALTHY_MS) this.#inRow = 0;
    return delayAfter(this.#inRow++);
  }
}
