/** The statements of the queues, and the rows that they return. migrations/0002-queues.ts has the tables. */
import { DATABASE_NOW } from '../connection/database-clock.ts';
import type { LeasedRow } from './leases.ts';

/** The longest wait before a retry. A later due time was written while the clock of the database was ahead, and counts as due. */
const LONGEST_RETRY_MS = 3_600_000;
/** The clocks of the servers before and after a failover differ by less, as a rule. */
const SMALL_SKEW_MS = 60_000;

/**
 * The outcome of a delivery may be lost in a crash of the database: the entry is delivered again. So the commit of
 * these statements does not wait for the disk.
 */
const LAZILY = `lazily AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))`;

/** $1 ids, $2 projects, $3 received, $4 items, $5 bytes, $6 branches. `seq` grows in the order of the arrays. */
export const ENTER = `
  WITH given AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bigint[])
      WITH ORDINALITY AS g (batch_id, project, received_at, items, bytes, place)
    ORDER BY place
  ),
  numbered AS MATERIALIZED (SELECT nextval('queue_seq') AS seq, given.* FROM given)
  INSERT INTO queue_entries (branch, batch_id, seq, project, received_at, items, bytes)
  SELECT b.id, n.batch_id, n.seq, n.project, n.received_at, n.items, n.bytes
  FROM numbered n CROSS JOIN unnest($6::integer[]) AS b (id)
  ON CONFLICT (branch, batch_id) DO NOTHING
  RETURNING branch, batch_id, seq`;

/** $1 branch, $2 entries, $3 bytes, $4 holder. Leases new entries, and released ones that are due. */
export const LEASE = `
  WITH ${LAZILY},
  present AS MATERIALIZED (SELECT ${DATABASE_NOW} AS now),
  again AS (
    SELECT batch_id, seq, bytes FROM queue_entries
    WHERE branch = $1 AND holder IS NULL AND due > 0 AND due <= (SELECT now FROM present)
    ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
  ),
  misdated AS (
    SELECT batch_id, seq, bytes FROM queue_entries
    WHERE branch = $1 AND holder IS NULL AND due > (SELECT now FROM present) + ${LONGEST_RETRY_MS}
    ORDER BY due LIMIT $2 FOR UPDATE SKIP LOCKED
  ),
  fresh AS (
    SELECT batch_id, seq, bytes FROM queue_entries
    WHERE branch = $1 AND holder IS NULL AND due = 0
    ORDER BY seq LIMIT $2 FOR UPDATE SKIP LOCKED
  ),
  chosen AS (
    SELECT batch_id, seq, row_number() OVER line AS place, sum(bytes) OVER line AS so_far
    FROM (SELECT * FROM again UNION ALL SELECT * FROM misdated UNION ALL SELECT * FROM fresh) due
    WINDOW line AS (ORDER BY seq)
  ),
  leased AS (
    UPDATE queue_entries e SET holder = $4, due = 0 FROM chosen c
    WHERE e.branch = $1 AND e.batch_id = c.batch_id
      AND (c.place = 1 OR (c.place <= $2 AND c.so_far <= $3))
    RETURNING e.*
  )
  SELECT leased.* FROM leased, lazily ORDER BY seq`;

/** $1 queue, $2 batch ids, $3 all branches, $4 branches to lease in, $5 holder. */
export type TakenRow = LeasedRow & { readonly branch: number; readonly leased: boolean };
export const TAKE = `
  WITH ${LAZILY},
  taken AS (
    DELETE FROM queue_entries e USING queue_branches b
    WHERE b.queue = $1 AND e.branch = b.id AND e.batch_id = ANY ($2)
    RETURNING e.batch_id, e.seq, e.project, e.received_at, e.items, e.bytes
  ),
  moved AS (
    INSERT INTO queue_entries (branch, batch_id, seq, project, received_at, items, bytes, holder)
    SELECT b.id, t.batch_id, t.seq, t.project, t.received_at, t.items, t.bytes,
      CASE WHEN b.id = ANY ($4::integer[]) THEN $5 END
    FROM taken t CROSS JOIN unnest($3::integer[]) AS b (id)
    ON CONFLICT (branch, batch_id) DO NOTHING
    RETURNING *
  )
  SELECT moved.*, moved.holder IS NOT NULL AS leased FROM moved, lazily ORDER BY seq`;

/**
 * $1 branches, $2 milliseconds in the branch, $3 limit, $4 after this batch id. An entry of a later time entered while the clock of the
 * database was ahead.
 */
export const WAITING = `
  SELECT batch_id FROM queue_entries
  WHERE branch = ANY ($1) AND holder IS NULL AND batch_id > $4
    AND coalesce(entered_at, received_at)
      NOT BETWEEN ${DATABASE_NOW} - $2::bigint + 1 AND ${DATABASE_NOW} + ${SMALL_SKEW_MS}
  ORDER BY batch_id LIMIT $3`;

/** $1 queue. Ids of batches grow with the time of their receipt. */
export const OLDEST = `
  SELECT first.received_at AS oldest
  FROM queue_branches b CROSS JOIN LATERAL (
    SELECT received_at FROM queue_entries e WHERE e.branch = b.id ORDER BY e.batch_id LIMIT 1
  ) first
  WHERE b.queue = $1 ORDER BY oldest LIMIT 1`;

