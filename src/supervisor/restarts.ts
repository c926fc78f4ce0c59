const FIRST_MS = 200;
const LONGEST_MS = 10_000;
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
    const delay = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(this.#inRow, 16));
    this.#inRow++;
    return delay;
  }
}
