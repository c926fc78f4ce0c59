import { backoff } from '../component/backoff.ts';

const delayAfter = backoff({ first: 200, max: 10_000 });
/** Whoever ran for this long was healthy: what ends it afterwards is another story. */
const HEALTHY_MS = 60_000;

/** How long a worker that ended waits for its restart: twice as long each time, until it was healthy. */
export class Restarts {
  #inRow = 0;

  /** Ends in a row without health between them. */
  get inRow(): number {
    return this.#inRow;
  }

  /** Notes an end after this many milliseconds of running; gives those until the restart. */
  ended(ranFor: number): number {
    if (ranFor >= HEALTHY_MS) this.#inRow = 0;
    return delayAfter(this.#inRow++);
  }
}
