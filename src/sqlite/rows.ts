import type { DatabaseSync, SQLInputValue, SQLOutputValue, StatementSync } from 'node:sqlite';

/** A prepared statement that returns rows of one type. */
export type RowQuery<Row> = {
  /** The first row. */
  get(...values: SQLInputValue[]): Row | undefined;
  all(...values: SQLInputValue[]): Row[];
  iterate(...values: SQLInputValue[]): Iterable<Row>;
};

/** node:sqlite does not know the type of a row: the caller of `rows` and `tuples` states it, next to the SQL. */
type UntypedQuery = {
  get(...values: SQLInputValue[]): unknown;
  all(...values: SQLInputValue[]): unknown[];
  iterate(...values: SQLInputValue[]): Iterable<unknown>;
};

type Cell = SQLOutputValue | Uint8Array;
type Named = Readonly<Record<string, Cell>>;

/** Prepares a statement whose rows are objects. `Row` names the columns as the statement does. */
export function rows<Row extends Named>(db: DatabaseSync, sql: string): RowQuery<Row> {
  const statement: UntypedQuery = db.prepare(sql);
  return statement as RowQuery<Row>;
}

/** Prepares a statement whose rows are arrays of cells: for the hot path, where an object a row costs more. */
export function tuples<Row extends readonly Cell[]>(db: DatabaseSync, sql: string): RowQuery<Row> {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  const untyped: UntypedQuery = statement;
  return untyped as RowQuery<Row>;
}

/**
 * Prepares a statement whose `run` returns integers of any size. Every `run` returns the id of the last inserted row, and an index
 * of FTS5 inserts rows with ids that are no safe integers.
 */
export function prepareWide(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReadBigInts(true);
  return statement;
}

/** Prepares a statement that reads one cell: of the first row, or undefined without a row. */
export function cell<Value extends Cell>(
  db: DatabaseSync,
  sql: string,
): (...values: SQLInputValue[]) => Value | undefined {
  const query = tuples<[Value]>(db, sql);
  return (...values) => query.get(...values)?.[0];
}

/** Prepares a statement of which only matters whether it finds a row. */
export function finds(db: DatabaseSync, sql: string): (...values: SQLInputValue[]) => boolean {
  const statement = db.prepare(sql);
  return (...values) => statement.get(...values) !== undefined;
}
