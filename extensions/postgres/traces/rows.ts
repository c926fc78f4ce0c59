/** The columns of `observations` and `traces`, in both directions. */
import { versionOf } from '../../../src/store/rows/event-rank.ts';
import type { Key, ObservationRow } from '../../../src/store/rows/observation-row.ts';
import { ROW } from '../../../src/store/rows/observation-row.ts';
import { sumsOf, sumsToText, TraceState } from '../../../src/store/rows/trace-sums.ts';
import type { Column } from './columns.ts';
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

/** The columns that the sums of a trace are made of. */
export const SUMMED_COLUMNS = [
  ...(['trace', 'key', 'n', 'parent', 'name', 'kind', 'status'] as const),
  ...(['start_ms', 'start_ns', 'end_ms', 'end_ns', 'usage'] as const),
] satisfies (keyof ObservationTableRow)[];
export type SummedTableRow = Pick<ObservationTableRow, (typeof SUMMED_COLUMNS)[number]>;

/** An entry for sums only: its other cells were not read. */
export function summedEntryOf(row: SummedTableRow): Entry {
  return entryOf({
    ...row,
    ...{ long_id: null, position: 0, version: '0', flags: 0, model: null, session: null },
    ...{ user_id: null, error: null, custom: null, external: null, details: null },
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

/** A row of `traces` without its key. */
export type TraceTableRow = {
  readonly n: number;
  readonly at_ms: number;
  readonly at_ns: number;
  readonly start_ms: number | null;
  readonly start_ns: number | null;
  readonly end_ms: number | null;
  readonly end_ns: number | null;
  readonly root: number | null;
  readonly root_has_parent: number | null;
  readonly root_ms: number | null;
  readonly root_ns: number | null;
  readonly name: string | null;
  readonly status: number | null;
  readonly observations: number;
  readonly model_usage: string | null;
  readonly other_usage: string | null;
  readonly created_at: number;
  readonly updated_at: number;
};

/** The columns that change with the observations of a trace, and its number. */
export const TRACE_COLUMNS: readonly (Column<TraceState> & {
  readonly name: keyof TraceTableRow;
})[] = [
  { name: 'n', type: 'bigint', of: ({ n }) => n },
  { name: 'at_ms', type: 'bigint', of: ({ startMs, createdAt }) => startMs ?? createdAt },
  { name: 'at_ns', type: 'integer', of: ({ startNs }) => startNs ?? 0 },
  { name: 'start_ms', type: 'bigint', of: ({ startMs }) => startMs },
  { name: 'start_ns', type: 'integer', of: ({ startNs }) => startNs },
  { name: 'end_ms', type: 'bigint', of: ({ endMs }) => endMs },
  { name: 'end_ns', type: 'integer', of: ({ endNs }) => endNs },
  { name: 'root', type: 'bigint', of: ({ root }) => root },
  { name: 'root_has_parent', type: 'smallint', of: ({ rootKey }) => rootKey?.hasParent ?? null },
  { name: 'root_ms', type: 'bigint', of: ({ rootKey }) => rootKey?.ms ?? null },
  { name: 'root_ns', type: 'integer', of: ({ rootKey }) => rootKey?.ns ?? null },
  { name: 'name', type: 'text', of: ({ name }) => escaped(name) },
  { name: 'status', type: 'smallint', of: ({ status }) => status },
  { name: 'observations', type: 'integer', of: ({ count }) => count },
  { name: 'model_usage', type: 'text', of: ({ modelUsage }) => escaped(sumsToText(modelUsage)) },
  { name: 'other_usage', type: 'text', of: ({ otherUsage }) => escaped(sumsToText(otherUsage)) },
  { name: 'created_at', type: 'bigint', of: ({ createdAt }) => createdAt },
  { name: 'updated_at', type: 'bigint', of: ({ updatedAt }) => updatedAt },
];

/** A new object each time, because a write changes it. */
export function traceStateOf(row: TraceTableRow): TraceState {
  const trace = new TraceState(row.n, row.created_at);
  trace.seen(row.updated_at);
  trace.startMs = row.start_ms;
  trace.startNs = row.start_ns;
  trace.endMs = row.end_ms;
  trace.endNs = row.end_ns;
  trace.root = row.root;
  if (row.root !== null) {
    const hasParent = row.root_has_parent === 1 ? 1 : 0;
    trace.rootKey = { hasParent, ms: row.root_ms ?? 0, ns: row.root_ns ?? 0, n: row.root };
  }
  trace.name = textOrNull(row.name);
  trace.status = row.status;
  trace.count = row.observations;
  trace.modelUsage = sumsOf(textOrNull(row.model_usage));
  trace.otherUsage = sumsOf(textOrNull(row.other_usage));
  return trace;
}

/** Whether two states of one trace are equal in the table. */
export function isSameTrace(a: TraceState, b: TraceState): boolean {
  return hasSameCells(TRACE_COLUMNS, a, b);
}

function escaped(text: string | null): string | null {
  return text === null ? null : escapeText(text);
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
