import type { Steps } from '../../../src/component/background.ts';
import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { StoreOperations } from '../operations.ts';
import { backgroundRounds, type Rounds } from './rounds.ts';

/** The pause between two steps, for calls that a client waits for. */
const BETWEEN_MS = 5;
/** The time from a write to the fold of its changes: the changes of writes in between are summed up before. */
const ROUND_MS = 2_000;

/** A write wakes it when it changed rollups. */
export type RollupFolding = Rounds;

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

  async function step(): Promise<boolean> {
    const found = await database.search('rollups.toFold', [after]);
    if (found !== null) await database.write('rollups.fold', [found]);
    const isLast = found === null && after === '';
    after = found?.project ?? '';
    return !isLast;
  }

  const failure = 'Rollups could not be updated; retrying';
  return backgroundRounds({ clock, logger, betweenMs: BETWEEN_MS, failure, step }, () => ROUND_MS);
}

/** Adds the changes of a project that wait now. Those of later writes are left to the background, so it ends beside a load. */
export async function* foldWaiting(
  database: Pick<Database<StoreOperations>, 'search' | 'write'>,
  project: string,
): Steps {
  let end: number | undefined;
  for (;;) {
    const step = await database.search('rollups.toFoldOf', [project]);
    if (step === null) return;
    end ??= step.newest;
    if (step.from > end) return;
    await database.write('rollups.fold', [step]);
    yield;
  }
}
