import pg from 'pg';
import type { Test } from 'tap';
import { insertBatches, readBatches } from '../../extensions/postgres/batches/batches.ts';
import { DATABASE_NOW } from '../../extensions/postgres/connection/database-clock.ts';
import { migrate } from '../../extensions/postgres/connection/migrate.ts';
import type { Postgres } from '../../extensions/postgres/connection/pool.ts';
import { openPostgres } from '../../extensions/postgres/connection/pool.ts';
import type { StoreDatabase } from '../../extensions/postgres/database.ts';
import { MIGRATIONS } from '../../extensions/postgres/migrations/index.ts';
import type { PostgresQueues } from '../../extensions/postgres/queue/storage.ts';
import { openQueues } from '../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../src/component/clock.ts';
import type { Clock } from '../../src/component/component.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { recordingLogger } from './settings.ts';

/** The queues of a database. A test deletes projects in it, and takes Postgres away. */
export type QueuePlace = {
  readonly pool: pg.Pool;
  readonly deleted: Set<string>;
  /** Adds a process that shares the queues. */
  open(clock: Clock): Promise<PostgresQueues>;
  /** Makes Postgres unreachable. */
  fail(isAway: boolean): void;
  /** Fails reading bodies only. */
  failReads(isAway: boolean): void;
};

/** The product's pool, on migrated tables; the caller closes it. */
export async function migrated(url: string): Promise<Postgres> {
  const postgres = await openPostgres({
    ...{ url, maxConnections: 8, connectTimeout: 5_000, queryTimeout: 20_000 },
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
  });
  await migrate(postgres, MIGRATIONS);
  return postgres;
}

export async function queueDatabase(t: Test, url: string): Promise<QueuePlace> {
  const pool = new pg.Pool({ connectionString: url, max: 4 });
  pool.on('error', () => {});
  t.teardown(() => pool.end());
  const deleted = new Set<string>();
  let isAway = false;
  const postgres = await migrated(url);
  t.teardown(() => postgres.close());
  let isUnreadable = false;
  const database = databaseOf(postgres, deleted, () => isAway);
  const readBatches: StoreDatabase['readBatches'] = async (ids) => {
    if (isUnreadable) throw new RetryableError('storage_failed', 'the store is away');
    return database.readBatches(ids);
  };
  return {
    pool,
    deleted,
    fail(away) {
      isAway = away;
    },
    failReads(away) {
      isUnreadable = away;
    },
    async open(clock) {
      const queues = await openQueues({ ...database, readBatches }, clock, recordingLogger());
      t.teardown(() => {
        queues.crash();
      });
      return queues;
    },
  };
}

/** The database as if its clock were that of a test. */
export function withClock(database: StoreDatabase, clock: Clock): StoreDatabase {
  const atTestTime = (text: string): string => text.replaceAll(DATABASE_NOW, String(clock.now()));
  const query: StoreDatabase['query'] = (text, values) => database.query(atTestTime(text), values);
  const transactionWithDeadline: StoreDatabase['transactionWithDeadline'] = (work) =>
    database.transactionWithDeadline((transaction) => {
      const value: typeof query = (text, values) => transaction.query(atTestTime(text), values);
      return work(Object.create(transaction, { query: { value } }));
    });
  return { ...database, query, transactionWithDeadline, accepting: { query } };
}

export function databaseOf(
  postgres: Postgres,
  deleted: ReadonlySet<string> = new Set(),
  isAway: () => boolean = () => false,
): StoreDatabase {
  const refuse = (): void => {
    if (isAway()) throw new RetryableError('storage_failed', 'the store is away');
  };
  const query: StoreDatabase['query'] = async (text, values) => {
    refuse();
    return postgres.query(text, values);
  };
  return {
    query,
    prices: { pricing: undefined },
    terms: { leftOut() {} },
    changes: { isWatched: () => false, publish() {} },
    accepting: { query },
    async queryIf(holds, text, values) {
      refuse();
      return postgres.queryIf(holds, text, values);
    },
    onTakeover: postgres.onTakeover,
    async transaction(work) {
      refuse();
      return postgres.transaction(work);
    },
    async transactionWithDeadline(work) {
      refuse();
      return postgres.transactionWithDeadline(work);
    },
    lockForAccept: (ids) => ({
      statement: ['SELECT 1', []],
      answer: () => new Set(ids.filter((id) => deleted.has(id))),
    }),
    deletedProjects: async (ids) => new Set(ids.filter((id) => deleted.has(id))),
    async acceptBatches(client, batches) {
      await insertBatches(client, batches);
      return new Set();
    },
    async storeDelivered(client, batches) {
      await insertBatches(client, batches);
    },
    readBatches: (ids) => readBatches({ query }, ids),
  };
}
