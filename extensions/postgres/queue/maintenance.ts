import type { DropReason } from '../../../src/queue/queue.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';
import type { StoreDatabase } from '../database.ts';
import * as sql from './statements.ts';

/** Rows that one step removes from one table. */
const STEP = 1000;

/** Called for every entry that left a branch or its dead letters. */
export type OnDropped = (
  branch: number,
  items: number,
  reason: DropReason,
  wasDead: boolean,
) => void;

type Dropped = { readonly branch: number; readonly items: number };

/**
 * Removes a bounded number of entries, dead letters and idempotency records of a deleted project. Resolves with
 * whether there may be more.
 */
export async function removeEntriesStep(
  client: PostgresClient,
  projectId: string,
  onDropped: OnDropped,
): Promise<boolean> {
  let more = false;
  for (const table of ['queue_entries', 'queue_dead_letters'] as const) {
    const removed = await rows<Dropped>(
      client,
      `DELETE FROM ${table} WHERE ctid IN (SELECT ctid FROM ${table} WHERE project = $1 LIMIT ${STEP})
       RETURNING branch, items`,
      [projectId],
    );
    for (const { branch, items } of removed) {
      onDropped(branch, items, 'project_deleted', table === 'queue_dead_letters');
    }
    if (removed.length === STEP) more = true;
  }
  const { rows: answers } = await client.query(
    `DELETE FROM idempotency
     WHERE hash IN (SELECT hash FROM idempotency WHERE project = $1 LIMIT ${STEP}) RETURNING 1`,
    [projectId],
  );
  return more || answers.length === STEP;
}

/**
 * Removes a bounded number of dead letters of a project that were received before `since`, in milliseconds since the
 * epoch. Resolves with whether there may be more.
 */
export async function expireDeadLettersStep(
  client: PostgresClient,
  projectId: string,
  since: number,
  onDropped: OnDropped,
): Promise<boolean> {
  const removed = await rows<Dropped>(
    client,
    `DELETE FROM queue_dead_letters WHERE id IN (
       SELECT id FROM queue_dead_letters WHERE project = $1 AND received_at < $2 LIMIT ${STEP})
     RETURNING branch, items`,
    [projectId, since],
  );
  for (const { branch, items } of removed) onDropped(branch, items, 'retention', true);
  return removed.length === STEP;
}

/** Reads every batch that waits in a queue, and quarantines those without a body. */
export async function verifyQueue(
  database: StoreDatabase,
  queue: string,
  now: number,
): Promise<{ entries: number; quarantined: number }> {
  let entries = 0;
  let quarantined = 0;
  let after = '';
  for (;;) {
    const page = await rows<{ batch_id: string }>(database, sql.PAGE, [queue, after]);
    if (page.length === 0) return { entries, quarantined };
    const ids = page.map(({ batch_id }) => batch_id);
    const read = await database.readBatches(ids);
    for (const id of ids) {
      if (read.has(id)) continue;
      quarantined++;
      await database.query(sql.QUARANTINE, [queue, id, MISSING_BODY, now]);
    }
    entries += ids.length;
    after = ids.at(-1) ?? '';
  }
}

/** The reason in `queue_quarantined`. */
export const MISSING_BODY = 'its body is missing';
