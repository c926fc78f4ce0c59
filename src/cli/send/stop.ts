/** Why it ends before all is sent. */
export type StopReason = 'interrupted' | 'unauthorized' | 'unreachable';

/** The one end of a run: what is under way may finish, nothing new begins and nothing waits any more. */
export class Stop {
  reason: StopReason | undefined;
  message = '';
  readonly #wakers = new Set<() => void>();

  /** The first reason counts. */
  begin(reason: StopReason, message: string): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.message = message;
    for (const wake of this.#wakers) wake();
  }

  /** What the work comes to, or undefined where the end comes before. */
  before<T>(work: Promise<T>): Promise<T | undefined> {
    if (this.reason !== undefined) return Promise.resolve(undefined);
    // Not `Promise.race` with one promise of the end: that would remember every work there ever was.
    return new Promise<T | undefined>((resolve, reject) => {
      const wake = (): void => {
        this.#wakers.delete(wake);
        resolve(undefined);
      };
      this.#wakers.add(wake);
      work.then(resolve, reject).finally(() => this.#wakers.delete(wake));
    });
  }

  /** Waits, but no longer than until the end. */
  async sleep(ms: number): Promise<void> {
    if (this.reason !== undefined || ms <= 0) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#wakers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, Math.min(ms, LONGEST_MS));
      this.#wakers.add(wake);
    });
  }
}

/** The longest a timer can be set for. */
const LONGEST_MS = 2_147_483_647;
