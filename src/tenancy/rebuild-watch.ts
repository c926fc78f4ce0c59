import type { Clock, Logger } from '../component/component.ts';

/** Watches counters that were lost: requests are refused until they are rebuilt. */
export type RebuildWatch = {
  /** Runs an attempt to rebuild the counters. The first one that fails is logged. */
  attempt<T>(work: () => Promise<T>): Promise<T>;
  /** Whether requests have been refused for longer than one waits for its answer. */
  isLate(): boolean;
  close(): void;
};

/** A request that waits for a rebuild is answered by then. Milliseconds. */
const LATE_MS = 1_500;

export function rebuildWatch(clock: Clock, logger: Logger): RebuildWatch {
  let lostAt: number | undefined;
  let isLate = false;
  let hasFailed = false;
  let cancel = (): void => {};

  function lost(): void {
    if (lostAt !== undefined) return;
    lostAt = clock.now();
    cancel = clock.after(LATE_MS, () => {
      isLate = true;
      logger.warn({}, 'Quota counters are being rebuilt; requests are refused until then');
    });
  }

  function rebuilt(): void {
    cancel();
    if (isLate) {
      const milliseconds = Math.max(0, clock.now() - (lostAt ?? 0));
      logger.info({ milliseconds }, 'Quota counters rebuilt; requests are admitted again');
    }
    lostAt = undefined;
    isLate = false;
    hasFailed = false;
  }

  return {
    async attempt(work) {
      lost();
      try {
        const result = await work();
        rebuilt();
        return result;
      } catch (error) {
        if (!hasFailed) logger.warn({ err: error }, 'Quota counters could not be rebuilt; retried');
        hasFailed = true;
        throw error;
      }
    },
    isLate: () => isLate,
    close: () => cancel(),
  };
}
