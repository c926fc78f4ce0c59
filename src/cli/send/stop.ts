import type { Clock } from '../../component/component.ts';
import type { Terminal } from '../terminal.ts';

/** The cause of a stop before the last request. */
export type StopReason = 'interrupted' | 'unauthorized' | 'unreachable';

/** Stops a run: requests in flight may finish, no request starts, and every wait ends. */
export class Stop {
  reason: StopReason | undefined;
  message = '';
  readonly #clock: Clock;
  readonly #wakers = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has no effect after the first call. */
  begin(reason: StopReason, message: string): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.message = message;
    for (const wake of this.#wakers) wake();
  }

  /** The result of the work, or undefined if the stop comes first. */
  before<T>(work: Promise<T>): Promise<T | undefined> {
    if (this.reason !== undefined) return Promise.resolve(undefined);
    // `Promise.race` with one long-lived promise would keep every `work` in memory.
    return new Promise<T | undefined>((resolve, reject) => {
      const wake = (): void => {
        this.#wakers.delete(wake);
        resolve(undefined);
      };
      this.#wakers.add(wake);
      work.then(resolve, reject).finally(() => this.#wakers.delete(wake));
    });
  }

  /** Resolves after the time, or at the stop. */
  async sleep(ms: number): Promise<void> {
    if (this.reason !== undefined || ms <= 0) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        cancel();
        this.#wakers.delete(wake);
        resolve();
      };
      const cancel = this.#clock.after(ms, wake);
      this.#wakers.add(wake);
    });
  }
}

/** The terminal and npm both pass on one Ctrl-C: signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000;

/** The first Ctrl-C stops the run, a second one calls `abort`. Returns a function that ends the watch. */
export function watchInterrupts(
  terminal: Terminal,
  stop: Stop,
  clock: Clock,
  say: (message: string) => void,
  abort: () => void,
): () => void {
  let stoppedAt: number | undefined;
  const onSignal = (): void => {
    const now = clock.now();
    if (stoppedAt === undefined) {
      stoppedAt = now;
      stop.begin('interrupted', 'interrupted');
      say('Stopping after the requests in flight; press Ctrl-C again to abort them.');
    } else if (now - stoppedAt > SAME_SIGNAL_MS) {
      abort();
    }
  };
  return terminal.onInterrupt?.(onSignal) ?? (() => {});
}
