/** Reads traces, in a reading thread. */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../../src/queue/record.ts';
import { bodyReader } from '../../../src/sqlite/queue/body-reading.ts';
import { cell, tuples } from '../../../src/sqlite/rows.ts';
import { matchStatement } from '../../../src/store/plan/match.ts';
import type { Look, TraceScope } from '../../../src/store/plan/step.ts';
import { contributionOf } from '../../../src/store/rollups/contribution.ts';
import { MARK } from '../../../src/store/rows/event-rank.ts';
import {
  listedColumn,
  listedRow,
  listedTraceRow,
  rowBytes,
} from '../../../src/store/rows/listed.ts';
import type { Key, ObservationRow, RowState } from '../../../src/store/rows/observation-row.ts';
import { eventMarks, keyOfId, payloadMarks } from '../../../src/store/rows/observation-row.ts';
import type { FoundRows } from '../../../src/store/rows/page.ts';
import { takeRows } from '../../../src/store/rows/page.ts';
import type { Place } from '../../../src/store/rows/place.ts';
import { FIRST_PLACE, NO_START } from '../../../src/store/rows/place.ts';
import type { PayloadRefs, TraceRow } from '../../../src/store/rows/stored.ts';
import { idOfTrace, TRACE_ROW_COLUMNS } from '../../../src/store/rows/stored.ts';
import type { SummarizedTrace } from '../../../src/store/rows/trace-columns.ts';
import type { TraceStep } from '../../../src/store/rows/trace-page.ts';
import { behindHex } from '../../../src/store/rows/trace-page.ts';
import { summarize } from '../../../src/store/rows/trace-summary.ts';
import { traceTerms } from '../../../src/store/rows/trace-terms.ts';
import type { PackedTree, TreeCells } from '../../../src/store/rows/tree.ts';
import { packTree, TREE_COLUMNS } from '../../../src/store/rows/tree.ts';
import type { EventRef } from '../../../src/store/store.ts';
import { workClock } from '../../../src/thread/work-clock.ts';
import { queryRunner } from '../search/dialect.ts';
import { SCORES_OF_TRACE } from './score-operations.ts';
import type { ObservationCells } from './statements.ts';
import { OBSERVATION_COLUMN_NAMES, splitRow } from './statements.ts';
import { keptStatements, stepReading } from './step-reading.ts';

/** The columns of a `TraceRow`, of the table `t`. */
export const LISTED_TRACE = [
  ...TRACE_ROW_COLUMNS.map((column) => listedColumn('t', column)),
  SCORES_OF_TRACE,
].join(', ');

export type StoredRow = {
  readonly n: number;
  readonly row: ObservationRow;
  readonly state: RowState<number>;
  readonly traceKey: Key;
  readonly traceLongId: string | null;
  readonly newestMs: number | null;
  readonly payload: PayloadRefs;
};

export function traceReadOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const readStep = stepReading<TraceRow>(db);
  return {
    'traces.list': (scope: TraceScope, look: Look): TraceStep =>
      runQuery(look.query, (dialect) => {
        const spent = workClock();
        const { found, end } = readStep(dialect, scope, look, LISTED_TRACE);
        const taken = takeRows(listedTraces(found), look.limit, rowBytes);
        return { ...taken, end, spentMs: spent() };
      }),
    ...oneTraceOperations(db),
    ...summaryOperations(db),
    ...observationOperations(db),
    ...batchOperations(db),
  };
}

function listedOrNull(found: TraceRow | undefined): TraceRow | null {
  return found === undefined ? null : listedTraceRow(found);
}

function* listedTraces(found: Iterable<TraceRow>): Generator<TraceRow> {
  for (const row of found) yield listedTraceRow(row);
}

/** An observation with the id of its trace. */
export type FoundCells = [
  traceKey: Key,
  traceLongId: string | null,
  newestMs: number | null,
  ...cells: ObservationCells,
];

const JOINED = 'FROM observations o JOIN traces t ON t.n = o.trace';
// A cross join keeps the planner from reading all traces of the project by their age.
const JOINED_BY_KEY =
  'FROM observations o INDEXED BY observations_by_key CROSS JOIN traces t ON t.n = o.trace';
const SELECT_OBSERVATIONS = selectOf((column) => `o.${column}`);

function selectOf(cellOf: (column: string) => string, from = JOINED): string {
  const cells = OBSERVATION_COLUMN_NAMES.map(cellOf).join(', ');
  return `SELECT t.key, t.long_id, t.newest_ms, ${cells} ${from}`;
}

/** Observations of a trace behind a place. The index `observations_in_order` gives the order. */
export const TIME = `coalesce(o.start_ms, ${NO_START})`;
export const PLACE = `${TIME}, coalesce(o.start_ns, 0), o.n`;
// SQLite looks up the first column of a place in the index, and only if it is compared on its own.
const BEHIND_PLACE = `
     WHERE t.project = ?1 AND t.updated_at >= ?2 AND t.key = ?3
       AND ${TIME} >= ?4 AND (${PLACE}) > (?4, ?5, ?6)
     ORDER BY ${PLACE} LIMIT ?7`;

