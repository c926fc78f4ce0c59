import { Background } from '../../../src/component/background.ts';
import type { Clock, Logger } from '../../../src/component/component.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row } from '../connection/statement.ts';

/**
 * The way of usage through the ledger:
 *
 *   usage_ledger, a row per batch ──(seconds)──▶ usage_hours, a row per key and hour
 *                └─ the row stays without usage until its hour is over ──▶ deleted
 */

/** Rows without a batch that one step deletes. */
const STEP = 1000;
/** Rows whose usage one step adds: less than 0.2 s. */
const NEW_STEP = 5000;
const EVERY_MS = 5_000;
const PAUSE_MS = 5;
/**
 * A row without its batch stays this long in the ledger: the batch may still arrive through another store, and would
 * count twice.
 */
const UNSEEN_HOURS = 7 * 24;

/** The place of a row in the order in which rows are summed up. */
type LedgerPlace = readonly [hour: number, batchId: string];
const FIRST: LedgerPlace = [0, ''];

/**
 * Adds the usage of rows that entered the ledger since the last call to the sums by hour, in steps. Each step is one
 * statement and keeps what it did, so a call that fails leaves less for the next one. Several processes may do it at
 * the same time: one leaves out the rows of another, or waits for them if `isComplete`, so that `usage_hours` has
 * everything that was entered before the call. Resolves with the number of rows.
 */
export async function sumNew(
  client: PostgresClient,
  step = NEW_STEP,
  isComplete = false,
): Promise<number> {
  let summed = 0;
  for (let after: LedgerPlace | undefined = FIRST; after !== undefined; ) {
    const { count, next } = await sumNewStep(client, after, step, isComplete);
    summed += count;
    after = next;
  }
  return summed;
}

async function sumNewStep(
  client: PostgresClient,
  [hour, batchId]: LedgerPlace,
  step: number,
  isComplete: boolean,
): Promise<{ readonly count: number; readonly next: LedgerPlace | undefined }> {
  const found = await row<{ count: number; last: [number, string] | null }>(
    client,
    `WITH fresh AS MATERIALIZED (
       SELECT batch_id, organization, project, key, hour, events, bytes FROM usage_ledger
       WHERE (events > 0 OR bytes > 0) AND (hour, batch_id) > ($1, $2)
       ORDER BY hour, batch_id LIMIT $3 FOR UPDATE ${isComplete ? '' : 'SKIP LOCKED'}
     ), emptied AS (
       UPDATE usage_ledger l SET events = 0, bytes = 0 FROM fresh f WHERE l.batch_id = f.batch_id
     ), added AS (
       INSERT INTO usage_hours AS u (organization, project, key, hour, events, bytes)
       SELECT organization, project, key, hour, sum(events), sum(bytes) FROM fresh
       GROUP BY organization, project, key, hour ORDER BY organization, project, key, hour
       ON CONFLICT (organization, project, key, hour) DO UPDATE SET
         events = u.events + excluded.events, bytes = u.bytes + excluded.bytes
     )
     SELECT count(*) AS count,
       (SELECT json_build_array(hour, batch_id) FROM fresh ORDER BY hour DESC, batch_id DESC LIMIT 1) AS last
     FROM fresh`,
    [hour, batchId, step],
  );
  const { count, last } = found ?? { count: 0, last: null };
  return { count, next: count < step || last === null ? undefined : last };
}

/** Sums new usage up every few seconds. Every process does it, because a frozen one must not hold it up. */
export function ledgerSums(client: PostgresClient, clock: Clock, logger: Logger): Background {
  let after = FIRST;
  const background = new Background({
    clock,
    logger,
    everyMs: EVERY_MS,
    betweenMs: PAUSE_MS,
    failure: 'Usage could not be summed up; retried',
    async step() {
      const { next } = await sumNewStep(client, after, NEW_STEP, false);
      after = next ?? FIRST;
      return next !== undefined;
    },
  });
  background.wake();
  return background;
}

/**
 * Deletes a bounded number of rows once their hour is over, and adds usage that they still have to the sums. Resolves
 * with whether there may be more.
 */
export async function sumUpStep(client: PostgresClient, now: number): Promise<boolean> {
  const current = Math.floor(now / HOUR_MS);
  const summed = await row<{ count: number }>(
    client,
    `WITH over AS (
       DELETE FROM usage_ledger WHERE batch_id IN (
         SELECT batch_id FROM usage_ledger l
         WHERE hour < $1 AND (hour <= $2 OR EXISTS (SELECT 1 FROM batches b WHERE b.id = l.batch_id))
         ORDER BY hour LIMIT ${STEP} FOR UPDATE SKIP LOCKED)
       RETURNING organization, project, key, hour, events, bytes
     ), added AS (
       INSERT INTO usage_hours AS u (organization, project, key, hour, events, bytes)
       SELECT organization, project, key, hour, sum(events), sum(bytes) FROM over
       WHERE organization IS NOT NULL AND (events > 0 OR bytes > 0)
       GROUP BY organization, project, key, hour ORDER BY organization, project, key, hour
       ON CONFLICT (organization, project, key, hour) DO UPDATE SET
         events = u.events + excluded.events, bytes = u.bytes + excluded.bytes
     )
     SELECT count(*) AS count FROM over`,
    [current - 1, current - UNSEEN_HOURS],
  );
  return summed?.count === STEP;
}
