/** Reads traces, in a reading thread. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite';
import type { Instant } from '../../../src/model/observation.ts';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { bodyReader } from '../../../src/sqlite/queue/body-reading.ts';
import { cell, tuples } from '../../../src/sqlite/rows.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import type { ObservationCells } from './statements.ts';
import { OBSERVATION_COLUMN_NAMES, splitRow } from './statements.ts';

/** The columns of a `TraceRow`, in its order. */
const TRACE_COLUMNS = `t.n, t.at_ms, t.at_ns, t.key, t.long_id, t.name, t.status, t.start_ms, t.start_ns,
  t.end_ms, t.end_ns, t.observations, t.model_usage, t.other_usage`;

/** The traces that a read sees: of one project, with an event since a time in milliseconds since the epoch. */
export type TraceScope = { readonly project: string; readonly since: number };

export type TraceQuery = {
  readonly limit: number;
  readonly before: Place | null;
  readonly from: Instant | null;
  readonly to: Instant | null;
  readonly status: number | null;
  readonly kind: number | null;
  readonly name: string | null;
  readonly query: string | null;
};

export type StoredRow = {
  readonly n: number;
  readonly row: ObservationRow;
  readonly state: RowState<number>;
  readonly traceKey: Key;
  readonly traceLongId: string | null;
  readonly payload: PayloadRefs;
};

export function traceReadOperations(db: DatabaseSync) {
  return {
    'traces.list': (scope: TraceScope, query: TraceQuery): TraceRow[] => {
      const { sql, values } = listing(scope, query);
      return tuples<TraceRow>(db, sql).all(...values);
    },
    ...oneTraceOperations(db),
    ...observationOperations(db),
    ...batchOperations(db),
  };
}

/** Newest first. The statement has only the requested conditions, so that the index by time gives the order. */
function listing(
  { project, since }: TraceScope,
  query: TraceQuery,
): { sql: string; values: SQLInputValue[] } {
  const where = ['t.project = ?', 't.updated_at >= ?'];
  const values: SQLInputValue[] = [project, since];
  const add = (condition: string, ...more: SQLInputValue[]): void => {
    where.push(condition);
    values.push(...more);
  };
  const { before, from, to, status, kind, name, limit } = query;
  if (before !== null) add('(t.at_ms, t.at_ns, t.n) < (?, ?, ?)', before.ms, before.ns, before.n);
  if (from !== null) add('(t.at_ms, t.at_ns) >= (?, ?)', from.ms, from.ns);
  if (to !== null) add('(t.at_ms, t.at_ns) < (?, ?)', to.ms, to.ns);
  if (status !== null) add('t.status = ?', status);
  if (name !== null) add('t.name = ?', name);
  if (kind !== null) {
    add('EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND o.kind = ?)', kind);
  }
  if (query.query !== null) {
    const like = `%${escapeLike(query.query)}%`;
    // Custom fields are stored as JSON, which escapes some characters.
    const inJson = `%${escapeLike(JSON.stringify(query.query).slice(1, -1))}%`;
    add(
      `EXISTS (SELECT 1 FROM observations o WHERE o.trace = t.n AND (o.name LIKE ? ESCAPE '\\'
         OR o.model LIKE ? ESCAPE '\\' OR o.custom LIKE ? ESCAPE '\\'))`,
      like,
      like,
      inJson,
    );
  }
  values.push(limit);
  return {
    sql: `SELECT ${TRACE_COLUMNS} FROM traces t INDEXED BY traces_by_time WHERE ${where.join(' AND ')}
      ORDER BY t.at_ms DESC, t.at_ns DESC, t.n DESC LIMIT ?`,
    values,
  };
}

function escapeLike(text: string): string {
  return text.replaceAll(/[\\%_]/g, (character) => `\\${character}`);
}

/** An observation with the id of its trace. */
type FoundCells = [traceKey: Key, traceLongId: string | null, ...cells: ObservationCells];

