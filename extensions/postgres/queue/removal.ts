import type { DropReason } from '../../../src/queue/queue.ts';
import type { StoreDatabase } from '../database.ts';

const ROWS = 1000;

/** Told of every place that a batch has left, waiting or dead. */
export type Forgotten = (
  branch: number,
  items: number,
  reason: DropReason,
  wasDead: boolean,
) => void;

/**
 * Takes out a bounded part of what a deleted project left in the queues; resolves with whether there may
 * be more.
 */
export async function removeStep(
  database: StoreDatabase,
  projectId: string,
  forgotten: Forgotten,
): Promise<boolean> {
  let more = false;
  for (const table of ['queue_entries', 'queue_dead_letters'] as const) {
    const { rows } = await database.query(
      `DELETE FROM ${table} WHERE ctid IN (SELECT ctid FROM ${table} WHERE project = $1 LIMIT ${ROWS})
       RETURNING branch, items`,
      [projectId],
    );
    for (const { branch, items } of rows) {
      forgotten(Number(branch), Number(items), 'project_deleted', table === 'queue_dead_letters');
    }
    if (rows.length === ROWS) more = true;
  }
  const { rows } = await database.query(
    `DELETE FROM idempotency
     WHERE hash IN (SELECT hash FROM idempotency WHERE project = $1 LIMIT ${ROWS}) RETURNING 1`,
    [projectId],
  );
  return more || rows.length === ROWS;
}

/**
 * Takes out a bounded part of the dead letters of a project that were received before `since`, in
 * milliseconds since the epoch; resolves with whether there may be more.
 */
export async function expireStep(
  database: StoreDatabase,
  projectId: string,
  since: number,
  forgotten: Forgotten,
): Promise<boolean> {
  const { rows } = await database.query(
    `DELETE FROM queue_dead_letters WHERE id IN (
       SELECT id FROM queue_dead_letters WHERE project = $1 AND received_at < $2 LIMIT ${ROWS})
     RETURNING branch, items`,
    [projectId, since],
  );
  for (const { branch, items } of rows) {
    forgotten(Number(branch), Number(items), 'retention', true);
  }
  return rows.length === ROWS;
}
