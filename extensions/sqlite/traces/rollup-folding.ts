import { Background } from '../../../src/component/background.ts';
import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { StoreOperations } from '../operations.ts';

/** The pause between two steps, for calls that a client waits for. */
const BETWEEN_MS = 5;
/** The time from a write to the fold of its changes: the changes of writes in between are summed up before. */
const ROUND_MS = 2_000;

export type RollupFolding = {
  /** Called when a write changed rollups. */
  wake(): void;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/**
 * Adds the changes of writes to the rows of rollups, so that a write inserts one row whatever it changes, and readers have
 * few changes to add themselves. Projects take turns.
 */
export function rollupFolding(
  database: Database<StoreOperations>,
  clock: Clock,
  logger: Logger,
): RollupFolding {
  let after = '';
  let cancelRound: (() => void) | undefined;

  async function step(): Promise<boolean> {
    const found = await database.search('rollups.toFold', [after]);
    if (found !== null) await database.write('rollups.fold', [found]);
    const isLast = found === null && after === '';
    after = found?.project ?? '';
    return !isLast;
  }

  const background = new Background({
    clock,
    logger,
    betweenMs: BETWEEN_MS,
    failure: 'Rollups could not be updated; retrying',
    step,
  });
  background.wake();

  function stop(): void {
    cancelRound?.();
    background.stop();
  }

  return {
    wake() {
      cancelRound ??= clock.after(ROUND_MS, () => {
        cancelRound = undefined;
        background.wake();
      });
    },
    finish: () => background.finish(),
    async close() {
      stop();
      await background.close();
    },
    crash: stop,
  };
}
