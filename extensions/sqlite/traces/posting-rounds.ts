import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { StoreOperations } from '../operations.ts';
import { backgroundRounds, type Rounds } from './rounds.ts';

/** The pause between two steps, for calls that a client waits for. */
const BETWEEN_MS = 5;
/** The time from a write to the posting of its traces, so that many traces are posted together. */
const ROUND_MS = 2_000;

/** A write wakes it. */
export type Posting = Rounds;

/** Posts new traces (`postings.ts`). */
export function posting(
  database: Pick<Database<StoreOperations>, 'write'>,
  clock: Clock,
  logger: Logger,
): Posting {
  const step = async () =>
    (await database.write('traces.group', [])) || (await database.write('traces.post', []));
  const failure = 'New traces could not be posted; retrying';
  return backgroundRounds({ clock, logger, betweenMs: BETWEEN_MS, failure, step }, () => ROUND_MS);
}
