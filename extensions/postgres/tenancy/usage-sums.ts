import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { PostgresClient } from '../connection/statement.ts';

const ROWS = 1000;
/** So long a row is kept whose batch may still come here by another way, lest it counts twice. */
const UNSEEN_HOURS = 7 * 24;

/**
 * Sums up a step of the ledger's hours that are over: a row a batch becomes a row an hour. Resolves with
 * whether there may be more.
 */
export async function sumUpStep(client: PostgresClient, now: number): Promise<boolean> {
  const current = Math.floor(now / HOUR_MS);
  const { rows } = await client.query(
    `WITH over AS (
       DELETE FROM usage_ledger WHERE batch_id IN (
         SELECT batch_id FROM usage_ledger l
         WHERE hour < $1 AND (hour <= $2 OR EXISTS (SELECT 1 FROM batches b WHERE b.id = l.batch_id))
         ORDER BY hour LIMIT ${ROWS} FOR UPDATE SKIP LOCKED)
       RETURNING organization, project, key, hour, events, bytes
     ), added AS (
       INSERT INTO usage_hours AS u (organization, project, key, hour, events, bytes)
       SELECT organization, project, key, hour, sum(events), sum(bytes) FROM over
       WHERE organization IS NOT NULL GROUP BY organization, project, key, hour
       ON CONFLICT (organization, project, key, hour) DO UPDATE SET
         events = u.events + excluded.events, bytes = u.bytes + excluded.bytes
     )
     SELECT count(*) AS count FROM over`,
    [current - 1, current - UNSEEN_HOURS],
  );
  return Number(rows[0]?.count) === ROWS;
}
