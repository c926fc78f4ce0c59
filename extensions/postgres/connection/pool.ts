import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { PoolClient, QueryResult } from 'pg';
import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Connections, LastingOutage } from './connections.ts';
import { connectionsTo } from './connections.ts';
import { loadDriver } from './driver.ts';
import { isUsableAfter, postgresError, sqlStateOf } from './errors.ts';
import type { LockWatch } from './lock-watch.ts';
import { APPLICATION } from './lock-watch.ts';
import type { QueryDriver } from './pipelined-query.ts';
import { PipelinedQuery } from './pipelined-query.ts';
import type { StandbyWait } from './standby-wait.ts';
import { NO_STANDBY, refuseWithoutStandby } from './standby-wait.ts';
import type { PostgresClient, Question, Result, Statement } from './statement.ts';
import type { Takeovers } from './takeovers.ts';

/** A connection inside a transaction. */
export type PostgresTransaction = PostgresClient & {
  /**
   * Sends the questions in one round trip. Each of them sees what other transactions committed before it runs. After
   * one that fails the rest are skipped.
   */
  together<T extends readonly unknown[]>(
    questions: {
      readonly [K in keyof T]: Question<T[K]>;
    },
  ): Promise<T>;
  /** Sends the last statements and COMMIT in one round trip; the transaction is over then. */
  commit(statements: readonly Statement[]): Promise<readonly Result[]>;
};

/** A pool that opens connections on demand and replaces broken ones. */
export type Postgres = PostgresClient & {
  /** One transaction, READ COMMITTED; rolled back when `work` rejects. Each statement has `queryTimeout`. */
  transaction<T>(work: (client: PostgresTransaction) => Promise<T>): Promise<T>;
  /** One transaction whose connection and statements together have `queryTimeout`: a client waits for it. */
  transactionWithDeadline<T>(work: (client: PostgresTransaction) => Promise<T>): Promise<T>;
  /** As `query`, if the condition holds when the connection is there; else nothing is sent, and the result has no rows. */
  queryIf(holds: () => boolean, text: string, values: readonly unknown[]): Promise<Result>;
  /** The listener is called when this pool meets another server that took over, before it sends a statement there. */
  onTakeover(listener: () => void): void;
  /** Open connections, and callers that wait for one. */
  usage(): { readonly open: number; readonly waiting: number };
  /** The current outage, as far as callers have met it. */
  outage(): LastingOutage | undefined;
  close(): Promise<void>;
};

