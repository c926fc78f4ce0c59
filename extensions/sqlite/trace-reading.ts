/**
 * What reads traces, in a reading thread. Every call takes the project it reads for, and since when a trace
 * must have had an event to be shown.
 */
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { BatchRecord } from '../../src/queue/record.ts';
import type { Operations } from '../../src/sqlite/operation.ts';
import { bodyReader } from '../../src/sqlite/queue/operations.ts';
import { marksFromText } from '../../src/store/rows/merge.ts';
import type { Key } from '../../src/store/rows/observation-row.ts';
import { ROW_COLUMNS, toMerged } from '../../src/store/rows/observation-row.ts';
import type { Place } from '../../src/store/rows/place.ts';
import type { PayloadRefs } from '../../src/store/rows/stored.ts';
import { splitRow } from './trace-statements.ts';

const TRACE_COLUMNS =
  't.n, t.key, t.long_id, t.at_ms, t.at_ns, t.name, t.status, t.start_ms, t.start_ns, t.end_ms, ' +
  't.end_ns, t.observations, t.model_usage, t.other_usage';

/** A project, and milliseconds since the epoch. */
export type Scope = readonly [project: string, since: number];

export type TraceQuery = {
  readonly limit: number;
  readonly before: Place | null;
  readonly from: readonly [ms: number, ns: number] | null;
  readonly to: readonly [ms: number, ns: number] | null;
  readonly status: number | null;
  readonly kind: number | null;
  readonly name: string | null;
  readonly query: string | null;
};

/** An observation's cells, its trace's id, and the batches of its five payload fields. */
export type StoredRow = readonly [
  cells: readonly (string | number | Uint8Array | null)[],
  traceKey: Key,
  traceLongId: string | null,
  payload: PayloadRefs,
];

const ROWS = `o.n, ${ROW_COLUMNS.split(', ')
  .map((column) => `o.${column}`)
  .join(', ')}, o.batch, o.created_at, o.updated_at, o.merged`;
/** Observations without a start come last. */
const NO_START = Number.MAX_SAFE_INTEGER;

export function traceReadingCalls(db: DatabaseSync): Operations['calls'] {
  return {
    'traces.list': (scope: Scope, query: TraceQuery): unknown[] => {
      const { sql, values } = listing(scope, query);
      const statement = rows(db, sql);
      return statement.all(...values);
    },
    ...oneTraceCalls(db),
    ...observationCalls(db),
    ...batchCalls(db),
  };
}

function rows(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

/** Newest first. Only the conditions that were asked for, so that the index by time carries the order. */
function listing(scope: Scope, query: TraceQuery): { sql: string; values: SQLInputValue[] } {
  const where = ['t.project = ?', 't.updated_at >= ?'];
  const values: SQLInputValue[] = [...scope];
  const add = (condition: string, ...more: SQLInputValue[]): void => {
    where.push(condition);
    values.push(...more);
  };
  if (query.before !== null) add('(t.at_ms, t.at_ns, t.n) < (?, ?, ?)', ...query.before);
  if (query.from !== null) add('(t.at_ms, t.at_ns) >= (?, ?)', ...query.from);
  if (query.to !== null) add('(t.at_ms, t.at_ns) < (?, ?)', ...query.to);
  if (query.status !== null) add('t.status = ?', query.status);
  if (query.name !== null) add('t.name = ?', query.name);
  if (query.kind !== null) {
    add('EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND o.kind = ?)', query.kind);
  }
  if (query.query !== null) {
    const like = `%${escapeLike(query.query)}%`;
    // Custom fields are kept as JSON, where some characters are written otherwise.
    const inJson = `%${escapeLike(JSON.stringify(query.query).slice(1, -1))}%`;
    add(
      `EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND (o.name LIKE ? ESCAPE '\\'
         OR o.model LIKE ? ESCAPE '\\' OR o.custom LIKE ? ESCAPE '\\'))`,
      like,
      like,
      inJson,
    );
  }
  values.push(query.limit);
  return {
    sql: `SELECT ${TRACE_COLUMNS} FROM traces t INDEXED BY traces_by_time WHERE ${where.join(' AND ')}
      ORDER BY t.at_ms DESC, t.at_ns DESC, t.n DESC LIMIT ?`,
    values,
  };
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, (character) => `\\${character}`);
}

