import type { QueueDatabase } from './queue-database.ts';

const ROWS = 1000;

/**
 * Takes out a bounded part of what a deleted project left in the queues; resolves with whether there may
 * be more. `forgotten` is told of every place, waiting or dead.
 */
export async function removeStep(
  database: QueueDatabase,
  projectId: string,
  forgotten: (branch: number, items: number, wasDead: boolean) => void,
): Promise<boolean> {
  let more = false;
  for (const table of ['queue_entries', 'queue_dead_letters'] as const) {
    const { rows } = await database.query(
      `DELETE FROM ${table} WHERE ctid IN (SELECT ctid FROM ${table} WHERE project = $1 LIMIT ${ROWS})
       RETURNING branch, items`,
      [projectId],
    );
    for (const { branch, items } of rows) {
      forgotten(Number(branch), Number(items), table === 'queue_dead_letters');
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