const listedCell = (column: string): string => listedColumn('o', column);
/** The statements of a page, with all columns and with those of a tree. */
export const PAGE_OF_TRACE = {
  all: `${selectOf(listedCell)} ${BEHIND_PLACE}`,
  tree: `SELECT ${TREE_COLUMNS.map(listedCell).join(', ')}, t.newest_ms ${JOINED} ${BEHIND_PLACE}`,
};

function oneTraceOperations(db: DatabaseSync) {
  const runQuery = queryRunner(db);
  const matching = keptStatements<TraceRow>(db);
  const trace = tuples<TraceRow>(
    db,
    `SELECT ${LISTED_TRACE} FROM traces t
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ?`,
  );
  const idsFrom = tuples<[key: string]>(
    db,
    'SELECT key FROM traces WHERE project = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?',
  );
  return {
    /** The ids of traces that begin with a text of hex digits, in their order. */
    'traces.idsFrom': ({ project }: TraceScope, beginning: string, limit: number): string[] =>
      idsFrom.all(project, beginning, behindHex(beginning), limit).map(([key]) => key),
    /** The traces with these keys that match a query. */
    'traces.match': (
      scope: TraceScope,
      query: Look['query'],
      ids: readonly string[],
      staleBefore: number,
    ): TraceRow[] =>
      runQuery(query, (dialect) => {
        const asked = { query, ids, staleBefore };
        const { sql, values } = matchStatement(dialect, scope, asked, LISTED_TRACE);
        return matching(sql)
          .all(...values)
          .map(listedTraceRow);
      }),
    'traces.get': ({ project, since }: TraceScope, key: Key): TraceRow | null =>
      listedOrNull(trace.get(project, since, key)),
    'traces.observations': pageOperation(db, storedRow(db)),
    'traces.sources': pageOperation(db, sourceRow(db)),
    'traces.tree': treeOperation(db),
  };
}

function pageOperation<Row extends StoredRow>(
  db: DatabaseSync,
  stored: (found: FoundCells) => Row,
) {
  const page = tuples<FoundCells>(db, PAGE_OF_TRACE.all);
  function* listed(found: Iterable<FoundCells>): Generator<Row> {
    for (const cells of found) {
      const each = stored(cells);
      yield { ...each, row: listedRow(each.row) };
    }
  }
  return (
    { project, since }: TraceScope,
    key: Key,
    after: Place | null,
    limit: number,
  ): FoundRows<Row> => {
    const { ms, ns, n } = after ?? FIRST_PLACE;
    const found = page.iterate(project, since, key, ms, ns, n, limit + 1);
    return takeRows(listed(found), limit, ({ row }) => rowBytes(row));
  };
}

/** A row, and the events that it has its fields from. */
export type SourceRow = StoredRow & { readonly events: readonly EventRef[] };

/** Returns a function that adds the events of a row too. */
export function sourceRow(db: DatabaseSync): (found: FoundCells) => SourceRow {
  const stored = storedRow(db);
  const batchIdOf = batchIds(db);
  return (found) => {
    const each = stored(found);
    const idOf = batchIdOf();
    const events = eventMarks(each.row, each.state).flatMap((mark) => {
      const batchId = idOf(mark[MARK.BATCH]);
      return batchId === null ? [] : [{ batchId, position: mark[MARK.POSITION] }];
    });
    return { ...each, events };
  };
}

/** The part of a tree that is wanted. `staleBefore`: see `traceOf`. */
type TreeAsked = {
  readonly traceId: string;
  readonly after: Place | null;
  readonly limit: number;
  readonly staleBefore: number;
  readonly hasText: boolean;
};

function treeOperation(db: DatabaseSync) {
  const page = tuples<TreeCells>(db, PAGE_OF_TRACE.tree);
  return ({ project, since }: TraceScope, tree: TreeAsked): PackedTree => {
    const { traceId, limit, staleBefore, hasText } = tree;
    const { ms, ns, n } = tree.after ?? FIRST_PLACE;
    const found = page.iterate(project, since, keyOfId(traceId), ms, ns, n, limit + 1);
    return packTree(takeRows(found, limit, rowBytes), traceId, staleBefore, hasText);
  };
}

/** A trace with its summary, and the count of changes that the summary is up to. */
export type MadeSummary = {
  readonly trace: SummarizedTrace;
  readonly changes: number;
  readonly project: string;
  readonly key: Key;
  readonly traceId: string;
  /** Milliseconds of work of the thread. */
  readonly spentMs: number;
};

type StaleCells = [
  changes: number,
  project: string,
  keyId: string | null,
  updatedAt: number,
  createdAt: number,
  key: Key,
  longId: string | null,
];

