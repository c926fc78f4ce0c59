import { sqlStateOf } from '../connection/errors.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';

/** Days whose partitions exist in advance: enough for a long weekend without a running process. */
export const DAYS_AHEAD = 4;
/** Every statement on a table queues behind a change of it that waits for its lock, so the change waits briefly. */
export const LOCK_TIMEOUT = `SET LOCAL lock_timeout = '500ms'`;
/** Key of an advisory lock that is used for partitions only. */
const LOCK = 7_227_322_003;

/**
 * Not possible now: lock timeout, deadlock, another process made the table, rows of the range are in the default
 * partition, the ranges overlap.
 */
const RETRY_LATER = ['55P03', '40P01', '42P07', '23514', '42P17'];
const NO_RIGHTS = '42501';

/** A partition. `from` and `to` are its bounds as SQL constants; null without a bound. */
export type Partition = {
  readonly name: string;
  readonly from: string | null;
  readonly to: string | null;
};

export type NewPartition = Partition & {
  readonly table: string;
  /** Storage parameters, which a partition does not inherit. */
  readonly options?: string;
};

/** The partitions of a table without its default partition, in the order of their names. */
export async function partitionsOf(client: PostgresClient, table: string): Promise<Partition[]> {
  const children = await rows<{ name: string; bound: string }>(
    client,
    `SELECT c.relname AS name, pg_get_expr(c.relpartbound, c.oid) AS bound
     FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = $1::regclass ORDER BY 1`,
    [table],
  );
  return children.flatMap(({ name, bound }) => {
    const [, from, to] = /^FOR VALUES FROM \((.+)\) TO \((.+)\)$/.exec(bound) ?? [];
    return from === undefined || to === undefined ? [] : [{ name, from: edge(from), to: edge(to) }];
  });
}

function edge(bound: string): string | null {
  return bound === 'MINVALUE' || bound === 'MAXVALUE' ? null : bound.replace(/^'(.*)'$/, '$1');
}

/** Creates partitions of equal ranges in a transaction. Of processes that try at the same time one creates them. */
export async function createPartitions(
  client: PostgresClient,
  partitions: readonly NewPartition[],
): Promise<void> {
  await client.query(LOCK_TIMEOUT);
  await client.query('SELECT pg_advisory_xact_lock($1)', [LOCK]);
  for (const { table, name, from, to, options } of partitions) {
    if (await exists(client, name)) return;
    const storage = options === undefined ? '' : `WITH (${options})`;
    // Created apart and attached: readers and writers of other partitions do not wait.
    await client.query(`CREATE TABLE ${name} (LIKE ${table} INCLUDING ALL) ${storage}`);
    await client.query(
      `ALTER TABLE ${table} ATTACH PARTITION ${name} FOR VALUES FROM ('${from}') TO ('${to}')`,
    );
  }
}

async function exists(client: PostgresClient, name: string): Promise<boolean> {
  const found = await row<{ name: string | null }>(client, 'SELECT to_regclass($1)::text AS name', [
    name,
  ]);
  return found !== undefined && found.name !== null;
}

/** Runs work that may be retried with the next housekeeping: the outcomes that call for it are no errors. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | 'later' | 'no rights'> {
  try {
    return await work();
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const code = cause instanceof Error ? sqlStateOf(cause) : '';
    if (code === NO_RIGHTS) return 'no rights';
    if (RETRY_LATER.includes(code)) return 'later';
    throw error;
  }
}

/** The beginning of a range in the name of its partition: `20260115`. */
export function dayName(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10).replaceAll('-', '');
}
