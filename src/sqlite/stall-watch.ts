import type { Clock, Logger } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';

/** Longer than a busy disk takes for a transaction, a checkpoint and their syncs. */
const STALLED_S = 10;
/** A slow disk may take longer for the checkpoint of a large log. It completes writes all the time, and one that is away completes none. */
const SLOW_S = 60;
const LOOK_MS = 1000;

type StallWatchOptions = {
  readonly file: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Counts the writes that the disk has completed, for all programs; undefined if they are unknown. */
  readonly completedWrites: () => number | undefined;
};

/**
 * Knows whether the thread of writes waits for its disk: one that is away, such as a lost volume or a server of files, blocks a call of the
 * system instead of failing it. It counts the looks at which the same group is in flight, and not the time, because a frozen process
 * has one look for all of its absence.
 */
export class StallWatch {
  readonly #options: StallWatchOptions;
  /** Looks at the group in flight; undefined while none is. */
  #looks: number | undefined;
  /** The last looks at it, between which the disk completed no write. */
  #idleLooks = 0;
  #completed: number | undefined;
  #stalledS = STALLED_S;
  #isStalled = false;
  #cancelLook: (() => void) | undefined;
  #isClosed = false;

  constructor(options: StallWatchOptions) {
    this.#options = options;
  }

  /** A sentence on the group in flight; undefined if none is, or if it has not been for long. */
  get trouble(): string | undefined {
    return this.#isStalled
      ? `A write to the files has not ended for ${this.#stalledS} s.`
      : undefined;
  }

  /** The reason why nothing may be appended. The index of payload text has no appends: its writes wait. */
  shortage(): Error | undefined {
    if (!this.#isStalled) return undefined;
    const message = `a write to the database has not ended for ${this.#stalledS} s`;
    return new RetryableError('storage_failed', message, { retryAfterMs: 5000 });
  }

  /** A group of calls went to the thread. */
  sent(): void {
    this.#looks = 0;
    this.#idleLooks = 0;
    this.#lookLater();
  }

  /** The group has its answers, or the thread has ended. */
  answered(): void {
    this.#looks = undefined;
    this.#cancelLook?.();
    if (!this.#isStalled) return;
    this.#isStalled = false;
    const { file, logger } = this.#options;
    logger.info({ file }, 'Write to the database has ended');
  }

  /** An answer that came while the process could not take it comes before the look, which has a turn of its own. */
  #lookLater(): void {
    if (this.#isClosed) return;
    let turn: NodeJS.Immediate | undefined;
    const cancel = this.#options.clock.after(LOOK_MS, () => {
      turn = setImmediate(() => this.#look());
    });
    this.#cancelLook = () => {
      cancel();
      clearImmediate(turn);
    };
  }

  #look(): void {
    if (this.#looks === undefined) return;
    this.#looks += 1;
    const completed = this.#options.completedWrites();
    const isAlive = this.#looks > 1 && completed !== this.#completed;
    this.#idleLooks = isAlive ? 0 : this.#idleLooks + 1;
    this.#completed = completed;
    if (this.#idleLooks > STALLED_S || this.#looks > SLOW_S) this.#stalled();
    else this.#lookLater();
  }

  #stalled(): void {
    this.#isStalled = true;
    this.#stalledS = (this.#looks ?? 1) - 1;
    const { file, logger } = this.#options;
    const message = 'Write to the database does not end; other writes wait';
    logger.error({ file, seconds: this.#stalledS }, message);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelLook?.();
  }
}
