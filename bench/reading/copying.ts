import { addEncoded, encodeHistogram } from '../../src/store/rollups/histogram.ts';

/** How one copy of the traces of a store is made, for a printed line. */
export const HOW_GROWN =
  'each trace of ten spans was copied inside the store, with its observations and postings, under another id, at another time of the ' +
  'same hour, for the same user and session; rollups were multiplied; raw batches are shared, so the bytes on disk lack those of the copies';

/** Traces with more observations are not copied: the store keeps one large trace. */
const LARGEST_COPIED = 1000;
/** Above every number that a trace or an observation of the copied store has within its day. */
const STRIDE = 100_000_000;
const NUMBERS_A_DAY = 2 ** 38;
const HOUR_MS = 3_600_000;

/** The SQL in which the two databases differ. */
export type CopyDialect = {
  /** The table that rows are copied from. */
  source(table: string): string;
  columnsOf(table: string): Promise<readonly string[]> | readonly string[];
  /** The key of a trace with another first byte. */
  otherKey(key: string, byte: number): string;
};

/** Expressions of the columns that a copy changes. */
type Changed = Readonly<Record<string, string>>;

/** The tables with rows of traces. A store has some of them. */
const TABLES = ['traces', 'trace_keys', 'observations', 'trace_terms', 'batch_traces'];

/** The statements that add one copy of every trace; `copy` is from 1 to `times` - 1. */
export async function copyStatements(
  dialect: CopyDialect,
  copy: number,
  times: number,
): Promise<string[]> {
  const statements: string[] = [];
  for (const table of TABLES) {
    const columns = await dialect.columnsOf(table);
    if (columns.length > 0) statements.push(copyStatement(dialect, table, columns, copy, times));
  }
  return statements;
}

function copyStatement(
  dialect: CopyDialect,
  table: string,
  columns: readonly string[],
  copy: number,
  times: number,
): string {
  const changed = changedColumns(dialect, copy, times)[table] ?? {};
  const cells = columns.map((column) => changed[column] ?? `x.${column}`);
  const traces = dialect.source('traces');
  const from =
    table === 'traces' ? `${traces} x` : `${traces} t CROSS JOIN ${dialect.source(table)} x`;
  const owner = table === 'traces' ? 'x' : 't';
  const join = JOINS[table];
  const where = [
    ...(join === undefined ? [] : [join]),
    `${owner}.observations <= ${LARGEST_COPIED}`,
    `${owner}.n % ${NUMBERS_A_DAY} < ${STRIDE}`,
  ];
  return `INSERT INTO ${table} (${columns.join(', ')}) SELECT ${cells.join(', ')} FROM ${from}
    WHERE ${where.join(' AND ')} ORDER BY ${ORDERS[table]}`;
}

const JOINS: Changed = {
  trace_keys: 'x.n = t.n AND x.project = t.project AND x.key = t.key',
  observations: 'x.trace = t.n',
  trace_terms: 'x.trace = t.n AND x.at_ms = t.at_ms AND x.at_ns = t.at_ns',
  batch_traces: 'x.trace = t.n',
};

/** The order of the largest index. */
const ORDERS: Changed = {
  traces: 'x.n',
  trace_keys: 'x.project, x.key',
  observations: 't.n, x.n',
  trace_terms: 'x.term, x.at_ms',
  batch_traces: 'x.batch',
};

function changedColumns(
  { otherKey }: CopyDialect,
  copy: number,
  times: number,
): Readonly<Record<string, Changed>> {
  const other = (column: string): string => `${column} + ${copy * STRIDE}`;
  const step = Math.floor((copy * HOUR_MS) / times);
  const later = (column: string, trace: string): string =>
    `${column} + (${trace}.at_ms + ${step}) % ${HOUR_MS} - ${trace}.at_ms % ${HOUR_MS}`;
  const moved = (trace: string, ...columns: string[]): Changed =>
    Object.fromEntries(columns.map((column) => [column, later(`x.${column}`, trace)]));
  return {
    traces: {
      ...{ n: other('x.n'), root: other('x.root'), key: otherKey('x.key', copy) },
      ...moved('x', 'at_ms', 'start_ms', 'end_ms', 'newest_ms', 'root_ms'),
    },
    trace_keys: { n: other('x.n'), key: otherKey('x.key', copy) },
    observations: {
      ...{ n: other('x.n'), trace: other('x.trace') },
      ...moved('t', 'start_ms', 'end_ms'),
    },
    trace_terms: { trace: other('x.trace'), ...moved('t', 'at_ms') },
    batch_traces: { trace: other('x.trace') },
  };
}

/** The numbers of a rollup that are multiplied. */
export const ROLLUP_NUMBERS = [
  ...['traces', 'observations', 'errors', 'input', 'output', 'cached', 'cost'],
];

export function multipliedLatencies(stored: Uint8Array, times: number): Uint8Array {
  const latencies = new Map<number, number>();
  addEncoded(latencies, stored);
  return encodeHistogram(new Map([...latencies].map(([bucket, count]) => [bucket, count * times])));
}
