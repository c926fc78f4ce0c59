import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Pool, PoolClient } from 'pg';
import type { Logger } from '../component/component.ts';
import { postgresError } from './errors.ts';

/** Rows by column. `bigint` columns come as text. */
export type Row = Readonly<Record<string, unknown>>;

export type PostgresClient = {
  /** Rejects with `RetryableError` or, where the values themselves are refused, `PermanentError`. */
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rows: readonly Row[] }>;
};

/** Connections that are made when they are needed, and made anew when they break. */
export type Postgres = PostgresClient & {
  /** One transaction, READ COMMITTED; rolled back when `work` rejects. */
  transaction<T>(work: (client: PostgresClient) => Promise<T>): Promise<T>;
  /** Connections that are open, and callers that wait for one. */
  usage(): { readonly open: number; readonly waiting: number };
  close(): Promise<void>;
};

export type PostgresSettings = {
  readonly url: string;
  readonly maxConnections: number;
  /** Milliseconds within which a connection stands, or the caller is told that there is none. */
  readonly connectTimeout: number;
  /** Milliseconds within which a statement is answered, or its connection is given up. */
  readonly queryTimeout: number;
  readonly tls: TlsOptions | undefined;
  readonly logger: Logger;
};

/** Connects with the first query. The library is loaded when a configuration names Postgres, and not before. */
export async function openPostgres(settings: PostgresSettings): Promise<Postgres> {
  const { default: pg } = await import('pg');
  const pool: Pool = new pg.Pool({
    connectionString: settings.url,
    max: settings.maxConnections,
    connectionTimeoutMillis: settings.connectTimeout,
    query_timeout: settings.queryTimeout,
    // The server gives up too, so that it does not go on with what nobody waits for.
    statement_timeout: settings.queryTimeout,
    idle_in_transaction_session_timeout: 2 * settings.queryTimeout,
    application_name: 'tracectl',
    keepAlive: true,
    ...(settings.tls === undefined ? {} : { ssl: settings.tls }),
  });
  const onBroken = (error: Error): void => {
    settings.logger.debug({ error }, 'a connection to Postgres broke');
  };
  // While nobody uses it: the pool makes another one. Between two queries of a transaction: the next fails.
  pool.on('error', onBroken);
  pool.on('connect', (client) => client.on('error', onBroken));
  return {
    async query(text, values) {
      try {
        return await pool.query(text, values as unknown[]);
      } catch (error) {
        throw postgresError(error);
      }
    },
    transaction: (work) => transaction(pool, work),
    usage: () => ({ open: pool.totalCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  };
}

async function transaction<T>(
  pool: Pool,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const client = await connection(pool);
  let isBroken = false;
  try {
    await client.query('BEGIN');
    const result = await work({
      query: async (text, values) => {
        try {
          return await client.query(text, values as unknown[]);
        } catch (error) {
          throw postgresError(error);
        }
      },
    });
    await client.query('COMMIT');
    return result;
  } catch (error) {
    isBroken = await client.query('ROLLBACK').then(
      () => false,
      () => true,
    );
    throw postgresError(error);
  } finally {
    // A connection whose state is not known is closed, and with it its transaction.
    client.release(isBroken);
  }
}

async function connection(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw postgresError(error);
  }
}