const SELECT_OBSERVATIONS = `SELECT t.key, t.long_id, ${OBSERVATION_COLUMN_NAMES.map((column) => `o.${column}`).join(', ')}
  FROM observations o JOIN traces t ON t.n = o.trace`;

function oneTraceOperations(db: DatabaseSync) {
  const trace = tuples<TraceRow>(
    db,
    `SELECT ${TRACE_COLUMNS} FROM traces t
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ?`,
  );
  const page = tuples<FoundCells>(
    db,
    `${SELECT_OBSERVATIONS}
     WHERE t.project = ?1 AND t.updated_at >= ?2 AND t.key = ?3
       AND (coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n) > (?4, ?5, ?6)
     ORDER BY coalesce(o.start_ms, ${NO_START}), coalesce(o.start_ns, 0), o.n LIMIT ?7`,
  );
  const stored = storedRow(db);
  return {
    'traces.get': ({ project, since }: TraceScope, key: Key): TraceRow | null =>
      trace.get(project, since, key) ?? null,
    'traces.observations': (
      { project, since }: TraceScope,
      key: Key,
      after: Place | null,
      limit: number,
    ): StoredRow[] => {
      const { ms, ns, n } = after ?? FIRST_PLACE;
      return page.all(project, since, key, ms, ns, n, limit).map(stored);
    },
  };
}

function observationOperations(db: DatabaseSync) {
  const inTrace = tuples<FoundCells>(
    db,
    `${SELECT_OBSERVATIONS}
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ? AND o.key = ?`,
  );
  const anywhere = tuples<FoundCells>(
    db,
    `${SELECT_OBSERVATIONS}
     WHERE t.project = ? AND t.updated_at >= ? AND o.key = ? AND substr(o.key, 1, 1) <> ':'
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
  );
  const stored = storedRow(db);
  const orNull = (found: FoundCells | undefined): StoredRow | null =>
    found === undefined ? null : stored(found);
  return {
    'observations.inTrace': (
      { project, since }: TraceScope,
      trace: Key,
      key: Key,
    ): StoredRow | null => orNull(inTrace.get(project, since, trace, key)),
    'observations.anywhere': ({ project, since }: TraceScope, key: Key): StoredRow | null =>
      orNull(anywhere.get(project, since, key)),
  };
}

/** Returns a function that adds the events of the payload fields, by the ids of their batches. */
function storedRow(db: DatabaseSync): (found: FoundCells) => StoredRow {
  const batchIdOf = cell<string>(db, 'SELECT id FROM raw_batches WHERE seq = ?');
  return ([traceKey, traceLongId, ...cells]) => {
    const { n, row, state } = splitRow(cells);
    const ids = new Map<number, string | null>();
    const payload = payloadMarks(row, state).map((mark) => {
      if (mark === null) return null;
      const seq = mark[MARK.BATCH];
      let batchId = ids.get(seq);
      if (batchId === undefined) {
        batchId = batchIdOf(seq) ?? null;
        ids.set(seq, batchId);
      }
      return batchId === null ? null : { batchId, position: mark[MARK.POSITION] };
    });
    return { n, row, state, traceKey, traceLongId, payload };
  };
}

function batchOperations(db: DatabaseSync) {
  const find = cell<number>(
    db,
    `SELECT seq FROM raw_batches r WHERE id = ?3 AND project = ?1 AND (received_at >= ?2 OR EXISTS (
       SELECT 1 FROM batch_traces b JOIN traces t ON t.n = b.trace
       WHERE b.batch = r.seq AND t.project = ?1 AND t.updated_at >= ?2))`,
  );
  const read = bodyReader(db);
  return {
    'batches.get': ({ project, since }: TraceScope, ids: readonly string[]): BatchRecord[] => {
      const records: BatchRecord[] = [];
      for (const id of ids) {
        const seq = find(project, since, id);
        const body = seq === undefined ? undefined : read(seq);
        if (body !== undefined && 'record' in body) records.push(body.record);
      }
      return records;
    },
  };
}
