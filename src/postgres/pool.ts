import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Pool, PoolClient } from 'pg';
import type { Clock, Logger } from '../component/component.ts';
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
  /** The same for somebody who waits: connection and all statements together have `queryTimeout`. */
  promptly<T>(work: (client: PostgresClient) => Promise<T>): Promise<T>;
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
  readonly clock: Clock;
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
  const { queryTimeout, clock } = settings;
  return {
    query: (text, values) =>
      withConnection(pool, endsIn(queryTimeout, clock), (client) => client.query(text, values)),
    transaction: (work) =>
      withConnection(
        pool,
        () => queryTimeout,
        (client) => transaction(client, work),
      ),
    promptly: (work) =>
      withConnection(pool, endsIn(queryTimeout, clock), (client) => transaction(client, work)),
    usage: () => ({ open: pool.totalCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  };
}

/** What is left of a time that begins now, in milliseconds. */
function endsIn(ms: number, clock: Clock): () => number {
  const end = clock.now() + ms;
  return () => Math.max(1, Math.min(ms, Math.ceil(end - clock.now())));
}

async function withConnection<T>(
  pool: Pool,
  timeLeft: () => number,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const connected = await connection(pool);
  let isBroken = false;
  const client: PostgresClient = {
    async query(text, values) {
      if (isBroken) throw postgresError(new Error('the connection broke before'));
      try {
        const query = { text, values: values as unknown[], query_timeout: timeLeft() };
        return await connected.query(query);
      } catch (error) {
        // What the server did not answer, it may still be doing.
        isBroken ||= !isAnswer(error);
        throw postgresError(error);
      }
    },
  };
  try {
    return await work(client);
  } finally {
    // A connection whose state is not known is closed, and with it its transaction.
    connected.release(isBroken);
  }
}

/** Whether the server said so itself, and goes on listening. */
function isAnswer(error: unknown): boolean {
  return error instanceof Error && 'severity' in error && error.severity === 'ERROR';
}

async function transaction<T>(
  client: PostgresClient,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  await client.query('BEGIN');
  try {
    const result = await work(client);
    await client.query('COMMIT');
    return result;
  } catch (error) {
    // Where the connection is broken this fails at once, and the server does it by itself.
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

async function connection(pool: Pool): Promise<PoolClient> {
  try {
    return await pool.connect();
  } catch (error) {
    throw postgresError(error);
  }
}
