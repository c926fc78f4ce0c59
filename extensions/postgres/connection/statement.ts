/**
 * A row by column, as the driver parses it: `smallint`, `integer` and `bigint` are numbers, `numeric` is text, `bytea`
 * is a `Buffer`.
 */
export type Row = Readonly<Record<string, unknown>>;

export type Result = { readonly rows: readonly Row[] };

/** One statement, and the values of its $1, $2, …. */
export type Statement = readonly [text: string, values: readonly unknown[]];

export type PostgresClient = {
  /** Rejects with `RetryableError` or, if Postgres rejects the values themselves, `PermanentError`. */
  query(text: string, values?: readonly unknown[]): Promise<Result>;
};

/**
 * The rows of a result as the type that its select list has. No other place asserts the type of a row, so `T`
 * is always next to the statement that it describes.
 */
export function rowsIn<T extends Row>(result: Result): readonly T[] {
  return result.rows as readonly T[];
}

export async function rows<T extends Row>(
  client: PostgresClient,
  text: string,
  values?: readonly unknown[],
): Promise<readonly T[]> {
  return rowsIn<T>(await client.query(text, values));
}

/** The only row, or the first one. */
export async function row<T extends Row>(
  client: PostgresClient,
  text: string,
  values?: readonly unknown[],
): Promise<T | undefined> {
  return (await rows<T>(client, text, values))[0];
}

/** A statement and the meaning of its rows, to be sent together with others (`PostgresTransaction.together`). */
export type Question<T> = {
  readonly statement: Statement;
  readonly answer: (result: Result) => T;
};

export function question<T extends Row, A>(
  statement: Statement,
  answer: (rows: readonly T[]) => A,
): Question<A> {
  return { statement, answer: (result) => answer(rowsIn<T>(result)) };
}

/** Sends one question on its own. */
export async function ask<T>(
  client: PostgresClient,
  { statement: [text, values], answer }: Question<T>,
): Promise<T> {
  return answer(await client.query(text, values));
}
