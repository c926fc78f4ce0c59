import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Pool, PoolClient } from 'pg';
import type { Clock, Logger } from '../component/component.ts';
import type { Trouble } from './errors.ts';
import { isUsableAfter, postgresError, troubleOf } from './errors.ts';

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
  /** What is wrong now, as far as callers have found; undefined while all is well. */
  trouble(): (Trouble & { /** Milliseconds. */ readonly lasts: number }) | undefined;
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
  const connections = connectionsOf(pool, clock);
  return {
    query: (text, values) =>
      withConnection(connections, endsIn(queryTimeout, clock), (client) =>
        client.query(text, values),
      ),
    transaction: (work) =>
      withConnection(
        connections,
        () => queryTimeout,
        (client) => transaction(client, work),
      ),
    promptly: (work) =>
      withConnection(connections, endsIn(queryTimeout, clock), (client) =>
        transaction(client, work),
      ),
    usage: () => ({ open: pool.totalCount, waiting: pool.waitingCount }),
    trouble: connections.trouble,
    close: () => pool.end(),
  };
}

/** What is left of a time that begins now, in milliseconds. */
function endsIn(ms: number, clock: Clock): () => number {
  const end = clock.now() + ms;
  return () => Math.max(1, Math.min(ms, Math.ceil(end - clock.now())));
}

/** How long what the server refused to everybody is taken to be so still. */
const REFUSING_MS = 5_000;

type Connections = {
  take(): Promise<PoolClient>;
  /** It answered. */
  worked(client: PoolClient): void;
  failed(client: PoolClient, error: unknown): void;
  readonly trouble: Postgres['trouble'];
};

/**
 * The pool's connections, in generations: where one of them is found to lead nowhere, or to a server that
 * does not serve any more, all that have not been heard of since are not used again. After a failover each
 * of them would cost somebody the whole time-out else.
 */
function connectionsOf(pool: Pool, clock: Clock): Connections {
  const generations = new WeakMap<PoolClient, number>();
  let generation = 0;
  let trouble: (Trouble & { readonly since: number; readonly at: number }) | undefined;

  function note(error: unknown): void {
    const found = troubleOf(error);
    if (found === undefined) return;
    const at = clock.now();
    trouble = { ...found, at, since: current()?.since ?? at };
  }

  /** What is refused to some may be granted to others: only time ends it. */
  function current() {
    if (trouble === undefined || trouble.isAway) return trouble;
    if (Math.abs(clock.now() - trouble.at) > REFUSING_MS) trouble = undefined;
    return trouble;
  }

  return {
    async take() {
      for (;;) {
        let client: PoolClient;
        try {
          client = await pool.connect();
        } catch (error) {
          note(error);
          throw postgresError(error);
        }
        // The first time, it is new.
        const made = generations.get(client) ?? generation;
        generations.set(client, made);
        if (made === generation) return client;
        client.release(true);
      }
    },
    worked(client) {
      generations.set(client, generation);
      if (trouble?.isAway) trouble = undefined;
    },
    failed(client, error) {
      note(error);
      if (!isUsableAfter(error) && generations.get(client) === generation) generation++;
    },
    trouble() {
      const now = current();
      if (now === undefined) return undefined;
      const { isAway, message, since } = now;
      return { isAway, message, lasts: Math.abs(clock.now() - since) };
    },
  };
}

async function withConnection<T>(
  connections: Connections,
  timeLeft: () => number,
  work: (client: PostgresClient) => Promise<T>,
): Promise<T> {
  const connected = await connections.take();
  let isBroken = false;
  const client: PostgresClient = {
    async query(text, values) {
      if (isBroken) throw postgresError(new Error('the connection broke before'));
      try {
        const query = { text, values: values as unknown[], query_timeout: timeLeft() };
        const result = await connected.query(query);
        connections.worked(connected);
        return result;
      } catch (error) {
        // What the server did not answer, it may still be doing.
        isBroken ||= !isUsableAfter(error);
        connections.failed(connected, error);
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