function summaryOperations(db: DatabaseSync) {
  const next = cell<number>(
    db,
    'SELECT n FROM traces INDEXED BY stale_traces WHERE stale_changes > 0 AND n > ? ORDER BY n LIMIT 1',
  );
  const state = tuples<StaleCells>(
    db,
    `SELECT stale_changes, project, key_id, updated_at, created_at, key, long_id FROM traces
     WHERE n = ? AND stale_changes > 0`,
  );
  const observations = tuples<ObservationCells>(
    db,
    `SELECT ${OBSERVATION_COLUMN_NAMES.join(', ')} FROM observations WHERE trace = ?`,
  );
  const withoutTerms = cell<number>(
    db,
    'SELECT count(*) FROM traces INDEXED BY traces_without_terms WHERE terms IS NULL',
  );
  return {
    /** The number of traces without postings. */
    'traces.withoutTerms': (): number => withoutTerms() ?? 0,
    /** The first stale trace behind a number. */
    'traces.nextStale': (after: number): number | null => next(after) ?? null,
    /** Null if the trace is not stale any more, or is gone. */
    'traces.summarize': (n: number): MadeSummary | null => {
      const spent = workClock();
      const found = state.get(n);
      // The changes are read before the observations: rows that are written in between count as changes.
      const rows = found === undefined ? [] : observations.all(n).map(splitRow);
      if (found === undefined || rows.length === 0) return null;
      const [changes, project, keyId, updatedAt, createdAt, key, longId] = found;
      const summary = summarize(rows, updatedAt);
      const terms = traceTerms(project, keyId, summary);
      const rollup = JSON.stringify(contributionOf({ createdAt, keyId, summary }));
      const traceId = idOfTrace(key, longId);
      const trace = { n, createdAt, summary, terms, rollup };
      return { ...{ trace, changes, project, key, traceId }, spentMs: spent() };
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
    `${selectOf((column) => `o.${column}`, JOINED_BY_KEY)}
     WHERE t.project = ? AND t.updated_at >= ? AND o.key = ? AND substr(o.key, 1, 1) <> ':'
     ORDER BY o.updated_at DESC, o.n DESC LIMIT 1`,
  );
  const root = tuples<FoundCells>(
    db,
    `${SELECT_OBSERVATIONS}
     WHERE t.project = ? AND t.updated_at >= ? AND t.key = ? AND o.n = t.root`,
  );
  const stored = storedRow(db);
  const source = sourceRow(db);
  const orNull = (found: FoundCells | undefined): SourceRow | null =>
    found === undefined ? null : source(found);
  return {
    'observations.inTrace': (
      { project, since }: TraceScope,
      trace: Key,
      key: Key,
    ): SourceRow | null => orNull(inTrace.get(project, since, trace, key)),
    'observations.root': ({ project, since }: TraceScope, trace: Key): StoredRow | null => {
      const found = root.get(project, since, trace);
      return found === undefined ? null : stored(found);
    },
    'observations.anywhere': ({ project, since }: TraceScope, key: Key): SourceRow | null =>
      orNull(anywhere.get(project, since, key)),
  };
}

/** Returns a function that adds the events of the payload fields, by the ids of their batches. */
export function storedRow(db: DatabaseSync): (found: FoundCells) => StoredRow {
  const batchIdOf = batchIds(db);
  const refsOf = (row: ObservationRow, state: RowState<number>): PayloadRefs => {
    const idOf = batchIdOf();
    return payloadMarks(row, state).map((mark) => {
      if (mark === null) return null;
      const batchId = idOf(mark[MARK.BATCH]);
      return batchId === null ? null : { batchId, position: mark[MARK.POSITION] };
    });
  };
  return (found) => rowIn(found, refsOf);
}

/** Looks ids of batches up, each once for a row; null for a batch that is gone. */
function batchIds(db: DatabaseSync): () => (seq: number) => string | null {
  const find = cell<string>(db, 'SELECT id FROM raw_batches WHERE seq = ?');
  return () => {
    const ids = new Map<number, string | null>();
    return (seq) => {
      const id = ids.get(seq) ?? find(seq) ?? null;
      ids.set(seq, id);
      return id;
    };
  };
}

function rowIn(
  [traceKey, traceLongId, newestMs, ...cells]: FoundCells,
  refsOf: (row: ObservationRow, state: RowState<number>) => PayloadRefs,
): StoredRow {
  const { n, row, state } = splitRow(cells);
  return { n, row, state, traceKey, traceLongId, newestMs, payload: refsOf(row, state) };
}

function batchOperations(db: DatabaseSync) {
  const find = cell<number>(
    db,
    `SELECT seq FROM raw_batches r WHERE id = ?3 AND project = ?1 AND (received_at >= ?2 OR EXISTS (
       SELECT 1 FROM batch_traces b CROSS JOIN traces t ON t.n = b.trace
       WHERE b.batch = r.seq AND t.project = ?1 AND t.updated_at >= ?2))`,
  );
  const read = bodyReader(db);
  const crcOf = cell<number>(db, 'SELECT crc FROM raw_batches WHERE seq = ?');
  return {
    /** The checksum of each body. */
    'batches.stamps': (
      { project, since }: TraceScope,
      ids: readonly string[],
    ): [id: string, stamp: string][] =>
      ids.flatMap((id) => {
        const seq = find(project, since, id);
        const crc = seq === undefined ? undefined : crcOf(seq);
        return crc === undefined ? [] : [[id, String(crc)]];
      }),
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
