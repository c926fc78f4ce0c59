import type { RawBatch } from '../../src/model/batch.ts';
import type { PostgresClient, Row } from '../../src/postgres/pool.ts';
import type { BatchRecord } from '../../src/queue/record.ts';
import { batchOf, RECORD_COLUMNS, recordOf } from '../../src/queue/record.ts';

const COLUMNS = RECORD_COLUMNS.split(', ');
/** A statement takes 65,535 values. */
const MOST_AT_ONCE = 1000;
/** Batches that one step looks at. */
const STEP = 1000;

/** Keeps batches; resolves with those that were not here yet. */
export async function insertBatches(
  client: PostgresClient,
  batches: readonly RawBatch[],
): Promise<ReadonlySet<string>> {
  const isNew = new Set<string>();
  for (let from = 0; from < batches.length; from += MOST_AT_ONCE) {
    const records = batches.slice(from, from + MOST_AT_ONCE).map((batch) => recordOf(batch));
    const rows = records.map((_, i) => placeholders(i * COLUMNS.length + 1));
    const inserted = await client.query(
      `INSERT INTO batches (${RECORD_COLUMNS}) VALUES ${rows.join(', ')} ON CONFLICT DO NOTHING
       RETURNING id`,
      records.flatMap((record) => [...record]),
    );
    for (const { id } of inserted.rows) isNew.add(String(id));
  }
  return isNew;
}

function placeholders(first: number): string {
  return `(${COLUMNS.map((_, i) => `$${first + i}`).join(', ')})`;
}

/** Those that are here, by id. */
export async function readBatches(
  client: PostgresClient,
  ids: readonly string[],
): Promise<ReadonlyMap<string, RawBatch>> {
  const { rows } = await client.query(`SELECT ${RECORD_COLUMNS} FROM batches WHERE id = ANY ($1)`, [
    ids,
  ]);
  return new Map(rows.map((row) => [String(row.id), batchOf(recordIn(row))]));
}

/** A row with the columns of a record. */
export function recordIn(row: Row): BatchRecord {
  const numbers = ['received_at', 'usage_events', 'usage_bytes'];
  const cells = COLUMNS.map((name) => (numbers.includes(name) ? Number(row[name]) : row[name]));
  return cells as unknown as BatchRecord;
}

/**
 * Removes batches that nobody waits for any more, a bounded step. Resolves with where the next one goes on;
 * undefined at the end. Those received after `before` may be on their way into a queue.
 */
export async function removeFreeBatches(
  client: PostgresClient,
  after: string,
  before: number,
): Promise<string | undefined> {
  const { rows } = await client.query(
    `WITH looked AS (
       SELECT id FROM batches WHERE id > $1 AND received_at < $2 ORDER BY id LIMIT ${STEP}
     ), removed AS (
       DELETE FROM batches b USING looked l
       WHERE b.id = l.id
         AND NOT EXISTS (SELECT 1 FROM queue_entries e WHERE e.batch_id = b.id)
         AND NOT EXISTS (SELECT 1 FROM queue_dead_letters d WHERE d.batch_id = b.id)
     )
     SELECT max(id) AS last, count(*) AS count FROM looked`,
    [after, before],
  );
  const { last, count } = rows[0] ?? {};
  return Number(count) < STEP ? undefined : String(last);
}
