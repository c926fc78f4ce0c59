import type { Connection, CustomTypesConfig, QueryResult, Submittable } from 'pg';
import type { Result, Statement } from './statement.ts';

/** The methods that the driver's client calls on a query while its answer comes in. */
export type AnsweredQuery = Submittable & {
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleEmptyQuery(connection: Connection): void;
  handleError(error: Error, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
};

/** The driver's class `Query`. */
export type QueryClass = new (
  config: {
    readonly text: string;
    readonly values: unknown[];
    readonly types: CustomTypesConfig;
    /** `extended`: parse, bind, describe and execute, also for a statement without values. */
    readonly queryMode: 'extended';
  },
  callback: (error: Error | undefined, result: QueryResult) => void,
) => AnsweredQuery;

/** The parts of the driver that a pipelined query uses (driver.ts). */
export type QueryDriver = { readonly Query: QueryClass; readonly types: CustomTypesConfig };

type Callback<T> = (error: Error | null | undefined, result?: T) => void;

/**
 * Several statements that travel as one query of the driver: their messages leave in one write with one `Sync`, and
 * their answers come in one after another. Each statement is a query of the driver's own class, which encodes its
 * messages and reads its rows. After a statement that fails the server skips the rest.
 */
export class PipelinedQuery implements AnsweredQuery {
  /** The driver wraps it with its own, which stops the timer of `query_timeout`. */
  callback: Callback<readonly Result[]>;
  /** Milliseconds for all statements together; the driver reads this field. */
  readonly query_timeout: number;
  readonly #queries: readonly AnsweredQuery[];
  readonly #results: Result[] = [];
  #failure: Error | undefined;
  /** Index of the query whose answer comes in. */
  #answering = 0;

  constructor(
    statements: readonly Statement[],
    timeout: number,
    { Query, types }: QueryDriver,
    callback: Callback<readonly Result[]>,
  ) {
    this.query_timeout = timeout;
    this.callback = callback;
    this.#queries = statements.map(
      ([text, values]) =>
        new Query({ text, values: [...values], types, queryMode: 'extended' }, (error, result) => {
          if (error) this.#failure ??= error;
          else this.#results.push(result);
        }),
    );
  }

  submit(connection: Connection): Error | null {
    // Each query ends its messages with a Sync; only the one at the very end may reach the server.
    const withoutSync = Object.create(connection, { sync: { value() {} } }) as Connection;
    connection.stream.cork();
    try {
      for (const query of this.#queries) query.submit(withoutSync);
      connection.sync();
    } finally {
      connection.stream.uncork();
    }
    return this.#failure ?? null;
  }

  handleRowDescription(message: unknown): void {
    this.#queries[this.#answering]?.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#queries[this.#answering]?.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    this.#queries[this.#answering++]?.handleCommandComplete(message, connection);
  }

  handleEmptyQuery(connection: Connection): void {
    this.#queries[this.#answering++]?.handleEmptyQuery(connection);
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleReadyForQuery(connection: Connection): void {
    for (const query of this.#queries) query.handleReadyForQuery(connection);
    if (this.#failure === undefined) this.callback(null, this.#results);
    else this.callback(this.#failure);
  }
}
