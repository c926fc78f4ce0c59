import type { SealedBatch } from '../../../src/model/batch.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { batchOf, RECORD_COLUMNS, recordOf } from '../../../src/queue/record.ts';
import type { PostgresClient, Row } from '../connection/statement.ts';
import type { QueueDatabase } from '../database.ts';

const COLUMNS = RECORD_COLUMNS.split(', ');
/** A statement takes 65,535 values. */
const MOST_AT_ONCE = 1000;
/** Batches that one step looks at. */
const STEP = 1000;
/** Bytes of bodies that one step removes. */
const STEP_BYTES = 64 * 1024 * 1024;

/**
 * Keeps batches; resolves with those that were not here yet. None of them can be removed before the
 * transaction ends.
 */
export async function insertBatches(
  client: PostgresClient,
  batches: readonly SealedBatch[],
): Promise<ReadonlySet<string>> {
  const isNew = new Set<string>();
  // In one order, so that two that bring the same batches never wait for each other.
  let open = [...batches].sort((a, b) => (a.id < b.id ? -1 : 1));
  while (open.length > 0) {
    for (let from = 0; from < open.length; from += MOST_AT_ONCE) {
      const ids = await insertSome(client, open.slice(from, from + MOST_AT_ONCE));
      for (const id of ids) isNew.add(id);
    }
    const known = open.filter(({ id }) => !isNew.has(id)).map(({ id }) => id);
    const held = known.length === 0 ? new Set() : await hold(client, known);
    // What was removed a moment ago is not here any more after all.
    open = open.filter(({ id }) => !isNew.has(id) && !held.has(id));
  }
  return isNew;
}

async function insertSome(
  client: PostgresClient,
  batches: readonly SealedBatch[],
): Promise<readonly string[]> {
  const records = batches.map((batch) => recordOf(batch));
  const places = records.map((_, i) => placeholders(i * COLUMNS.length + 1));
  const { rows } = await client.query(
    `INSERT INTO batches (${RECORD_COLUMNS}) VALUES ${places.join(', ')}
     ON CONFLICT DO NOTHING RETURNING id`,
    records.flatMap((record) => [...record]),
  );
  return rows.map(({ id }) => String(id));
}

async function hold(client: PostgresClient, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const { rows } = await client.query(
    'SELECT id FROM batches WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE',
    [ids],
  );
  return new Set(rows.map(({ id }) => String(id)));
}

function placeholders(first: number): string {
  return `(${COLUMNS.map((_, i) => `$${first + i}`).join(', ')})`;
}

/** Those that are here, by id. */
export async function readBatches(
  client: PostgresClient,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SealedBatch>> {
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

/** Told of what a step removed, for the counters. */
export type OnRemoved = (removed: {
  readonly traces?: number;
  readonly observations?: number;
  readonly batches?: number;
  readonly bytes?: number;
}) => void;

/** Where a batch `b` is waited for in a queue. */
const WAITS = `EXISTS (
  SELECT 1 FROM queue_branches q JOIN queue_entries e ON e.branch = q.id AND e.batch_id = b.id)`;
const IS_DEAD = 'EXISTS (SELECT 1 FROM queue_dead_letters d WHERE d.batch_id = b.id)';
/** Where a trace has events of it, or an update that waits for its run is in it. */
const IN_TRACES = `(
  EXISTS (SELECT 1 FROM batch_traces p WHERE p.batch = b.id)
  OR EXISTS (SELECT 1 FROM pending_updates u WHERE u.batch = b.id))`;

export type Looked = {
  /** The last id that was looked at; undefined where none was left. */
  readonly last: string | undefined;
  /** The last id before one that only waits in a queue; undefined where none does. */
  readonly beforeWaiting: string | undefined;
};

/**
 * Looks at batches behind the id `after` and removes those that nothing points into, a bounded step. Those
 * received after `before` may be on their way into a queue.
 */
export async function removeFreeBatches(
  database: Pick<QueueDatabase, 'transaction'>,
  after: string,
  before: number,
  onRemoved: OnRemoved = () => {},
): Promise<Looked> {
  return database.transaction(async (client) => {
    const { rows } = await client.query(
      // Materialized, so that whoever plans it knows how few rows the rest is asked for.
      `WITH looked AS MATERIALIZED (
         SELECT id, octet_length(body) AS bytes FROM batches
         WHERE id > $1 AND received_at < $2 ORDER BY id LIMIT ${STEP}
       )
       SELECT id, bytes, ${WAITS} AS waits, ${IS_DEAD} OR ${IN_TRACES} AS is_held
       FROM looked b ORDER BY id`,
      [after, before],
    );
    const free = rows.filter((row) => row.waits !== true && row.is_held !== true);
    const some = withinBytes(free);
    await removeFree(client, some, onRemoved);
    const end =
      some.length < free.length ? rows.findIndex(({ id }) => id === some.at(-1)) + 1 : STEP;
    const looked = rows.slice(0, end);
    const waiting = looked.findIndex((row) => row.waits === true && row.is_held !== true);
    const ids = [after, ...looked.map(({ id }) => String(id))];
    return {
      last: looked.length === 0 ? undefined : ids.at(-1),
      beforeWaiting: waiting === -1 ? undefined : ids[waiting],
    };
  });
}

/** As many of the rows, with `id` and `bytes`, as a step may remove; at least one. */
export function withinBytes(rows: readonly Row[]): string[] {
  let bytes = 0;
  const some = rows.filter((row, i) => {
    bytes += Number(row.bytes);
    return i === 0 || bytes <= STEP_BYTES;
  });
  return some.map(({ id }) => String(id));
}

/**
 * Removes those of the batches that nothing points into. Whoever begins to point into one holds its row, so
 * whatever does is seen by the second statement, or waits for it and finds the batch gone.
 */
export async function removeFree(
  client: PostgresClient,
  ids: readonly string[],
  onRemoved: OnRemoved,
): Promise<void> {
  if (ids.length === 0) return;
  const locked = await client.query(
    'SELECT id FROM batches WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED',
    [ids],
  );
  const removed = await client.query(
    `DELETE FROM batches b WHERE b.id = ANY ($1)
       AND NOT ${WAITS} AND NOT ${IS_DEAD} AND NOT ${IN_TRACES}
     RETURNING octet_length(b.body) AS bytes`,
    [locked.rows.map(({ id }) => id)],
  );
  noteRemoved(removed.rows, onRemoved);
}

/** Of removed batches, with their `bytes`. */
export function noteRemoved(rows: readonly Row[], onRemoved: OnRemoved): void {
  if (rows.length === 0) return;
  const bytes = rows.reduce((sum, row) => sum + Number(row.bytes), 0);
  onRemoved({ batches: rows.length, bytes });
}
