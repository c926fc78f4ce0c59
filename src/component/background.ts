import type { Clock, Logger } from './component.ts';

/** Wait after a failed step. */
const RETRY_MS = 5000;

export type BackgroundOptions = {
  /** Does a bounded piece of work; resolves with whether more work is left. */
  readonly step: () => Promise<boolean>;
  /** Starts again after this time, or after one that is asked for when no work is left. Default: only when woken. */
  readonly everyMs?: number | (() => number);
  /** Pause between steps, so that requests run in between. */
  readonly betweenMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The log message when a step fails. */
  readonly failure: string;
};

/**
 * Work that no request waits for, in steps that are short enough to delay none:
 *
 *   wake ─▶ step ─(pause)─▶ step … ─▶ no work left ─(everyMs)─▶ step
 */
export class Background {
  readonly #options: BackgroundOptions;
  #cancel: (() => void) | undefined;
  #running: Promise<boolean> | undefined;
  /** The last step left work. */
  #isInRound = false;
  /** A round may have looked for its work before it was woken, so another one follows it. */
  #wokenInRound = false;
  #isClosed = false;

  constructor(options: BackgroundOptions) {
    this.#options = options;
  }

  /** Call when there may be work. */
  wake(): void {
    this.#wokenInRound = true;
    if (this.#running === undefined) this.#schedule(0);
  }

  #schedule(ms: number): void {
    this.#cancel?.();
    this.#cancel = undefined;
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(ms, () => {
      this.#cancel = undefined;
      void this.#runStep();
    });
  }

  async #runStep(): Promise<void> {
    if (this.#running !== undefined) return;
    const { everyMs, betweenMs, logger, failure } = this.#options;
    try {
      const hasMore = await this.#step();
      if (hasMore) this.#schedule(betweenMs);
      else if (everyMs !== undefined)
        this.#schedule(typeof everyMs === 'number' ? everyMs : everyMs());
    } catch (error) {
      if (this.#isClosed) return;
      logger.warn({ err: error }, failure);
      this.#schedule(RETRY_MS);
    }
  }

  async #step(): Promise<boolean> {
    if (!this.#isInRound) this.#wokenInRound = false;
    this.#isInRound = false;
    const running = this.#options.step();
    this.#running = running;
    try {
      this.#isInRound = await running;
      return this.#isInRound || this.#wokenInRound;
    } finally {
      this.#running = undefined;
    }
  }

  /** Does all work now, without pauses; rejects if a step fails. */
  async finish(): Promise<void> {
    for (;;) {
      if (this.#running !== undefined) await this.#running;
      else if (!(await this.#step())) return;
    }
  }

  /** Stops, and waits for the running step. */
  async close(): Promise<void> {
    this.stop();
    await this.#running?.catch(() => undefined);
  }

  stop(): void {
    this.#isClosed = true;
    this.#cancel?.();
    this.#cancel = undefined;
  }
}

/** The work between two `yield`s is one step. */
export type Steps = AsyncGenerator<undefined, void, undefined>;

/** Whether work that is done at an interval is due. A clock that is set far back or ahead makes it due, too. */
export function isDue(last: number | undefined, everyMs: number, now: number): boolean {
  return last === undefined || Math.abs(now - last) >= everyMs;
}

/** Repeats a piece of work that resolves with whether more is left. */
export async function* repeat(work: () => Promise<boolean>): Steps {
  while (await work()) yield;
}

/** Starts the work again after it ended or failed; the work finds out what is left to do. */
export function inSteps(work: () => Steps): () => Promise<boolean> {
  let steps: Steps | undefined;
  return async () => {
    steps ??= work();
    try {
      const { done } = await steps.next();
      if (done === true) steps = undefined;
      return done !== true;
    } catch (error) {
      steps = undefined;
      throw error;
    }
  };
}
