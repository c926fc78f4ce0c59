import { RetryableError } from '../model/errors.ts';
import type { Clock, Logger } from './component.ts';
import { lineSpacing } from './line-spacing.ts';

/** A wait exceeded its bound and was abandoned. The work behind it may still end; its result changes nothing. */
export class WaitTimeout extends RetryableError {
  readonly wait: string;

  constructor(wait: string, ms: number) {
    super('wait_timeout', `${wait} did not end within ${ms} ms`);
    this.wait = wait;
  }
}

/** The work of a wait. The signal is aborted when the wait is abandoned. */
export type BoundedWork<T> = (abandoned: AbortSignal) => Promise<T>;

/** Waits at most `ms`, then rejects with a `WaitTimeout`. */
export async function waitAtMost<T>(
  clock: Clock,
  wait: string,
  ms: number,
  work: BoundedWork<T>,
): Promise<T> {
  const abandoned = new AbortController();
  const timeout = Promise.withResolvers<never>();
  const cancel = clock.after(ms, () => {
    const error = new WaitTimeout(wait, ms);
    abandoned.abort(error);
    timeout.reject(error);
  });
  try {
    return await Promise.race([work(abandoned.signal), timeout.promise]);
  } finally {
    cancel();
  }
}

/** A wait whose work has not ended. */
export type LastingWait = {
  readonly wait: string;
  /** Milliseconds. */
  readonly lasts: number;
  /** Whether the wait exceeded its bound, so that only its work lasts. */
  readonly abandoned: boolean;
};

type WaitsOptions = {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Bound of a `step`, in milliseconds. */
  readonly stepTimeout: number;
};

/** Waits of one name that exceed their bounds within this time share a log line. Milliseconds. */
const LOG_INTERVAL_MS = 10_000;

/** The waits of a component: each has a name and a bound, and those that last are known. */
export class Waits {
  readonly #options: WaitsOptions;
  readonly #lasting = new Set<{
    readonly wait: string;
    readonly since: number;
    abandoned: boolean;
  }>();
  readonly #spacing: ReturnType<typeof lineSpacing>;

  constructor(options: WaitsOptions) {
    this.#options = options;
    this.#spacing = lineSpacing(options.clock, LOG_INTERVAL_MS);
  }

  /** Waits at most `stepTimeout`. */
  step<T>(wait: string, work: BoundedWork<T>): Promise<T> {
    return this.within(wait, this.#options.stepTimeout, work);
  }

  /** Waits at most `ms`, then logs the name of the wait and rejects with a `WaitTimeout`. */
  within<T>(wait: string, ms: number, work: BoundedWork<T>): Promise<T> {
    const { clock } = this.#options;
    const lasting = { wait, since: clock.now(), abandoned: false };
    this.#lasting.add(lasting);
    return waitAtMost(clock, wait, ms, async (abandoned) => {
      abandoned.addEventListener('abort', () => {
        lasting.abandoned = true;
        this.#log(wait, ms);
      });
      try {
        return await work(abandoned);
      } finally {
        this.#lasting.delete(lasting);
      }
    });
  }

  /** Waits whose work has not ended, the longest first. */
  lasting(): readonly LastingWait[] {
    const now = this.#options.clock.now();
    return [...this.#lasting].map(({ wait, since, abandoned }) => ({
      wait,
      lasts: now - since,
      abandoned,
    }));
  }

  /** A silent server fails every wait of a name; one line an interval names them and counts the others. */
  #log(wait: string, boundMs: number): void {
    const unlogged = this.#spacing(wait);
    if (unlogged === undefined) return;
    const before = unlogged > 0 ? { before: unlogged } : {};
    this.#options.logger.warn(
      { wait, boundMs, ...before },
      'Wait exceeded its bound and was abandoned',
    );
  }
}
