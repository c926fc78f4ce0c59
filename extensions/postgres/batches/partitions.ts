import { encodeTime } from '../../../src/model/ulid.ts';
import type { PostgresClient, Row } from '../connection/statement.ts';
import type { QueueDatabase } from '../database.ts';
import type { OnRemoved } from './batches.ts';

/**
 * Batches stand in a partition a day, by the time in their ids, so that a day that nobody needs goes at once.
 * What has no partition of its own stands in `batches_default`: no batch is ever refused for want of one.
 *
 * Making and dropping them takes the owner of the table, and the right to create in its schema. A role without
 * them works all the same: everything stands in `batches_default` then, and goes row by row.
 */

type Database = Pick<QueueDatabase, 'query' | 'transaction'>;

const DAY_MS = 86_400_000;
/** So many days are made before they come: somebody is asleep for a long weekend. */
const AHEAD = 4;
/** Everybody who writes batches waits behind a change of the table that waits. */
const PATIENCE = `SET LOCAL lock_timeout = '500ms'`;
/** Of a partition that is counted before it goes, without its bodies. */
const COUNTED_BYTES = 32 * 1024 * 1024;
/** Any number that nobody else locks. */
const LOCK = 7_227_322_003;

const NAME = /^batches_(\d{4})(\d{2})(\d{2})$/;
/** Somebody works on the table; it is there already; rows of its time stand in the default partition. */
const LATER = ['55P03', '40P01', '42P07', '23514', '42P17'];
const NO_RIGHTS = '42501';

/**
 * Makes the partitions of today and the days `ahead`. Resolves with false where that is not this role's to do.
 */
export async function ensurePartitions(
  database: Database,
  now: number,
  ahead = AHEAD,
): Promise<boolean> {
  const today = Math.floor(now / DAY_MS) * DAY_MS;
  const known = new Set((await partitions(database)).map(({ name }) => name));
  for (let day = today; day <= today + ahead * DAY_MS; day += DAY_MS) {
    if (known.has(nameOf(day))) continue;
    const outcome = await attempt(() => database.transaction((client) => make(client, day)));
    if (outcome === 'no rights') return false;
  }
  return true;
}

async function make(client: PostgresClient, day: number): Promise<void> {
  const name = nameOf(day);
  await client.query(PATIENCE);
  // Of processes that come at the same time one does it.
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  const { rows } = await client.query('SELECT to_regclass($1) AS there', [name]);
  if (rows[0]?.there !== null) return;
  // Made apart and then attached, nobody who reads or writes other partitions has to wait.
  await client.query(`CREATE TABLE ${name} (LIKE batches INCLUDING ALL)`);
  await client.query(
    `ALTER TABLE batches ATTACH PARTITION ${name}
     FOR VALUES FROM ('${encodeTime(day)}') TO ('${encodeTime(day + DAY_MS)}')`,
  );
}

/**
 * Drops the partitions of days that ended before `before`, where no queue, dead letter or trace points into
 * them. Resolves with how many.
 */
export async function dropOldPartitions(
  database: Database,
  before: number,
  onRemoved: OnRemoved = () => {},
): Promise<number> {
  let dropped = 0;
  for (const { name, day } of await partitions(database)) {
    if (day + DAY_MS > before || (await isPointedInto(database, day))) continue;
    const size = await sizeOf(database, name);
    const outcome = await attempt(() =>
      database.transaction(async (client) => {
        await client.query(PATIENCE);
        await client.query(`LOCK TABLE ONLY batches IN ACCESS EXCLUSIVE MODE`);
        // Whoever began to point into it meanwhile is seen now, or finds it gone.
        if (await isPointedInto(client, day)) return false;
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

/** Counted where that is quick, estimated where it is not. */
async function sizeOf(client: PostgresClient, name: string): Promise<Size> {
  const estimate = await client.query(
    `SELECT greatest(reltuples, 0) AS batches, pg_table_size(oid) AS bytes,
       pg_relation_size(oid) AS counted
     FROM pg_class WHERE oid = $1::regclass`,
    [name],
  );
  const [about] = estimate.rows;
  if (Number(about?.counted) > COUNTED_BYTES) return sizeIn(about);
  const { rows } = await client.query(
    `SELECT count(*) AS batches, coalesce(sum(octet_length(body)), 0) AS bytes FROM ${name}`,
  );
  return sizeIn(rows[0]);
}

type Size = { readonly batches: number; readonly bytes: number };

function sizeIn(row: Row | undefined): Size {
  return { batches: Number(row?.batches ?? 0), bytes: Number(row?.bytes ?? 0) };
}

async function isPointedInto(client: PostgresClient, day: number): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT EXISTS (
         SELECT 1 FROM queue_branches q
         JOIN queue_entries e ON e.branch = q.id AND e.batch_id >= $1 AND e.batch_id < $2)
       OR EXISTS (SELECT 1 FROM queue_dead_letters WHERE batch_id >= $1 AND batch_id < $2)
       OR EXISTS (SELECT 1 FROM batch_traces WHERE batch >= $1 AND batch < $2)
       OR EXISTS (SELECT 1 FROM pending_updates WHERE batch >= $1 AND batch < $2) AS some`,
    [encodeTime(day), encodeTime(day + DAY_MS)],
  );
  return rows[0]?.some === true;
}

async function partitions(client: PostgresClient): Promise<{ name: string; day: number }[]> {
  const { rows } = await client.query(
    `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'batches'::regclass ORDER BY 1`,
  );
  return rows.flatMap(({ name }) => {
    const [, year, month, day] = NAME.exec(String(name)) ?? [];
    if (year === undefined) return [];
    return [{ name: String(name), day: Date.UTC(Number(year), Number(month) - 1, Number(day)) }];
  });
}

function nameOf(day: number): string {
  return `batches_${new Date(day).toISOString().slice(0, 10).replaceAll('-', '')}`;
}

/** What may be tried again another time is no error. */
async function attempt<T>(work: () => Promise<T>): Promise<T | 'later' | 'no rights'> {
  try {
    return await work();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
    if (code === NO_RIGHTS) return 'no rights';
    if (LATER.includes(code)) return 'later';
    throw error;
  }
}
