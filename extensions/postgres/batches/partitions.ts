import { encodeTime } from '../../../src/model/ulid.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row } from '../connection/statement.ts';
import {
  attempt,
  createPartitions,
  DAYS_AHEAD,
  dayName,
  LOCK_TIMEOUT,
  partitionsOf,
} from '../partitions/partitioned.ts';

/**
 * Batches are partitioned by day, by the time in their ids, so that a day without references is dropped at once. A
 * batch of a day without a partition goes into `batches_default`, so that no insert fails for want of a partition.
 *
 * Only the owner of the table, with CREATE on its schema, can create and drop partitions. Under another role all
 * batches are in `batches_default` and are removed row by row.
 */

type Database = Pick<Postgres, 'query' | 'transaction'>;

const DAY_MS = 86_400_000;
/** A partition up to this size, without its bodies, is counted before it is dropped; a larger one is estimated. */
const COUNTED_BYTES = 32 * 1024 * 1024;

const NAME = /^batches_(\d{4})(\d{2})(\d{2})$/;

/** Creates the partitions of today and the days `ahead`. Resolves with false if the role may not. */
export async function ensurePartitions(
  database: Database,
  now: number,
  ahead = DAYS_AHEAD,
): Promise<boolean> {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const known = new Set((await partitions(database)).map(({ name }) => name));
  for (let day = today; day <= today + ahead * DAY_MS; day += DAY_MS) {
    if (known.has(nameOf(day))) continue;
    const outcome = await attempt(() => database.transaction((client) => create(client, day)));
    if (outcome === 'no rights') return false;
  }
  return true;
}

function create(client: PostgresClient, day: number): Promise<void> {
  const bounds = { from: encodeTime(day), to: encodeTime(day + DAY_MS) };
  return createPartitions(client, [{ table: 'batches', name: nameOf(day), ...bounds }]);
}

/**
 * Drops the partitions of days that ended before `before` and that no queue, dead letter or trace refers to. Resolves
 * with their number.
 */
export async function dropOldPartitions(
  database: Database,
  before: number,
  onRemoved: OnRemoved = () => {},
): Promise<number> {
  let dropped = 0;
  for (const { name, day } of await partitions(database)) {
    if (day + DAY_MS > before || (await isReferenced(database, day))) continue;
    const size = await sizeOf(database, name);
    const outcome = await attempt(() =>
      database.transaction(async (client) => {
        await client.query(LOCK_TIMEOUT);
        await client.query(`LOCK TABLE ONLY batches IN ACCESS EXCLUSIVE MODE`);
        // A reference that was added before the lock is seen now; one after it finds the batch gone.
        if (await isReferenced(client, day)) return false;
        await client.query(`DROP TABLE ${name}`);
        return true;
      }),
    );
    if (outcome === 'no rights') return dropped;
    if (outcome !== true) continue;
    dropped++;
    onRemoved(size);
  }
  return dropped;
}

type Size = { readonly batches: number; readonly bytes: number };

async function sizeOf(client: PostgresClient, name: string): Promise<Size> {
  const estimate = await row<Size & { counted: number }>(
    client,
    `SELECT greatest(reltuples, 0)::bigint AS batches, pg_table_size(oid) AS bytes,
       pg_relation_size(oid) AS counted
     FROM pg_class WHERE oid = $1::regclass`,
    [name],
  );
  if (estimate === undefined) return { batches: 0, bytes: 0 };
  const { counted, ...estimated } = estimate;
  if (counted > COUNTED_BYTES) return estimated;
  const size = await row<Size>(
    client,
    `SELECT count(*) AS batches, coalesce(sum(octet_length(body)), 0) AS bytes FROM ${name}`,
  );
  return size ?? estimated;
}

async function isReferenced(client: PostgresClient, day: number): Promise<boolean> {
  const found = await row<{ some: boolean }>(
    client,
    `SELECT EXISTS (
         SELECT 1 FROM queue_branches q
         JOIN queue_entries e ON e.branch = q.id AND e.batch_id >= $1 AND e.batch_id < $2)
       OR EXISTS (SELECT 1 FROM queue_dead_letters WHERE batch_id >= $1 AND batch_id < $2)
       OR EXISTS (SELECT 1 FROM batch_traces WHERE batch >= $1 AND batch < $2)
       OR EXISTS (SELECT 1 FROM pending_updates WHERE batch >= $1 AND batch < $2) AS some`,
    [encodeTime(day), encodeTime(day + DAY_MS)],
  );
  return found?.some === true;
}

async function partitions(client: PostgresClient): Promise<{ name: string; day: number }[]> {
  const found = await partitionsOf(client, 'batches');
  return found.flatMap(({ name }) => {
    const [, year, month, day] = NAME.exec(name) ?? [];
    if (year === undefined) return [];
    return [{ name, day: Date.UTC(Number(year), Number(month) - 1, Number(day)) }];
  });
}

function nameOf(day: number): string {
  return `batches_${dayName(day)}`;
}
