import type { Steps } from '../../../src/component/background.ts';
import type { Clock } from '../../../src/component/component.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Postgres } from '../connection/pool.ts';
import { row } from '../connection/statement.ts';
import { removeFreeBatches } from './batches.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;

const MIN_INTERVAL_MS = 5000;
/** The pause after a walk is at least this multiple of the time that the walk took. */
const REST = 20;
const WHOLE_MS = 24 * 3_600_000;
/** A transaction that stores a younger batch may not have committed its queue entries yet. */
const MARGIN_MS = 10_000;

/**
 * Walks over the batches, oldest first, and removes those that left all queues without becoming part of a trace. One
 * process at a time begins a walk. The next walk begins where the first batch waited in a queue: traces hold the
 * batches before it, and housekeeping notes those in `free_batches` when their traces go. A walk over all batches,
 * once a day, finds the exceptions: replayed dead letters, and batches that arrived with the id of a past day.
 */
export async function* walkBatches(database: Database, clock: Clock, onRemoved: OnRemoved): Steps {
  const begun = clock.now();
  const begin = await claimWalk(database, begun);
  if (begin === undefined) return;
  let after = begin;
  let next: string | undefined;
  for (;;) {
    const { last, beforeWaiting } = await removeFreeBatches(
      database,
      after,
      begun - MARGIN_MS,
      onRemoved,
    );
    next ??= beforeWaiting;
    if (last === undefined) break;
    after = last;
    yield;
  }
  await database.query('UPDATE batch_walk SET begins_after = $1, took_ms = $2', [
    next ?? after,
    Math.max(0, clock.now() - begun),
  ]);
}

/** Walks over all batches now, whenever they were received. */
export async function* walkAllBatches(database: Database, onRemoved: OnRemoved): Steps {
  let after: string | undefined = '';
  while (after !== undefined) {
    ({ last: after } = await removeFreeBatches(
      database,
      after,
      Number.MAX_SAFE_INTEGER,
      onRemoved,
    ));
    yield;
  }
}

/** The id behind which the walk begins; undefined if none is due. */
async function claimWalk(database: Database, now: number): Promise<string | undefined> {
  const claimed = await row<{ after: string }>(
    database,
    `UPDATE batch_walk w SET begun_at = $1,
       whole_at = CASE WHEN old.is_whole THEN $1 ELSE w.whole_at END
     FROM (SELECT abs($1 - whole_at) >= ${WHOLE_MS} AS is_whole FROM batch_walk) old
     WHERE abs($1 - begun_at) >= greatest(${MIN_INTERVAL_MS}, took_ms * ${REST}) OR old.is_whole
     RETURNING CASE WHEN old.is_whole THEN '' ELSE begins_after END AS after`,
    [now],
  );
  return claimed?.after;
}
