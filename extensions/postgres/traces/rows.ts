/** The columns of `observations` and `traces`, in both directions. */
import { copyKeyOf } from '../../../src/store/rows/copies.ts';
import { versionOf } from '../../../src/store/rows/event-rank.ts';
import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import { ROW } from '../../../src/store/rows/observation-row.ts';
import type { SummarizedTrace, TraceColumn } from '../../../src/store/rows/trace-columns.ts';
import { STATE_COLUMNS, SUMMARY_COLUMNS } from '../../../src/store/rows/trace-columns.ts';
import { WrittenTrace } from '../../../src/store/rows/written-trace.ts';
import type { Column } from './columns.ts';
import type { PostedRow } from './postings.ts';
import { postingsOfRow } from './postings.ts';
import type { Entry } from './snapshot.ts';
import {
  escapeParent,
  escapeText,
  keyOfBytes,
  keyParameter,
  textOrNull,
  unescapeParent,
} from './text.ts';

/** A row of `observations`. */
export type ObservationTableRow = {
  readonly trace: number;
  readonly key: Buffer;
  readonly n: number;
  readonly long_id: string | null;
  readonly position: number;
  readonly version: string;
  readonly flags: number;
  readonly parent: string | null;
  readonly name: string | null;
  readonly kind: number | null;
  readonly status: number | null;
  readonly start_ms: number | null;
  readonly start_ns: number | null;
  readonly end_ms: number | null;
  readonly end_ns: number | null;
  readonly model: string | null;
  readonly usage: string | null;
  readonly session: string | null;
  readonly user_id: string | null;
  readonly error: string | null;
  readonly custom: string | null;
  readonly external: string | null;
  readonly details: string | null;
  readonly batch: string;
  readonly created_at: number;
  readonly updated_at: number;
  readonly merged: string | null;
};

/** Each column but `project`. */
export const OBSERVATION_COLUMNS: readonly (Column<Entry> & {
  readonly name: keyof ObservationTableRow;
})[] = [
  { name: 'trace', type: 'bigint', of: ({ trace }) => trace },
  { name: 'key', type: 'bytea', of: ({ key }) => keyParameter(key) },
  { name: 'n', type: 'bigint', of: ({ n }) => n },
  { name: 'long_id', type: 'text', of: ({ row }) => escaped(row[ROW.LONG_ID]) },
  { name: 'position', type: 'integer', of: ({ row }) => row[ROW.POSITION] },
  { name: 'version', type: 'numeric', of: ({ row }) => row[ROW.VERSION] },
  { name: 'flags', type: 'integer', of: ({ row }) => row[ROW.FLAGS] },
  { name: 'parent', type: 'text', of: ({ row }) => escapeParent(row[ROW.PARENT]) },
  { name: 'name', type: 'text', of: ({ row }) => escaped(row[ROW.NAME]) },
  { name: 'kind', type: 'smallint', of: ({ row }) => row[ROW.KIND] },
  { name: 'status', type: 'smallint', of: ({ row }) => row[ROW.STATUS] },
  { name: 'start_ms', type: 'bigint', of: ({ row }) => row[ROW.START_MS] },
  { name: 'start_ns', type: 'integer', of: ({ row }) => row[ROW.START_NS] },
  { name: 'end_ms', type: 'bigint', of: ({ row }) => row[ROW.END_MS] },
  { name: 'end_ns', type: 'integer', of: ({ row }) => row[ROW.END_NS] },
  { name: 'model', type: 'text', of: ({ row }) => escaped(row[ROW.MODEL]) },
  { name: 'usage', type: 'text', of: ({ row }) => escaped(row[ROW.USAGE]) },
  { name: 'session', type: 'text', of: ({ row }) => escaped(row[ROW.SESSION]) },
  { name: 'user_id', type: 'text', of: ({ row }) => escaped(row[ROW.USER]) },
  { name: 'error', type: 'text', of: ({ row }) => escaped(row[ROW.ERROR]) },
  { name: 'custom', type: 'text', of: ({ row }) => escaped(row[ROW.CUSTOM]) },
  { name: 'external', type: 'text', of: ({ row }) => escaped(row[ROW.EXTERNAL]) },
  { name: 'details', type: 'text', of: ({ row }) => escaped(row[ROW.DETAILS]) },
  { name: 'batch', type: 'text', of: ({ state }) => state.batch },
  { name: 'created_at', type: 'bigint', of: ({ state }) => state.createdAt },
  { name: 'updated_at', type: 'bigint', of: ({ state }) => state.updatedAt },
  { name: 'merged', type: 'text', of: ({ state }) => state.merged },
];

/** The columns that a write sets: `copy` follows from the others, and only `loading.ts` looks rows up by it. */
export const WRITTEN_COLUMNS: readonly Column<Entry>[] = [
  ...OBSERVATION_COLUMNS,
  { name: 'copy', type: 'text', of: ({ row }) => copyKeyOf(row) },
];

export function entryOf(row: ObservationTableRow): Entry {
  const key = keyOfBytes(row.key);
  return {
    n: row.n,
    key,
    trace: row.trace,
    row: [
      key,
      textOrNull(row.long_id),
      row.position,
      versionOf(row.version),
      row.flags,
      unescapeParent(row.parent),
      textOrNull(row.name),
      row.kind,
      row.status,
      row.start_ms,
      row.start_ns,
      row.end_ms,
      row.end_ns,
      textOrNull(row.model),
      textOrNull(row.usage),
      textOrNull(row.session),
      textOrNull(row.user_id),
      textOrNull(row.error),
      textOrNull(row.custom),
      textOrNull(row.external),
      textOrNull(row.details),
    ],
    state: {
      batch: row.batch,
      createdAt: row.created_at,
      updatedAt: row.updated_at,
      merged: row.merged,
    },
  };
}

