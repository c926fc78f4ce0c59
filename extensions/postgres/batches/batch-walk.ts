import type { Steps } from '../../../src/component/background.ts';
import type { Clock } from '../../../src/component/component.ts';
import type { QueueDatabase } from '../database.ts';
import type { OnRemoved } from './batches.ts';
import { removeFreeBatches } from './batches.ts';

type Database = Pick<QueueDatabase, 'query' | 'transaction'>;

const EVERY_MS = 5000;
/** Of the time a walk took so many times as much passes before the next one. */
const REST = 20;
const WHOLE_MS = 24 * 3_600_000;
/** What came so lately may be in a transaction that has not ended. */
const MARGIN_MS = 10_000;

/**
 * Walks over the batches, oldest first, and removes those that left all queues without becoming a trace. Of
 * all processes one begins a walk at a time; the next one begins where the first batch waited in a queue,
 * because what stands before it is held by traces, and noted in `free_batches` when they go. Once a day
 * everything is looked through: what was dead and was sent again, what came with an id of long ago.
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

/** Everything at once, however lately it came. */
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

/** Where the walk begins; undefined while none is due. */
async function claimWalk(database: Database, now: number): Promise<string | undefined> {
  const { rows } = await database.query(
    `UPDATE batch_walk w SET begun_at = $1,
       whole_at = CASE WHEN old.is_whole THEN $1 ELSE w.whole_at END
     FROM (SELECT abs($1 - whole_at) >= ${WHOLE_MS} AS is_whole FROM batch_walk) old
     WHERE abs($1 - begun_at) >= greatest(${EVERY_MS}, took_ms * ${REST}) OR old.is_whole
     RETURNING CASE WHEN old.is_whole THEN '' ELSE begins_after END AS after`,
    [now],
  );
  return rows[0] === undefined ? undefined : String(rows[0].after);
}
