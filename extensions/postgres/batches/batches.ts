import type { SealedBatch } from '../../../src/model/batch.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { batchOf, RECORD_COLUMNS, recordOf } from '../../../src/queue/record.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { rows } from '../connection/statement.ts';

const COLUMNS = RECORD_COLUMNS.split(', ');
/** A statement takes 65,535 values. */
const MAX_ROWS = 1000;
/** Batches that one step examines. */
const STEP = 1000;
/** Bytes of bodies that one step removes. */
const STEP_BYTES = 64 * 1024 * 1024;

/**
 * Stores batches; resolves with the ids of those that were not in Postgres yet. None of the batches can be removed
 * before the transaction ends.
 */
export async function insertBatches(
  client: PostgresClient,
  batches: readonly SealedBatch[],
): Promise<ReadonlySet<string>> {
  const isNew = new Set<string>();
  // One order for all transactions: two that insert the same batches never deadlock.
  let open = [...batches].sort((a, b) => (a.id < b.id ? -1 : 1));
  while (open.length > 0) {
    for (let from = 0; from < open.length; from += MAX_ROWS) {
      const ids = await insertSome(client, open.slice(from, from + MAX_ROWS));
      for (const id of ids) isNew.add(id);
    }
    const known = open.filter(({ id }) => !isNew.has(id)).map(({ id }) => id);
    const held = known.length === 0 ? new Set() : await hold(client, known);
    // A batch that housekeeping removed between the two statements is inserted after all.
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
  const inserted = await rows<{ id: string }>(
    client,
    `INSERT INTO batches (${RECORD_COLUMNS}) VALUES ${places.join(', ')}
     ON CONFLICT DO NOTHING RETURNING id`,
    records.flatMap((record) => [...record]),
  );
  return inserted.map(({ id }) => id);
}

async function hold(client: PostgresClient, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const held = await rows<{ id: string }>(
    client,
    'SELECT id FROM batches WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE',
    [ids],
  );
  return new Set(held.map(({ id }) => id));
}

function placeholders(first: number): string {
  return `(${COLUMNS.map((_, i) => `$${first + i}`).join(', ')})`;
}

/** See `StoreDatabase`. */
export async function readBatches(
  client: PostgresClient,
  ids: readonly string[],
): Promise<ReadonlyMap<string, SealedBatch>> {
  const found = await rows<BatchRow>(
    client,
    `SELECT ${RECORD_COLUMNS} FROM batches WHERE id = ANY ($1)`,
    [ids],
  );
  return new Map(found.map((row) => [row.id, batchOf(recordIn(row))]));
}

/** A row of `batches`, with the columns of `RECORD_COLUMNS`. */
export type BatchRow = {
  readonly id: string;
  readonly organization: string;
  readonly project: string;
  readonly key: string;
  readonly permissions: number;
  readonly format: number;
  readonly encoding: number;
  readonly received_at: number;
  readonly request_items: number;
  readonly items: number;
  readonly usage_events: number;
  readonly usage_bytes: number;
  readonly positions: string | null;
  readonly rejections: string | null;
  readonly body: Buffer;
};

export function recordIn(row: BatchRow): BatchRecord {
  return [
    row.id,
    row.organization,
    row.project,
    row.key,
    row.permissions,
    row.format,
    row.encoding,
    row.received_at,
    row.request_items,
    row.items,
    row.usage_events,
    row.usage_bytes,
    row.positions,
    row.rejections,
    row.body,
  ];
}

/** Whether a queue has an entry of the batch `b`. */
const WAITS = `EXISTS (
  SELECT 1 FROM queue_branches q JOIN queue_entries e ON e.branch = q.id AND e.batch_id = b.id)`;
const IS_DEAD = 'EXISTS (SELECT 1 FROM queue_dead_letters d WHERE d.batch_id = b.id)';
const HAS_UPDATE = 'EXISTS (SELECT 1 FROM pending_updates u WHERE u.batch = b.id)';
/** Whether a trace has events of the batch, or an update in it waits for its run. */
const IN_TRACES = `(
  EXISTS (SELECT 1 FROM batch_traces p WHERE p.batch = b.id)
  OR ${HAS_UPDATE})`;

/** Whether a queue, a dead letter or an update that waits for its run needs all items of the batch `b`. */
export const IS_USED = `(${WAITS} OR ${IS_DEAD} OR ${HAS_UPDATE})`;

export type Examined = {
  /** The last id that was examined; undefined if none was left. */
  readonly last: string | undefined;
  /** The last id before the first batch that only a queue refers to; undefined if none does. */
  readonly beforeWaiting: string | undefined;
};

type ExaminedRow = {
  readonly id: string;
  readonly bytes: number;
  readonly waits: boolean;
  readonly is_held: boolean;
};

/**
 * Examines a bounded number of batches behind the id `after` and removes those that nothing refers to. Batches
 * received since `before` are left out: they may be on their way into a queue.
 */
export async function removeFreeBatches(
  database: Pick<Postgres, 'transaction'>,
  after: string,
  before: number,
  onRemoved: OnRemoved = () => {},
): Promise<Examined> {
  return database.transaction(async (client) => {
    const examined = await rows<ExaminedRow>(
      client,
      // Materialized, so that the planner knows for how few rows the subqueries run.
      `WITH examined AS MATERIALIZED (
         SELECT id, octet_length(body) AS bytes FROM batches
         WHERE id > $1 AND received_at < $2 ORDER BY id LIMIT ${STEP}
       )
       SELECT id, bytes, ${WAITS} AS waits, ${IS_DEAD} OR ${IN_TRACES} AS is_held
       FROM examined b ORDER BY id`,
      [after, before],
    );
    const free = examined.filter(({ waits, is_held }) => !waits && !is_held);
    const removable = withinBytes(free);
    await removeUnreferenced(client, removable, onRemoved);
    const isCut = removable.length < free.length;
    const end = isCut ? examined.findIndex(({ id }) => id === removable.at(-1)) + 1 : STEP;
    const done = examined.slice(0, end);
    const waiting = done.findIndex(({ waits, is_held }) => waits && !is_held);
    const ids = [after, ...done.map(({ id }) => id)];
    return {
      last: done.length === 0 ? undefined : ids.at(-1),
      beforeWaiting: waiting === -1 ? undefined : ids[waiting],
    };
  });
}

/** The ids of as many batches as one step may remove, or look at; at least one. */
export function withinBytes(
  batches: readonly { readonly id: string; readonly bytes: number }[],
  mostBytes = STEP_BYTES,
): string[] {
  let sum = 0;
  const some = batches.filter(({ bytes }, i) => {
    sum += bytes;
    return i === 0 || sum <= mostBytes;
  });
  return some.map(({ id }) => id);
}

/**
 * Removes those of the batches that nothing refers to. A transaction that adds a reference holds the batch's row, so
 * the DELETE either sees the reference, or that transaction waits and finds the batch gone.
 */
export async function removeUnreferenced(
  client: PostgresClient,
  ids: readonly string[],
  onRemoved: OnRemoved,
): Promise<void> {
  if (ids.length === 0) return;
  const locked = await rows<{ id: string }>(
    client,
    'SELECT id FROM batches WHERE id = ANY ($1) FOR UPDATE SKIP LOCKED',
    [ids],
  );
  const removed = await rows<{ bytes: number }>(
    client,
    `DELETE FROM batches b WHERE b.id = ANY ($1)
       AND NOT ${WAITS} AND NOT ${IS_DEAD} AND NOT ${IN_TRACES}
     RETURNING octet_length(b.body) AS bytes`,
    [locked.map(({ id }) => id)],
  );
  reportRemoved(removed, onRemoved);
}

export function reportRemoved(
  removed: readonly { readonly bytes: number }[],
  onRemoved: OnRemoved,
): void {
  if (removed.length === 0) return;
  const bytes = removed.reduce((sum, row) => sum + row.bytes, 0);
  onRemoved({ batches: removed.length, bytes });
}
