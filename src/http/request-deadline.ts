import type { Clock } from '../component/component.ts';
import { NEVER_ABORTED } from '../model/request-context.ts';

/**
 * The time that a request may wait for its pipeline, over all steps together. The time in which its own body
 * arrives does not count.
 */
export type RequestDeadline = {
  /** Aborted when the deadline passes. */
  readonly signal: AbortSignal;
  /** Settles as `work` does, also after the deadline; the time runs until then. */
  wait<T>(work: Promise<T> | T): Promise<T> | T;
};

const NO_DEADLINE: RequestDeadline = { signal: NEVER_ABORTED, wait: (work) => work };

/** `ms` undefined: no deadline. `onPassed` is called once, while `wait` is waiting. */
export function requestDeadline(
  ms: number | undefined,
  clock: Clock,
  onPassed: () => void,
): RequestDeadline {
  if (ms === undefined) return NO_DEADLINE;
  const abort = new AbortController();
  let left = ms;

  async function timed<T>(work: Promise<T>): Promise<T> {
    const begun = clock.now();
    const cancel = clock.after(left, () => {
      abort.abort();
      onPassed();
    });
    try {
      return await work;
    } finally {
      cancel();
      left = Math.max(1, left - Math.max(0, clock.now() - begun));
    }
  }

  return {
    signal: abort.signal,
    wait: (work) => (abort.signal.aborted || !(work instanceof Promise) ? work : timed(work)),
  };
}
