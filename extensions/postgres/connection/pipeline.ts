import type { Connection, Query, QueryResult, Submittable } from 'pg';
import type { Result, Statement } from './statement.ts';

/** What the driver calls while the answers of a query come in. */
type Answered = Submittable & {
  queryMode?: string;
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: Connection): void;
  handleEmptyQuery(connection: Connection): void;
  handleError(error: Error, connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
};
type Callback<T> = (error: Error | null | undefined, result?: T) => void;

/** The driver's class of queries. */
export type QueryClass = new (
  text: string,
  values: unknown[],
  callback: (error: Error | undefined, result: QueryResult) => void,
) => Query;

/**
 * Statements that the driver sends in one piece, with one end, and whose answers come in one. They are its
 * own queries; one after another is told what comes. Where one fails the server passes over the others.
 */
export class Pipeline implements Answered {
  /** The driver puts its own in front of it, which ends the timeout. */
  callback: Callback<readonly Result[]>;
  /** Milliseconds for all of them. */
  readonly query_timeout: number;
  readonly #queries: readonly Answered[];
  readonly #results: Result[] = [];
  #failure: Error | undefined;
  #at = 0;

  constructor(
    statements: readonly Statement[],
    timeout: number,
    { Query }: { readonly Query: QueryClass },
    callback: Callback<readonly Result[]>,
  ) {
    this.query_timeout = timeout;
    this.callback = callback;
    this.#queries = statements.map(([text, values]) => {
      const query = new Query(text, [...values], (error, result) => {
        if (error) this.#failure ??= error;
        else this.#results.push(result);
      }) as unknown as Answered;
      // In messages of their own, as with values: what has none would be sent as a script.
      query.queryMode = 'extended';
      return query;
    });
  }

  submit(connection: Connection): Error | null {
    const silent = Object.create(connection, { sync: { value() {} } }) as Connection;
    connection.stream.cork();
    try {
      for (const query of this.#queries) query.submit(silent);
      connection.sync();
    } finally {
      connection.stream.uncork();
    }
    return this.#failure ?? null;
  }

  handleRowDescription(message: unknown): void {
    this.#queries[this.#at]?.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    this.#queries[this.#at]?.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: Connection): void {
    this.#queries[this.#at++]?.handleCommandComplete(message, connection);
  }

  handleEmptyQuery(connection: Connection): void {
    this.#queries[this.#at++]?.handleEmptyQuery(connection);
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
