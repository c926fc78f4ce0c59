import type { Clock } from '../component/component.ts';
import { RetryableError } from '../model/errors.ts';
import type { Call } from './operation.ts';
import type { ThreadClient } from './thread-client.ts';

/**
 * A thread of reads. It starts with a call, ends when it had none for one to two times `idleMs`, and starts again with the next call: it
 * holds 6 MB, and 15 after a load.
 */
export class ReadingThread {
  readonly #start: () => Promise<ThreadClient>;
  readonly #clock: Clock;
  readonly #idleMs: number;
  #thread: Promise<ThreadClient> | undefined;
  #pending = 0;
  /** A call arrived since the last check. */
  #isUsed = false;
  #cancelCheck: (() => void) | undefined;
  readonly #ending = new Set<Promise<void>>();
  #isClosed = false;

  constructor(start: () => Promise<ThreadClient>, clock: Clock, idleMs: number) {
    this.#start = start;
    this.#clock = clock;
    this.#idleMs = idleMs;
  }

  /** Starts the thread now. Rejects if it cannot read the file. */
  async start(): Promise<void> {
    await this.#running();
  }

  async call(call: Call): Promise<unknown> {
    this.#refuseClosed();
    this.#pending++;
    this.#isUsed = true;
    try {
      const known = this.#running();
      const thread = await known;
      // In the same turn, so that a close that follows waits for the call.
      if (!thread.isEnded) return await thread.call(call);
      if (this.#thread === known) this.#forget();
      this.#refuseClosed();
      return await (await this.#running()).call(call);
    } finally {
      this.#pending--;
    }
  }

  /** Waits for the calls that were made. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#end((thread) => thread.close());
    await Promise.all(this.#ending);
  }

  async kill(): Promise<void> {
    this.#isClosed = true;
    this.#end((thread) => thread.kill());
    await Promise.all(this.#ending);
  }

  /** Another thread would outlive the database, and its lock. */
  #refuseClosed(): void {
    if (this.#isClosed) throw new RetryableError('storage_failed', 'the database is closed');
  }

  #running(): Promise<ThreadClient> {
    if (this.#thread !== undefined) return this.#thread;
    const starting = this.#start();
    this.#thread = starting;
    this.#check();
    starting.catch(() => {
      if (this.#thread === starting) this.#forget();
    });
    return starting;
  }

  #check(): void {
    this.#cancelCheck = this.#clock.after(this.#idleMs, () => {
      const isIdle = this.#pending === 0 && !this.#isUsed;
      this.#isUsed = false;
      if (isIdle) this.#end((thread) => thread.close());
      else this.#check();
    });
  }

  #end(stop: (thread: ThreadClient) => Promise<void>): void {
    const thread = this.#thread;
    this.#forget();
    if (thread === undefined) return;
    // A thread that could not start has rejected the call that started it.
    const ended = thread.then(stop, () => undefined).finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  #forget(): void {
    this.#cancelCheck?.();
    this.#cancelCheck = undefined;
    this.#thread = undefined;
  }
}
