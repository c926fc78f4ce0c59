import type { Clock, Logger } from './component.ts';

/** After a step that failed. */
const RETRY_MS = 5000;

export type BackgroundOptions = {
  /** Does a bounded piece of work; resolves with whether more is left. */
  readonly step: () => Promise<boolean>;
  /** Begins anew after this; without it only when woken. */
  readonly everyMs?: number;
  /** What every step leaves to those who wait for an answer. */
  readonly betweenMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Logged when a step fails. */
  readonly failure: string;
};

/**
 * Work that nobody waits for, in steps so small that it holds nobody up:
 *
 *   wake ─▶ step ─(pause)─▶ step … ─▶ nothing left ─(everyMs)─▶ step
 */
export class Background {
  readonly #options: BackgroundOptions;
  #cancel: (() => void) | undefined;
  #running: Promise<boolean> | undefined;
  #wokenMeanwhile = false;
  #isClosed = false;

  constructor(options: BackgroundOptions) {
    this.#options = options;
  }

  /** There may be something to do. */
  wake(): void {
    if (this.#running !== undefined) this.#wokenMeanwhile = true;
    else this.#schedule(0);
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
      else if (everyMs !== undefined) this.#schedule(everyMs);
    } catch (error) {
      if (this.#isClosed) return;
      logger.warn({ error }, failure);
      this.#schedule(RETRY_MS);
    }
  }

  async #step(): Promise<boolean> {
    this.#wokenMeanwhile = false;
    const running = this.#options.step();
    this.#running = running;
    try {
      const hasMore = await running;
      return hasMore || this.#wokenMeanwhile;
    } finally {
      this.#running = undefined;
    }
  }

  /** Does all there is to do now, without pauses; rejects when a step fails. */
  async finish(): Promise<void> {
    for (;;) {
      if (this.#running !== undefined) await this.#running;
      else if (!(await this.#step())) return;
    }
  }

  /** Waits for the step under way. */
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

/** A piece of work between two `yield`s is one step. */
export type Steps = AsyncGenerator<undefined, void, undefined>;

/** Begins anew where the work ended or failed: every step finds for itself what is left. */
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