export type ConnectionSettings = {
  readonly url: string;
  /** Milliseconds that a caller waits for a connection. */
  readonly connectTimeout: number;
  readonly tls: TlsOptions | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type PostgresSettings = ConnectionSettings & {
  readonly maxConnections: number;
  /** Milliseconds after which the server cancels a statement. */
  readonly queryTimeout: number;
  /** SQL that each new connection runs, such as `SET`. A server that rejects it goes on without it. */
  readonly session?: string;
  /** Looks for the reason of statements that take long. */
  readonly locks?: LockWatch;
  /** For a pool that writes. */
  readonly standbyWait?: StandbyWait;
  /** For a pool whose callers rely on what they wrote before. */
  readonly takeovers?: Takeovers;
};

/** How much longer than the server a connection waits: a tenth, within these bounds. */
const GRACE_MS = { least: 100, most: 2_000 };
/** A process that freezes inside a transaction holds its locks for at most this long. */
const LONGEST_IDLE_MS = 4_000;
/**
 * A process that vanished without closing its connections (power, partition) is noticed by the server within a minute:
 * its transactions end and its connections are free. The defaults of the system are 2 h and more.
 */
const LIVENESS = `SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10;
  SET tcp_keepalives_count = 3; SET tcp_user_timeout = 30000`;
/**
 * A role, a database or a server may have other defaults. The statements rely on these: they wait for a row or for an advisory lock, and
 * then see what its last holder committed; a backslash in a literal is a backslash; a number is read back as it was stored. A limit of
 * the waits for locks would replace the time-outs of the purposes. An answered request is on the disk even if other users of the server
 * do without that.
 */
const RELIED_ON = `SET default_transaction_isolation = 'read committed'; SET standard_conforming_strings = on;
  SET extra_float_digits = 1; SET array_nulls = on; SET lock_timeout = 0;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`;

/** Connects with the first query. Pools to the same server share `connections`. */
export async function openPostgres(
  settings: PostgresSettings,
  connections: Connections = connectionsTo(settings.clock),
): Promise<Postgres> {
  const driver = await loadDriver();
  const { queryTimeout, clock, session, locks, standbyWait, takeovers } = settings;
  // The server cancels first: its connection then goes on, and the error says that the statement was slow.
  const patience =
    queryTimeout + Math.min(GRACE_MS.most, Math.max(GRACE_MS.least, queryTimeout / 10));
  const bounds = boundsOf(queryTimeout);
  const pool = new driver.Pool({
    connectionString: settings.url,
    max: settings.maxConnections,
    connectionTimeoutMillis: settings.connectTimeout,
    query_timeout: patience,
    application_name: APPLICATION,
    keepAlive: true,
    types: driver.types,
    onConnect: async (client) => {
      const set = (text: string): Promise<QueryResult> => {
        const query = { text, query_timeout: settings.connectTimeout };
        return client.query(query);
      };
      // A server that does not know the parameters of liveness keeps its own, and has the time-outs nevertheless. A
      // broken connection fails its first statement.
      const required = `${bounds}; ${RELIED_ON}`;
      await set(`${required}; ${LIVENESS}`).catch((error: unknown) =>
        isUsableAfter(error) ? set(required) : undefined,
      );
      if (session !== undefined) await set(session).catch(() => {});
      await takeovers?.check(set);
      if (standbyWait === undefined) return;
      const ask = (text: string, values: readonly unknown[]) => {
        const query = { text, values: [...values], query_timeout: settings.connectTimeout };
        return client.query(query);
      };
      await refuseWithoutStandby(ask, standbyWait).catch((error: unknown) => {
        if (error instanceof Error && sqlStateOf(error) === NO_STANDBY) throw error;
      });
    },
    ...(settings.tls === undefined ? {} : { ssl: settings.tls }),
  });
  const onBroken = (error: Error): void => {
    settings.logger.debug({ err: error }, 'Connection to Postgres broke');
  };
  // An idle connection broke: the pool replaces it. One in a transaction broke: its next statement fails.
  pool.on('error', onBroken);
  pool.on('connect', (client) => client.on('error', onBroken));
  const watch = (client: PoolClient): (() => void) | undefined =>
    locks?.begin(pidOf(client), queryTimeout);
  const connected = async <T>(
    timeLeft: () => number,
    work: (connection: Connected) => Promise<T>,
  ): Promise<T> =>
    withConnection(await connections.take(pool), { connections, driver, timeLeft, watch }, work);
  return {
    query: (text, values) =>
      connected(endsIn(patience, clock), (connection) => connection.query(text, values)),
    transaction: (work) =>
      connected(
        () => patience,
        (connection) => inTransaction(connection, work),
      ),
    transactionWithDeadline: (work) =>
      connected(endsIn(patience, clock), (connection) => inTransaction(connection, work)),
    queryIf: (holds, text, values) =>
      connected(endsIn(patience, clock), async (connection) =>
        holds() ? connection.query(text, values) : { rows: [] },
      ),
    onTakeover: (listener) => takeovers?.onTakeover(listener),
    usage: () => ({ open: pool.totalCount, waiting: pool.waitingCount }),
    outage: connections.outage,
    close: () => pool.end(),
  };
}

/** Time-outs of the server as statements: a pooler refuses a connection that names them when it begins. */
function boundsOf(queryTimeout: number): string {
  const idle = Math.min(LONGEST_IDLE_MS, 2 * queryTimeout);
  return `SET statement_timeout = ${queryTimeout}; SET idle_in_transaction_session_timeout = ${idle}`;
}

/** The rest of a period that begins now, in milliseconds; at least 1, because the driver takes 0 for no limit. */
function endsIn(ms: number, clock: Clock): () => number {
  const end = clock.now() + ms;
  return () => Math.max(1, Math.min(ms, Math.ceil(end - clock.now())));
}

/** One connection of the pool. */
type Connected = PostgresClient & {
  /** In one round trip. */
  send(statements: readonly Statement[]): Promise<readonly Result[]>;
};

/** The server process of a connection, which the driver does not declare. */
function pidOf(client: PoolClient): number | undefined {
  return 'processID' in client && typeof client.processID === 'number'
    ? client.processID
    : undefined;
}

type ConnectionUse = {
  readonly connections: Connections;
  readonly driver: QueryDriver;
  readonly timeLeft: () => number;
  /** Called for each statement; its result is called when the statement is answered. */
  readonly watch: (client: PoolClient) => (() => void) | undefined;
};

async function withConnection<T>(
  client: PoolClient,
  { connections, driver, timeLeft, watch }: ConnectionUse,
  work: (connection: Connected) => Promise<T>,
): Promise<T> {
  let isBroken = false;
  const observed = async <R>(send: () => Promise<R>): Promise<R> => {
    if (isBroken) throw postgresError(new Error('the connection broke before'));
    const answered = watch(client);
    try {
      const answer = await send();
      connections.worked(client);
      return answer;
    } catch (error) {
      // The server may still be working on a statement that it did not answer.
      isBroken ||= !isUsableAfter(error);
      connections.failed(client, error);
      throw postgresError(error);
    } finally {
      answered?.();
    }
  };
  try {
    return await work({
      query: (text, values = []) =>
        observed(() => {
          const query = { text, values: [...values], query_timeout: timeLeft() };
          return client.query(query);
        }),
      send: (statements) =>
        observed(
          () =>
            new Promise((resolve, reject) => {
              client.query(
                new PipelinedQuery(statements, timeLeft(), driver, (error, results = []) =>
                  error ? reject(error) : resolve(results),
                ),
              );
            }),
        ),
    });
  } finally {
    // Closing a connection in an unknown state ends its transaction, too.
    client.release(isBroken);
  }
}

/** BEGIN travels with the first statements, and COMMIT with the ones that `work` calls the last. */
async function inTransaction<T>(
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
      // A text without values may hold several statements, which the extended protocol rejects.
      if (!hasBegun) await send([]);
      return connection.query(text);
    },
    async together<R extends readonly unknown[]>(
      questions: {
        readonly [K in keyof R]: Question<R[K]>;
      },
    ) {
      const results = await send(questions.map(({ statement }) => statement));
      const answers: readonly unknown[] = questions.map(({ answer }, i) =>
        answer(results[i] ?? NO_ROWS),
      );
      return answers as R;
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
    // On a broken connection this fails at once; the server rolls back when the connection closes.
    if (hasBegun && !isOver) await connection.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

const BEGIN: Statement = ['BEGIN', []];
const COMMIT: Statement = ['COMMIT', []];
const NO_ROWS: Result = { rows: [] };
