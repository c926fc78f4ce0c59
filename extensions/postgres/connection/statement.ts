/** Rows by column. `bigint` columns come as text. */
export type Row = Readonly<Record<string, unknown>>;

export type Result = { readonly rows: readonly Row[] };

/** One statement, and what stands at its $1, $2, …. */
export type Statement = readonly [text: string, values: readonly unknown[]];

export type PostgresClient = {
  /** Rejects with `RetryableError` or, where the values themselves are refused, `PermanentError`. */
  query(text: string, values?: readonly unknown[]): Promise<Result>;
};

/** A statement and what its rows say. */
export type Question<T> = {
  readonly statement: Statement;
  readonly answer: (rows: readonly Row[]) => T;
};

export async function ask<T>(
  client: PostgresClient,
  { statement: [text, values], answer }: Question<T>,
): Promise<T> {
  const { rows } = await client.query(text, values);
  return answer(rows);
}
