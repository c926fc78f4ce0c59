import type { Clock } from '../component/component.ts';

/** How long a request waits for others, all in all; what its own body takes on the way does not count. */
export type Patience = {
  /** It is over: the client has been told. */
  readonly isOver: boolean;
  /** Resolves and rejects as `work` does, whenever that is; meanwhile the time runs. */
  wait<T>(work: Promise<T> | T): Promise<T> | T;
};

/** `ms` undefined: as long as it takes. `onOver` is called once, while somebody waits. */
export function patienceOf(ms: number | undefined, clock: Clock, onOver: () => void): Patience {
  let left = ms ?? 0;
  let isOver = false;

  async function timed<T>(work: Promise<T>): Promise<T> {
    const begun = clock.now();
    const cancel = clock.after(left, () => {
      isOver = true;
      onOver();
    });
    try {
      return await work;
    } finally {
      cancel();
      left = Math.max(1, left - Math.max(0, clock.now() - begun));
    }
  }

  return {
    get isOver() {
      return isOver;
    },
    wait: (work) => (ms === undefined || isOver || !(work instanceof Promise) ? work : timed(work)),
  };
}