/** The columns that the summary of a trace is made of. */
export const SUMMARIZED_COLUMNS = [
  ...(['trace', 'key', 'n', 'flags', 'parent', 'name', 'kind', 'status', 'start_ms'] as const),
  ...(['start_ns', 'end_ms', 'end_ns', 'model', 'usage', 'session', 'user_id', 'custom'] as const),
  ...(['error', 'details'] as const),
] as const satisfies readonly (keyof ObservationTableRow)[];
export type SummarizedTableRow = Pick<ObservationTableRow, (typeof SUMMARIZED_COLUMNS)[number]>;

/** An entry for a summary only: its other cells were not read. */
export function summarizedEntryOf(row: SummarizedTableRow): Entry {
  return entryOf({
    ...row,
    ...{ long_id: null, position: 0, version: '0', external: null },
    ...{ batch: '', created_at: 0, updated_at: 0, merged: null },
  });
}

type CellsWithoutKey = ObservationRow extends [Key, ...infer Cells] ? Cells : never;

/** A row without its key, as `pending_updates.cells` keeps it: a JSON array. */
export function jsonOfRow(row: ObservationRow): string {
  const [, longId, position, version, flags, parent, ...rest] = row;
  const cells = [escaped(longId), position, version, flags, escapeParent(parent)];
  const more = rest.map((cell) => (typeof cell === 'string' ? escapeText(cell) : cell));
  return JSON.stringify([...cells, ...more]);
}

export function rowOfJson(key: Key, json: string): ObservationRow {
  const cells = JSON.parse(json) as CellsWithoutKey;
  const [longId, position, version, flags, parent, name, kind, status, ...rest] = cells;
  const [startMs, startNs, endMs, endNs, ...texts] = rest;
  const [model, usage, session, user, error, custom, external, details] = texts;
  return [
    key,
    textOrNull(longId),
    position,
    version,
    flags,
    unescapeParent(typeof parent === 'string' ? parent : null),
    textOrNull(name),
    kind,
    status,
    startMs,
    startNs,
    endMs,
    endNs,
    textOrNull(model),
    textOrNull(usage),
    textOrNull(session),
    textOrNull(user),
    textOrNull(error),
    textOrNull(custom),
    textOrNull(external),
    // A row that waited before there were details has one cell less.
    textOrNull(details ?? null),
  ];
}

/** The state of a trace. */
export type TraceTableRow = {
  readonly n: number;
  readonly observations: number;
  readonly created_at: number;
  readonly updated_at: number;
  readonly key_id: string | null;
  readonly rollup: string | null;
} & PostedRow;

/** A new object each time, because a write changes it. */
export function writtenTraceOf(row: TraceTableRow): WrittenTrace {
  const trace = new WrittenTrace(row.n, row.created_at);
  trace.updatedAt = row.updated_at;
  trace.keyId = textOrNull(row.key_id);
  trace.count = row.observations;
  trace.rollup = row.rollup;
  trace.postings = postingsOfRow(row);
  return trace;
}

/** The number of a trace, and the columns that every write sets. */
export const TRACE_STATE_COLUMNS: readonly Column<WrittenTrace>[] = [
  { name: 'n', type: 'bigint', of: ({ n }) => n },
  ...STATE_COLUMNS.map((column) => columnOf<WrittenTrace>(column)),
];

/** The number of a trace, and the columns of its summary. */
export const SUMMARY_ONLY_COLUMNS: readonly Column<SummarizedTrace>[] = [
  { name: 'n', type: 'bigint', of: ({ n }) => n },
  ...SUMMARY_COLUMNS.map((column) => columnOf<SummarizedTrace>(column)),
];

export const TRACE_SUMMARY_COLUMNS: readonly Column<WrittenTrace & SummarizedTrace>[] = [
  ...SUMMARY_ONLY_COLUMNS,
  ...STATE_COLUMNS.map((column) => columnOf<WrittenTrace>(column)),
];

function columnOf<Trace>({ name, type, of }: TraceColumn<Trace>): Column<Trace> {
  if (type !== 'text') return { name, type: type === 'real' ? 'float8' : type, of };
  return {
    name,
    type,
    of: (trace) => {
      const cell = of(trace);
      return typeof cell === 'string' ? escapeText(cell) : cell;
    },
  };
}

function escaped(text: string | null): string | null {
  return text === null ? null : escapeText(text);
}

/** Whether two states of one trace are equal in the table. */
export function isSameTrace(a: WrittenTrace, b: WrittenTrace): boolean {
  return hasSameCells(TRACE_STATE_COLUMNS, a, b);
}

/** Whether two rows of one observation are equal in the table. */
export function isSameRow(a: Entry, b: Entry): boolean {
  return a === b || hasSameCells(OBSERVATION_COLUMNS, a, b);
}

function hasSameCells<Item>(columns: readonly Column<Item>[], a: Item, b: Item): boolean {
  return columns.every(({ of }) => {
    const cell = of(a);
    // Only keys are bytes, and the key of a row never changes.
    return Buffer.isBuffer(cell) || cell === of(b);
  });
}