/** $1 branch, $2 batch ids, $3 all branches of the queue, $4 holder. No row for an entry whose lease was lost. */
export type EndedRow = {
  readonly batch_id: string;
  readonly items: number;
  /** Whether another branch still holds the batch. */
  readonly waits: boolean;
  /** When the oldest entry left in the branch was received; null if the branch is empty. */
  readonly oldest: number | null;
};
export const END = `
  WITH ${LAZILY},
  ended AS (
    DELETE FROM queue_entries WHERE branch = $1 AND batch_id = ANY ($2) AND holder = $4
    RETURNING batch_id, items
  )
  SELECT ended.batch_id, ended.items,
    EXISTS (
      SELECT 1 FROM queue_entries e
      WHERE e.branch = ANY ($3) AND e.branch <> $1 AND e.batch_id = ended.batch_id) AS waits,
    (SELECT received_at FROM queue_entries e
     WHERE e.branch = $1 AND NOT e.batch_id = ANY ($2) ORDER BY e.batch_id LIMIT 1) AS oldest
  FROM ended, lazily`;

/** $1 branch, $2 batch id, $3 attempts, $4 milliseconds until it is due, an hour at most, $5 holder. */
export const RELEASE = `
  WITH ${LAZILY},
  released AS (
    UPDATE queue_entries SET holder = NULL, attempts = $3,
      due = CASE WHEN $4::bigint = 0 THEN 0 ELSE ${DATABASE_NOW} + least($4, ${LONGEST_RETRY_MS}) END
    WHERE branch = $1 AND batch_id = $2 AND holder = $5 RETURNING 1
  )
  SELECT 1 FROM released, lazily`;

/** $1 branch, $2 batch id, $3 code, $4 message, $5 now, $6 items, $7 all branches of the queue, $8 holder. No row: no entry. */
export type DeadLetteredRow = Pick<EndedRow, 'waits' | 'oldest'>;
export const DEAD_LETTER = `
  WITH ended AS (
    DELETE FROM queue_entries WHERE branch = $1 AND batch_id = $2 AND holder = $8 RETURNING *
  ),
  kept AS (
    INSERT INTO queue_dead_letters
      (branch, batch_id, seq, project, received_at, items, bytes, code, message, failed_at)
    SELECT branch, batch_id, seq, project, received_at, $6, bytes, $3, $4, $5 FROM ended
    RETURNING batch_id
  )
  SELECT
    EXISTS (
      SELECT 1 FROM queue_entries e
      WHERE e.branch = ANY ($7) AND e.branch <> $1 AND e.batch_id = $2) AS waits,
    (SELECT received_at FROM queue_entries e
     WHERE e.branch = $1 AND e.batch_id <> $2 ORDER BY e.batch_id LIMIT 1) AS oldest
  FROM kept`;

/** $1 queue, $2 after this id, $3 branch or null, $4 limit. */
export type StoredDeadLetter = {
  readonly id: number;
  readonly branch: string;
  readonly batch_id: string;
  readonly project: string;
  readonly items: number;
  readonly bytes: number;
  readonly code: string;
  readonly message: string;
  readonly failed_at: number;
};
export const DEAD_LETTERS = `
  SELECT d.id, b.branch, d.batch_id, d.project, d.items, d.bytes, d.code, d.message, d.failed_at
  FROM queue_dead_letters d JOIN queue_branches b ON b.id = d.branch
  WHERE b.queue = $1 AND d.id > $2 AND ($3::text IS NULL OR b.branch = $3) ORDER BY d.id LIMIT $4`;

const NAMED_DEAD_LETTERS = `
  named AS (
    DELETE FROM queue_dead_letters d USING queue_branches b
    WHERE b.id = d.branch AND b.queue = $1 AND ($2::bigint[] IS NULL OR d.id = ANY ($2))
    RETURNING d.*, b.branch AS name
  )`;

/** $1 queue, $2 ids or null for all. A row for each dead letter that was replayed. */
export type ReplayedEntry = {
  readonly branch: string;
  readonly items: number;
  readonly bytes: number;
  readonly received_at: number;
  /** Items of the entry that the dead letter became; null if the branch had the batch already. */
  readonly all_items: number | null;
  /** Whether this dead letter became an entry, of several of one batch. */
  readonly entered: boolean;
  /** Whether an entry or an earlier row of the batch counts its bytes already. */
  readonly waited: boolean;
};
export const REPLAY = `
  WITH ${NAMED_DEAD_LETTERS},
  entered AS (
    INSERT INTO queue_entries (branch, batch_id, seq, project, received_at, items, bytes)
    SELECT branch, batch_id, max(seq), max(project), max(received_at), max(items), max(bytes)
    FROM named GROUP BY branch, batch_id
    ON CONFLICT (branch, batch_id) DO NOTHING
    RETURNING branch, batch_id, items
  )
  SELECT named.name AS branch, named.items, named.bytes, named.received_at, e.items AS all_items,
    e.batch_id IS NOT NULL AND row_number() OVER (PARTITION BY named.branch, named.batch_id) = 1
      AS entered,
    row_number() OVER (PARTITION BY named.batch_id) > 1 OR EXISTS (
      SELECT 1 FROM queue_entries w JOIN queue_branches b ON b.id = w.branch
      WHERE b.queue = $1 AND w.batch_id = named.batch_id) AS waited
  FROM named LEFT JOIN entered e USING (branch, batch_id)`;

/** $1 queue, $2 ids or null for all. */
export const DROP = `WITH ${NAMED_DEAD_LETTERS} SELECT items FROM named`;

/** $1 queue, $2 batch id, $3 reason, $4 now. */
export const QUARANTINE = `
  INSERT INTO queue_quarantined (queue, batch_id, reason, found_at) VALUES ($1, $2, $3, $4)
  ON CONFLICT DO NOTHING`;

/** $1 queue, $2 after this batch id. */
export const PAGE = `
  SELECT DISTINCT e.batch_id, e.project, e.received_at
  FROM queue_entries e JOIN queue_branches b ON b.id = e.branch
  WHERE b.queue = $1 AND e.batch_id > $2 ORDER BY e.batch_id LIMIT 100`;
