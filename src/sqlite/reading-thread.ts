import type { Clock } from '../component/component.ts';
import type { Call } from './operation.ts';
import type { ThreadClient } from './thread-client.ts';

/** A thread without a call for one to two intervals of this length ends: it holds 6 MB. */
const IDLE_MS = 15_000;

/** A thread of reads. It starts with a call, ends when it is idle, and starts again with the next call. */
export class ReadingThread {
  readonly #start: () => Promise<ThreadClient>;
  readonly #clock: Clock;
  #thread: Promise<ThreadClient> | undefined;
  #pending = 0;
  /** A call arrived since the last check. */
  #isUsed = false;
  #cancelCheck: (() => void) | undefined;
  readonly #ending = new Set<Promise<void>>();

  constructor(start: () => Promise<ThreadClient>, clock: Clock) {
    this.#start = start;
    this.#clock = clock;
  }

  /** Starts the thread now. Rejects if it cannot read the file. */
  async start(): Promise<void> {
    await this.#running();
  }

  async call(call: Call): Promise<unknown> {
    this.#pending++;
    this.#isUsed = true;
    try {
      const known = this.#running();
      const thread = await known;
      // In the same turn, so that a close that follows waits for the call.
      if (!thread.isEnded) return await thread.call(call);
      if (this.#thread === known) this.#forget();
      return await (await this.#running()).call(call);
    } finally {
      this.#pending--;
    }
  }

  /** Waits for the calls that were made. */
  async close(): Promise<void> {
    this.#end((thread) => thread.close());
    await Promise.all(this.#ending);
  }

  async kill(): Promise<void> {
    this.#end((thread) => thread.kill());
    await Promise.all(this.#ending);
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
    this.#cancelCheck = this.#clock.after(IDLE_MS, () => {
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
