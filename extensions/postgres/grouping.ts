import type { Clock, Logger } from '../../src/component/component.ts';
import { WaitTimeout, waitAtMost } from '../../src/component/waits.ts';
import { RetryableError } from '../../src/model/errors.ts';

/** The bound of a group, and what a log line about it names. */
export type GroupBound = {
  readonly name: string;
  readonly ms: number;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type GroupLimits = {
  /** Calls of one group. */
  readonly count: number;
  /** Weight of one group; a heavier call forms a group of its own. */
  readonly weight: number;
  /**
   * Lets later calls overtake: if every group in flight has taken longer than `afterMs`, waiting calls start another
   * group, up to `most` in flight. Without it groups follow each other, and calls take effect in order.
   */
  readonly slow?: { readonly clock: Clock; readonly afterMs: number; readonly most: number };
  /**
   * A group that exceeds it is abandoned: its calls reject with a `WaitTimeout`, the calls behind it form the next
   * group, and its late result is ignored.
   */
  readonly bound: GroupBound;
};

/** The outcome of a call that fails although other calls of its group succeed. */
export class Failed {
  readonly failure: unknown;

  constructor(failure: unknown) {
    this.failure = failure;
  }
}

/**
 * Carries out calls in groups: calls that arrive while a group is in flight form the next one. A group that rejects
 * fails all its calls; a `RetryableError` also fails the calls that wait behind it, because they have waited as long.
 * `carryOut` changes nothing in memory once the signal is aborted.
 */
export function grouped<Call, Result>(
  limits: GroupLimits,
  weigh: (call: Call) => number,
  carryOut: (
    calls: readonly Call[],
    abandoned: AbortSignal,
  ) => Promise<readonly (Result | Failed)[]>,
): (call: Call) => Promise<Result> {
  type Waiting = {
    readonly call: Call;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  };
  let waiting: Waiting[] = [];
  let inFlight = 0;
  /** Groups in flight that have become slow. */
  let slow = 0;

  function nextGroup(): Waiting[] {
    let weight = 0;
    let count = 0;
    for (const { call } of waiting) {
      weight += weigh(call);
      if (count > 0 && (count >= limits.count || weight > limits.weight)) break;
      count++;
    }
    const group = waiting.slice(0, count);
    waiting = waiting.slice(count);
    return group;
  }

  function begin(): void {
    if (inFlight > slow || inFlight >= (limits.slow?.most ?? 1)) return;
    inFlight++;
    // Later, so that the other calls of this turn of the event loop join.
    setImmediate(() => void run());
  }

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      const group = nextGroup();
      const endWatch = watchForSlowness();
      try {
        const results = await bounded(group.map(({ call }) => call));
        for (const [i, { resolve, reject }] of group.entries()) {
          const result = results[i];
          if (result === undefined) reject(new Error('a call of a group has no result'));
          else if (result instanceof Failed) reject(result.failure);
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of group) reject(error);
        if (!(error instanceof RetryableError) || error instanceof WaitTimeout) continue;
        for (const { reject } of waiting) reject(error);
        waiting = [];
      } finally {
        endWatch();
      }
    }
    inFlight--;
  }

  async function bounded(calls: readonly Call[]): Promise<readonly (Result | Failed)[]> {
    const { name, ms, clock, logger } = limits.bound;
    return waitAtMost(clock, name, ms, (abandoned) => {
      const onAbandon = (): void => {
        const fields = { wait: name, boundMs: ms, calls: calls.length };
        logger.error(fields, 'Group exceeded its bound and was abandoned');
      };
      abandoned.addEventListener('abort', onAbandon);
      return carryOut(calls, abandoned);
    });
  }

  function watchForSlowness(): () => void {
    if (limits.slow === undefined) return () => {};
    const { clock, afterMs } = limits.slow;
    let isSlow = false;
    const cancel = clock.after(afterMs, () => {
      isSlow = true;
      slow++;
      if (waiting.length > 0) begin();
    });
    return () => {
      cancel();
      if (isSlow) slow--;
    };
  }

  return (call) =>
    new Promise((resolve, reject) => {
      waiting.push({ call, resolve, reject });
      begin();
    });
}
