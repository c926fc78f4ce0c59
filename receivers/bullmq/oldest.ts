import type { Clock, Logger } from '../../src/component/component.ts';
import type { Waits } from '../../src/component/waits.ts';
import { oldestAgeSeconds } from '../../src/queue/gauges.ts';

const READ_MS = 5000;

/** The oldest batch that no worker has taken, read at an interval because health reports must be fast. */
export type OldestWatch = {
  /** Null if none waits, as far as the last successful read knows. */
  ageSeconds(): number | null;
  stop(): void;
};

export function watchOldest(
  read: () => Promise<number | undefined>,
  waits: Waits,
  clock: Clock,
  logger: Logger,
): OldestWatch {
  let oldestAt: number | undefined;
  let isStopped = false;
  let cancel = (): void => {};

  async function readNow(): Promise<void> {
    try {
      oldestAt = await waits.step('read the oldest waiting batch', read);
    } catch (error) {
      logger.debug({ err: error }, 'Oldest waiting batch could not be read');
    }
    if (!isStopped) cancel = clock.after(READ_MS, () => void readNow());
  }

  void readNow();
  return {
    ageSeconds: () => oldestAgeSeconds([{ oldestAt }], clock.now()),
    stop() {
      isStopped = true;
      cancel();
    },
  };
}
