import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Pool } from 'pg';
import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Connections, LastingTrouble } from './connections.ts';
import { connectionsOf } from './connections.ts';
import { isUsableAfter, postgresError } from './errors.ts';
import type { QueryClass } from './pipeline.ts';
import { Pipeline } from './pipeline.ts';
import type { PostgresClient, Question, Result, Statement } from './statement.ts';

/** A connection inside a transaction. */
export type PostgresTransaction = PostgresClient & {
  /**
   * Asks one after another in one round trip, each of what was committed before it. Where one fails, none after
   * it is asked.
   */
  together<T extends readonly unknown[]>(
    questions: {
      readonly [K in keyof T]: Question<T[K]>;
    },
  ): Promise<T>;
  /** Carries out the last statements together with COMMIT; the transaction is over then. */
  commit(statements: readonly Statement[]): Promise<readonly Result[]>;
};

/** Connections that are made when they are needed, and made anew when they break. */
export type Postgres = PostgresClient & {
  /** One transaction, READ COMMITTED; rolled back when `work` rejects. */
  transaction<T>(work: (client: PostgresTransaction) => Promise<T>): Promise<T>;
  /** The same for somebody who waits: connection and all statements together have `queryTimeout`. */
  promptly<T>(work: (client: PostgresTransaction) => Promise<T>): Promise<T>;
  /** Connections that are open, and callers that wait for one. */
  usage(): { readonly open: number; readonly waiting: number };
  /** What is wrong now, as far as callers have found; undefined while all is well. */
  trouble(): LastingTrouble | undefined;
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
  const connected = <T>(timeLeft: () => number, work: (connection: Connected) => Promise<T>) =>
    withConnection(connections, pg, timeLeft, work);
  return {
    query: (text, values) =>
      connected(endsIn(queryTimeout, clock), (connection) => connection.query(text, values)),
    transaction: (work) =>
      connected(
        () => queryTimeout,
        (connection) => transaction(connection, work),
      ),
    promptly: (work) =>
      connected(endsIn(queryTimeout, clock), (connection) => transaction(connection, work)),
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

/** One connection of the pool. */
type Connected = PostgresClient & {
  /** In one round trip. */
  send(statements: readonly Statement[]): Promise<readonly Result[]>;
};

async function withConnection<T>(
  connections: Connections,
  driver: { readonly Query: QueryClass },
  timeLeft: () => number,
  work: (connection: Connected) => Promise<T>,
): Promise<T> {
  const client = await connections.take();
  let isBroken = false;
  const asked = async <R>(ask: () => Promise<R>): Promise<R> => {
    if (isBroken) throw postgresError(new Error('the connection broke before'));
    try {
      const answer = await ask();
      connections.worked(client);
      return answer;
    } catch (error) {
      // What the server did not answer, it may still be doing.
      isBroken ||= !isUsableAfter(error);
      connections.failed(client, error);
      throw postgresError(error);
    }
  };
  try {
    return await work({
      query: (text, values) =>
        asked(() => {
          const query = { text, values: values as unknown[], query_timeout: timeLeft() };
          return client.query(query);
        }),
      send: (statements) =>
        asked(
          () =>
            new Promise((resolve, reject) => {
              client.query(
                new Pipeline(statements, timeLeft(), driver, (error, results = []) =>
                  error ? reject(error) : resolve(results),
                ),
              );
            }),
        ),
    });
  } finally {
    // A connection whose state is not known is closed, and with it its transaction.
    client.release(isBroken);
  }
}

/** BEGIN goes with what is asked first, and COMMIT with what `work` says is last. */
async function transaction<T>(
  connection: Connected,
  work: (client: PostgresTransaction) => Promise<T>,
): Promise<T> {
  let hasBegun = false;
  let isOver = false;
  const send = async (statements: readonly Statement[]): Promise<readonly Result[]> => {
    if (hasBegun) return connection.send(statements);
    hasBegun = true;
    return (await connection.send([BEGIN, ...statements])).slice(1);
  };
  const client: PostgresTransaction = {
    async query(text, values) {
      const [result] = values === undefined ? [] : await send([[text, values]]);
      if (result !== undefined) return result;
      // Without values it may be several statements.
      if (!hasBegun) await send([]);
      return connection.query(text);
    },
    async together<R extends readonly unknown[]>(
      questions: {
        readonly [K in keyof R]: Question<R[K]>;
      },
    ) {
      const results = await send(questions.map(({ statement }) => statement));
      return questions.map(({ answer }, i) => answer(results[i]?.rows ?? [])) as unknown as R;
    },
    async commit(statements) {
      const results = await send([...statements, COMMIT]);
      isOver = true;
      return results.slice(0, -1);
    },
  };
  try {
    const result = await work(client);
    if (hasBegun && !isOver) await send([COMMIT]);
    return result;
  } catch (error) {
    // Where the connection is broken this fails at once, and the server does it by itself.
    if (hasBegun && !isOver) await connection.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

const BEGIN: Statement = ['BEGIN', []];
const COMMIT: Statement = ['COMMIT', []];
