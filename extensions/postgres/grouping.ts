import { RetryableError } from '../../src/model/errors.ts';

/**
 * Carries out calls in groups: what comes while a group is under way waits, and goes with the next one.
 * Groups follow each other, so that calls take effect in the order they came.
 */
export function grouped<Call, Result>(
  limits: { readonly count: number; readonly weight: number },
  weigh: (call: Call) => number,
  carryOut: (calls: readonly Call[]) => Promise<readonly Result[]>,
): (call: Call) => Promise<Result> {
  type Waiting = {
    readonly call: Call;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  };
  let waiting: Waiting[] = [];
  let isUnderWay = false;

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

  async function run(): Promise<void> {
    while (waiting.length > 0) {
      const group = nextGroup();
      try {
        const results = await carryOut(group.map(({ call }) => call));
        for (const [i, { resolve, reject }] of group.entries()) {
          const result = results[i];
          if (result === undefined) reject(new Error('a call of a group has no result'));
          else resolve(result);
        }
      } catch (error) {
        for (const { reject } of group) reject(error);
        if (!(error instanceof RetryableError)) continue;
        // Who waited meanwhile has waited long enough to be told the same.
        for (const { reject } of waiting) reject(error);
        waiting = [];
      }
    }
    isUnderWay = false;
  }

  return (call) =>
    new Promise((resolve, reject) => {
      waiting.push({ call, resolve, reject });
      if (isUnderWay) return;
      isUnderWay = true;
      // What else this turn of the event loop brings comes along.
      setImmediate(() => void run());
    });
}