function oneTraceCalls(db: DatabaseSync): Operations['calls'] {
  const trace = rows(
    db,
    `SELECT ${TRACE_COLUMNS} FROM traces t
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ?`,
  );
  const page = rows(
    db,
    `SELECT ${ROWS}, t.key, t.long_id FROM observations o JOIN traces t ON t.n = o.trace
     WHERE t.project = ?1 AND t.updated_at >= ?2 AND t.key = ?3
       AND (coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n) > (?4, ?5, ?6)
     ORDER BY coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n LIMIT ?7`,
  );
  const stored = storedRow(db);
  return {
    'traces.get': (scope: Scope, key: Key) => trace.get(...scope, key) ?? null,
    'traces.observations': (
      scope: Scope,
      key: Key,
      after: Place | null,
      limit: number,
    ): StoredRow[] => {
      const place = after ?? [Number.MIN_SAFE_INTEGER, 0, 0];
      return page.all(...scope, key, ...place, limit).map(stored);
    },
  };
}

function observationCalls(db: DatabaseSync): Operations['calls'] {
  const inTrace = rows(
    db,
    `SELECT ${ROWS}, t.key, t.long_id FROM observations o JOIN traces t ON t.n = o.trace
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ? AND o.key = ?`,
  );
  const anywhere = rows(
    db,
    `SELECT ${ROWS}, t.key, t.long_id FROM observations o JOIN traces t ON t.n = o.trace
     WHERE t.project = ? AND t.updated_at >= ? AND o.key = ? AND substr(o.key, 1, 1) <> ':'
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
  );
  const stored = storedRow(db);
  return {
    'observations.inTrace': (scope: Scope, trace: Key, key: Key): StoredRow | null => {
      const found = inTrace.get(...scope, trace, key);
      return found === undefined ? null : stored(found);
    },
    'observations.anywhere': (scope: Scope, key: Key): StoredRow | null => {
      const found = anywhere.get(...scope, key);
      return found === undefined ? null : stored(found);
    },
  };
}

/** Adds the events that hold the payload fields, by the ids of their batches. */
function storedRow(db: DatabaseSync): (found: unknown) => StoredRow {
  const batchId = rows(db, 'SELECT id FROM raw_batches WHERE seq = ?');
  return (found) => {
    const cells = found as (string | number | Uint8Array | null)[];
    const [longId, key] = [cells.pop() as string | null, cells.pop() as Key];
    const [, row, state] = splitRow(cells);
    const merged = toMerged(row, state);
    const marks = marksFromText(state.merged, merged.top, merged.values);
    const ids = new Map<number, string | null>();
    const payload = marks.slice(-5).map((mark) => {
      if (mark === null) return null;
      let id = ids.get(mark[0]);
      if (id === undefined) {
        id = (batchId.get(mark[0]) as unknown as [string] | undefined)?.[0] ?? null;
        ids.set(mark[0], id);
      }
      return id === null ? null : ([id, mark[1]] as const);
    });
    return [cells, key, longId, payload];
  };
}

function batchCalls(db: DatabaseSync): Operations['calls'] {
  const find = rows(
    db,
    `SELECT seq FROM raw_batches r WHERE id = ?3 AND project = ?1 AND (received_at >= ?2 OR EXISTS (
       SELECT 1 FROM batch_traces b JOIN traces t ON t.n = b.trace
       WHERE b.batch = r.seq AND t.project = ?1 AND t.updated_at >= ?2))`,
  );
  const body = bodyReader(db);
  return {
    'batches.get': (scope: Scope, ids: readonly string[]): BatchRecord[] => {
      const found: BatchRecord[] = [];
      for (const id of ids) {
        const seq = (find.get(...scope, id) as unknown as [number] | undefined)?.[0];
        const read = seq === undefined ? undefined : body(seq);
        if (read !== undefined && 'record' in read) found.push(read.record);
      }
      return found;
    },
  };
}
