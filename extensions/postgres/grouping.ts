import type { Clock } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';

export type GroupLimits = {
  readonly count: number;
  readonly weight: number;
  /**
   * Lets calls overtake: those that come while every group under way has taken longer than `afterMs` make
   * another one, up to `most` at a time. Without it groups follow each other, and calls take effect in order.
   */
  readonly slow?: { readonly clock: Clock; readonly afterMs: number; readonly most: number };
};

/** What a call of a group comes to that fails while others of the group succeed. */
export class Failed {
  readonly failure: unknown;

  constructor(failure: unknown) {
    this.failure = failure;
  }
}

/** Carries out calls in groups: what comes while a group is under way waits, and goes with the next one. */
export function grouped<Call, Result>(
  limits: GroupLimits,
  weigh: (call: Call) => number,
  carryOut: (calls: readonly Call[]) => Promise<readonly (Result | Failed)[]>,
): (call: Call) => Promise<Result> {
  type Waiting = {
    readonly call: Call;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  };
  let waiting: Waiting[] = [];
  let underWay = 0;
  /** Of those under way. */
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
    if (underWay > slow || underWay >= (limits.slow?.most ?? 1)) return;
    underWay++;
    // What else this turn of the event loop brings comes along.
    setImmediate(() => void run());
  }

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      const group = nextGroup();
      const over = watch();
      try {
        const results = await carryOut(group.map(({ call }) => call));
        for (const [i, { resolve, reject }] of group.entries()) {
          const result = results[i];
          if (result === undefined) reject(new Error('a call of a group has no result'));
          else if (result instanceof Failed) reject(result.failure);
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of group) reject(error);
        if (!(error instanceof RetryableError)) continue;
        // Who waited meanwhile has waited long enough to be told the same.
        for (const { reject } of waiting) reject(error);
        waiting = [];
      } finally {
        over();
      }
    }
    underWay--;
  }

  /** Notes when a group becomes slow; the function ends that. */
  function watch(): () => void {
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
