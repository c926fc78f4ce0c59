/** The changes of a working set as statements, one for each kind of change. */

import { ROW } from '../../../src/store/rows/observation-row.ts';
import type { SummarizedTrace } from '../../../src/store/rows/trace-columns.ts';
import { isSummarized } from '../../../src/store/rows/trace-columns.ts';
import type { WrittenTrace } from '../../../src/store/rows/written-trace.ts';
import type { Statement } from '../connection/statement.ts';
import { MARK_INSERTED, markChanged } from '../search/marks.ts';
import type { Column } from './columns.ts';
import { columnParameter, columnParameters, namesOf, unnest } from './columns.ts';
import { daysOfTraces } from './numbers.ts';
import type { PostedTrace } from './postings.ts';
import {
  DELETE_POSTINGS_OF_GONE,
  deletePostings,
  deletion,
  GONE_COLUMNS,
  POSTING_COLUMNS,
  postingChanges,
  textOfTerms,
} from './postings.ts';
import { insertDelta } from './rollup-folding.ts';
import {
  jsonOfRow,
  SUMMARY_ONLY_COLUMNS,
  TRACE_STATE_COLUMNS,
  TRACE_SUMMARY_COLUMNS,
  WRITTEN_COLUMNS,
} from './rows.ts';
import type { Entry, NewTrace } from './snapshot.ts';
import { bytesOfKey, escapeText, keyParameter } from './text.ts';
import type { BatchTrace, ChangedEntry, WorkingSet } from './working-set.ts';

/** `isSearched`: the changes are noted for the index of payload text. */
export function changesOf(project: string, set: WorkingSet, isSearched: boolean): Statement[] {
  const changes = set.changes();
  const { inserted, changed, removed } = changes;
  const traces = set.changedTraces(changes).filter(({ n }) => !set.removedTraces.includes(n));
  const summarized = traces.filter(isSummarized);
  const others = traces.filter((trace) => !isSummarized(trace));
  const postings = postingChanges(summarized);
  return [
    ...insertKeys(project, set),
    ...insertTraces(
      project,
      others.flatMap(({ n }) => set.createdTrace(n) ?? []),
    ),
    ...removal(removed),
    ...change(changed),
    ...(isSearched ? markChanged([...removed, ...changed.flatMap(entriesOf)]) : []),
    ...deletion(postings.deleted),
    save(project, inserted, set, summarized, postings.inserted, isSearched),
    ...saveStates(others),
    ...pendingUpdates(project, set),
    ...waitingChildren(project, set),
    ...removedTraces(project, set),
    ...insertDelta(project, set.rollups),
  ];
}

/** Both, if the observation moved to another trace. */
function entriesOf({ before, now }: ChangedEntry): readonly Entry[] {
  return before.trace === now.trace ? [now] : [before, now];
}

const KEY_COLUMN: Column<NewTrace> = {
  name: 'key',
  type: 'bytea',
  of: ({ key }) => keyParameter(key),
};
const NUMBER_COLUMN: Column<NewTrace> = { name: 'n', type: 'bigint', of: ({ n }) => n };
const LONG_ID_COLUMN: Column<NewTrace> = {
  name: 'long_id',
  type: 'text',
  of: ({ longId }) => longId && escapeText(longId),
};

const NUMBERED_KEY = [KEY_COLUMN, NUMBER_COLUMN];
/** Only the key of a trace in a partition that is being removed conflicts, because the write locks out all others. */
const INSERT_KEYS = `
  INSERT INTO trace_keys (project, ${namesOf(NUMBERED_KEY)})
  SELECT $1::text, g.* FROM ${unnest(NUMBERED_KEY, 2)} AS g
  ON CONFLICT (project, key) DO UPDATE SET n = excluded.n`;

function insertKeys(project: string, set: WorkingSet): Statement[] {
  const traces = [...set.newTraces.values()].filter(({ n }) => !set.removedTraces.includes(n));
  if (traces.length === 0) return [];
  return [[INSERT_KEYS, [project, ...columnParameters(NUMBERED_KEY, traces)]]];
}

const NEW_COLUMNS: readonly Column<NewTrace>[] = [
  ...[NUMBER_COLUMN, KEY_COLUMN, LONG_ID_COLUMN],
  { name: 'at', type: 'bigint', of: ({ at }) => at },
];
const INSERT_TRACES = `
  INSERT INTO traces
    (project, n, key, long_id, at_ms, at_ns, observations, created_at, updated_at, terms)
  SELECT $1::text, g.n, g.key, g.long_id, g.at, 0, 0, g.at, g.at, '{}'
  FROM ${unnest(NEW_COLUMNS, 2)} AS g (${namesOf(NEW_COLUMNS)})`;

/** New traces whose summary the background makes. */
function insertTraces(project: string, traces: readonly NewTrace[]): Statement[] {
  if (traces.length === 0) return [];
  return [[INSERT_TRACES, [project, ...columnParameters(NEW_COLUMNS, traces)]]];
}

function removal(removed: readonly Entry[]): Statement[] {
  if (removed.length === 0) return [];
  return [
    [
      `DELETE FROM observations o USING unnest($1::bigint[], $2::bytea[]) AS g (trace, key)
       WHERE o.trace = g.trace AND o.key = g.key AND o.trace >= $3 AND o.trace < $4`,
      [
        removed.map(({ trace }) => trace),
        removed.map(({ key }) => bytesOfKey(key)),
        ...daysOfTraces(removed.map(({ trace }) => trace)),
      ],
    ],
  ];
}

/** The trace that an observation was in before. */
const BEFORE: Column<ChangedEntry> = { name: 'before', type: 'bigint', of: (c) => c.before.trace };
const FIRST_DAY = 2 + WRITTEN_COLUMNS.length;
const UPDATE_OBSERVATIONS = `
  UPDATE observations o SET ${assignments(WRITTEN_COLUMNS)}
  FROM ${unnest(WRITTEN_COLUMNS, 2, '$1::bigint[]')} AS g (before, ${namesOf(WRITTEN_COLUMNS)})
  WHERE o.trace = g.before AND o.key = g.key
    AND o.trace >= $${FIRST_DAY} AND o.trace < $${FIRST_DAY + 1}`;

function change(changed: readonly ChangedEntry[]): Statement[] {
  if (changed.length === 0) return [];
  const now = changed.map((entry) => entry.now);
  const parameters = columnParameters(WRITTEN_COLUMNS, now);
  const days = daysOfTraces(changed.map(({ before }) => before.trace));
  return [[UPDATE_OBSERVATIONS, [columnParameter(BEFORE, changed), ...parameters, ...days]]];
}

const PAIR_COLUMNS: readonly Column<BatchTrace>[] = [
  { name: 'batch', type: 'text', of: ({ batch }) => batch },
  { name: 'trace', type: 'bigint', of: ({ trace }) => trace },
];
/** The numbers are named twice, so that the planner leaves out the partitions of other traces. */
function byNumber(place: number): string {
  return `t.n = g.n AND t.n = ANY ($${place}::bigint[])`;
}
/** The column `terms`, as text. */
const TERMS: Column<SummarizedTrace> = {
  name: 'posted',
  type: 'text',
  of: ({ terms }) => textOfTerms(terms.terms),
};
const SAVED_COLUMNS = [...TRACE_SUMMARY_COLUMNS, TERMS];
/** The columns of a new trace beside those of its summary. */
const NAME_COLUMNS = [KEY_COLUMN, LONG_ID_COLUMN];
const CREATED_COLUMNS: readonly Column<NewTrace & WrittenTrace & SummarizedTrace>[] = [
  ...NAME_COLUMNS,
  ...SAVED_COLUMNS,
];
const FIRST_PAIR = 2 + WRITTEN_COLUMNS.length;
const FIRST_POSTING = FIRST_PAIR + PAIR_COLUMNS.length;
const FIRST_TRACE = FIRST_POSTING + POSTING_COLUMNS.length;
/** Beside the columns of a summary. */
const IS_SUMMARIZED = `terms = g.posted::bigint[], stale_changes = 0,
  model_usage = NULL, other_usage = NULL`;
const UPDATE_TRACES = `
  UPDATE traces t SET ${assignments(withoutNumber(TRACE_SUMMARY_COLUMNS))},
    ${IS_SUMMARIZED}
  FROM ${unnest(SAVED_COLUMNS, FIRST_TRACE)}
    AS g (${namesOf(SAVED_COLUMNS)}) WHERE ${byNumber(FIRST_TRACE)}`;
const SUMMARY_NAMES = `${namesOf(NAME_COLUMNS)}, ${namesOf(TRACE_SUMMARY_COLUMNS)}`;

/** A new trace is inserted once, with its summary. */
function insertSummarized(first: number): string {
  return `
    INSERT INTO traces (project, ${SUMMARY_NAMES}, terms, stale_changes)
    SELECT $1::text, ${SUMMARY_NAMES}, posted::bigint[], 0
    FROM ${unnest(CREATED_COLUMNS, first)} AS g (${namesOf(CREATED_COLUMNS)})`;
}

/** The traces of a write: new ones, ones with a row, or both. */
type Written = 'created' | 'updated' | 'both';
const LAST_PART: Readonly<Record<Written, string>> = {
  created: insertSummarized(FIRST_TRACE),
  updated: UPDATE_TRACES,
  both: insertSummarized(FIRST_TRACE + SAVED_COLUMNS.length),
};

/**
 * $1 project. One statement for five tables: a round trip costs more than they do. Every transaction locks the table of traces before the
 * others, or a change of the partitions could deadlock with it. So the first table expression names that table, and so does the last
 * part, which Postgres executes first.
 */
function saveStatement(traces: Written, isSearched: boolean): string {
  const first =
    traces === 'both' ? `updated AS (${UPDATE_TRACES})` : 'held AS (SELECT FROM traces)';
  const marked = isSearched ? `RETURNING trace, n, key), marked AS (${MARK_INSERTED}` : '';
  // No posting has the number of a new trace.
  const onConflict = traces === 'created' ? '' : 'ON CONFLICT DO NOTHING';
  return `WITH ${first}, inserted AS (
    INSERT INTO observations (project, ${namesOf(WRITTEN_COLUMNS)})
    SELECT $1::text, g.* FROM ${unnest(WRITTEN_COLUMNS, 2)} AS g ${marked}
  ), paired AS (
    INSERT INTO batch_traces (batch, trace)
    SELECT * FROM ${unnest(PAIR_COLUMNS, FIRST_PAIR)} AS g
    ON CONFLICT DO NOTHING
  ), posted AS (
    INSERT INTO trace_terms (${namesOf(POSTING_COLUMNS)})
    SELECT * FROM ${unnest(POSTING_COLUMNS, FIRST_POSTING)} AS g ${onConflict}
  ) ${LAST_PART[traces]}`;
}

function saveStatements(isSearched: boolean): Readonly<Record<Written, string>> {
  return {
    created: saveStatement('created', isSearched),
    updated: saveStatement('updated', isSearched),
    both: saveStatement('both', isSearched),
  };
}

const SAVE = saveStatements(false);
const SAVE_AND_MARK = saveStatements(true);

function save(
  project: string,
  inserted: readonly Entry[],
  set: WorkingSet,
  traces: readonly (WrittenTrace & SummarizedTrace)[],
  postings: ReturnType<typeof postingChanges>['inserted'],
  isSearched: boolean,
): Statement {
  const statement = isSearched ? SAVE_AND_MARK : SAVE;
  const updated = traces.filter(({ n }) => set.createdTrace(n) === undefined);
  const created = traces.filter(({ n }) => set.createdTrace(n) !== undefined);
  const names = created.flatMap(({ n }) => set.createdTrace(n) ?? []);
  const values = [
    project,
    ...columnParameters(WRITTEN_COLUMNS, inserted),
    ...columnParameters(PAIR_COLUMNS, [...set.pairs.values()]),
    ...columnParameters(POSTING_COLUMNS, postings),
  ];
  const updates = columnParameters(SAVED_COLUMNS, updated);
  if (created.length === 0) return [statement.updated, [...values, ...updates]];
  const news = [
    ...columnParameters(NAME_COLUMNS, names),
    ...columnParameters(SAVED_COLUMNS, created),
  ];
  if (updated.length === 0) return [statement.created, [...values, ...news]];
  return [statement.both, [...values, ...updates, ...news]];
}

const SUMMARY_COLUMNS_AND_TERMS = [...SUMMARY_ONLY_COLUMNS, TERMS];
const FIRST_INSERTED = 5 + SUMMARY_COLUMNS_AND_TERMS.length;
const FIRST_DELETED = FIRST_INSERTED + POSTING_COLUMNS.length;
/** Saves the summary that the background made. $1 is the count of changes that it is up to, $2 to $4 are what the row has. */
const SAVE_SUMMARY = `
  WITH saved AS (
    UPDATE traces t SET ${assignments(withoutNumber(SUMMARY_ONLY_COLUMNS))},
      ${IS_SUMMARIZED}
    FROM ${unnest(SUMMARY_COLUMNS_AND_TERMS, 5)} AS g (${namesOf(SUMMARY_COLUMNS_AND_TERMS)})
    WHERE ${byNumber(5)} AND t.stale_changes = $1 AND t.terms IS NOT DISTINCT FROM $2::bigint[]
      AND ($2::text IS NULL OR (t.at_ms = $3 AND t.at_ns = $4))
    RETURNING 1
  ), deleted AS (
    ${deletePostings(FIRST_DELETED)} AND p.trace = ANY ($5::bigint[]) AND EXISTS (SELECT 1 FROM saved)
  )
  INSERT INTO trace_terms (${namesOf(POSTING_COLUMNS)})
  SELECT * FROM ${unnest(POSTING_COLUMNS, FIRST_INSERTED)} AS g WHERE EXISTS (SELECT 1 FROM saved)
  ON CONFLICT DO NOTHING`;

/** Without effect if the trace changed since it was summarized. */
export function saveSummary(changes: number, trace: PostedTrace): Statement {
  const { postings } = trace;
  const { inserted, deleted } = postingChanges([trace]);
  const before =
    postings === null
      ? [null, null, null]
      : [textOfTerms(postings.terms), postings.at.ms, postings.at.ns];
  return [
    SAVE_SUMMARY,
    [
      ...[changes, ...before],
      ...columnParameters(SUMMARY_COLUMNS_AND_TERMS, [trace]),
      ...columnParameters(POSTING_COLUMNS, inserted),
      ...columnParameters(POSTING_COLUMNS, deleted),
    ],
  ];
}

type PricedEntry = Pick<Entry, 'trace' | 'key' | 'row'>;
const PRICED_COLUMNS: readonly Column<PricedEntry>[] = [
  { name: 'trace', type: 'bigint', of: ({ trace }) => trace },
  { name: 'key', type: 'bytea', of: ({ key }) => keyParameter(key) },
  { name: 'details', type: 'text', of: ({ row }) => escapeDetails(row[ROW.DETAILS]) },
];
const SAVE_PRICED = `
  UPDATE observations o SET details = g.details
  FROM ${unnest(PRICED_COLUMNS, 1)} AS g (${namesOf(PRICED_COLUMNS)})
  WHERE o.trace = g.trace AND o.key = g.key
    AND o.trace >= $${PRICED_COLUMNS.length + 1} AND o.trace < $${PRICED_COLUMNS.length + 2}`;

function escapeDetails(details: string | null): string | null {
  return details === null ? null : escapeText(details);
}

/** Saves observations of which only the details changed. */
export function savePriced(entries: readonly PricedEntry[]): Statement {
  const days = daysOfTraces(entries.map(({ trace }) => trace));
  return [SAVE_PRICED, [...columnParameters(PRICED_COLUMNS, entries), ...days]];
}

/**
 * See `STATE_COLUMNS`. A number of the transaction. A summary leaves 0 behind, because processes of a version before, which count, mark a
 * trace by adding 1.
 */
export const MARKED_STALE = 'stale_changes = (txid_current() % 2147483647 + 1)::integer';
const SAVE_STATES = `
  UPDATE traces t SET ${assignments(withoutNumber(TRACE_STATE_COLUMNS))}, ${MARKED_STALE}
  FROM ${unnest(TRACE_STATE_COLUMNS, 1)} AS g (${namesOf(TRACE_STATE_COLUMNS)}) WHERE ${byNumber(1)}`;

/** Traces whose summary the background makes. */
function saveStates(traces: readonly WrittenTrace[]): Statement[] {
  if (traces.length === 0) return [];
  return [[SAVE_STATES, columnParameters(TRACE_STATE_COLUMNS, traces)]];
}

function withoutNumber<Item>(columns: readonly Column<Item>[]): readonly Column<Item>[] {
  return columns.filter(({ name }) => name !== 'n');
}

function assignments<Item>(columns: readonly Column<Item>[]): string {
  return columns.map(({ name }) => `${name} = g.${name}`).join(', ');
}

function pendingUpdates(project: string, set: WorkingSet): Statement[] {
  const statements: Statement[] = [];
  if (set.takenPending.length > 0) {
    statements.push([
      'DELETE FROM pending_updates WHERE project = $1 AND key = ANY ($2)',
      [project, set.takenPending.map(bytesOfKey)],
    ]);
  }
  if (set.addedPending.length > 0) {
    statements.push([
      `INSERT INTO pending_updates (project, key, batch, position, cells, received_at)
       SELECT $1, g.* FROM unnest($2::bytea[], $3::text[], $4::integer[], $5::text[], $6::bigint[]) AS g
       ON CONFLICT DO NOTHING`,
      [
        project,
        set.addedPending.map(({ row }) => bytesOfKey(row[ROW.KEY])),
        set.addedPending.map(({ state }) => state.batch),
        set.addedPending.map(({ row }) => row[ROW.POSITION]),
        set.addedPending.map(({ row }) => jsonOfRow(row)),
        set.addedPending.map(({ state }) => state.createdAt),
      ],
    ]);
  }
  return statements;
}

function waitingChildren(project: string, set: WorkingSet): Statement[] {
  const statements: Statement[] = [];
  if (set.droppedWaiting.size > 0) {
    statements.push([
      'DELETE FROM waiting_children WHERE project = $1 AND key = ANY ($2)',
      [project, [...set.droppedWaiting.values()].map(bytesOfKey)],
    ]);
  }
  const added = [...set.addedWaiting.values()];
  if (added.length > 0) {
    statements.push([
      `INSERT INTO waiting_children (project, key, parent, received_at)
       SELECT $1, g.* FROM unnest($2::bytea[], $3::bytea[], $4::bigint[]) AS g
       ON CONFLICT (project, key)
         DO UPDATE SET parent = excluded.parent, received_at = excluded.received_at`,
      [
        project,
        added.map(({ key }) => bytesOfKey(key)),
        added.map(({ parent }) => bytesOfKey(parent)),
        added.map(({ receivedAt }) => receivedAt),
      ],
    ]);
  }
  return statements;
}

/** The keys of the traces in `gone`. */
export const FORGET_GONE = `
  DELETE FROM trace_keys k USING gone
  WHERE k.project = gone.project AND k.key = gone.key AND k.n = gone.n`;

/** A trace is removed when its observations moved to another one, which inherits its batches. */
function removedTraces(project: string, set: WorkingSet): Statement[] {
  const statements = set.copiedPairs.map(
    ({ from, to }): Statement => [
      `INSERT INTO batch_traces SELECT batch, $2 FROM batch_traces WHERE trace = $1
       ON CONFLICT DO NOTHING`,
      [from, to],
    ],
  );
  if (set.removedTraces.length > 0) {
    const unused = set.removedTraces.flatMap((n) => set.createdTrace(n) ?? []);
    statements.push([
      `WITH pairs AS (DELETE FROM batch_traces WHERE trace = ANY ($1::bigint[])),
         texts AS (DELETE FROM payload_texts WHERE trace = ANY ($1::bigint[])),
         unused AS (DELETE FROM trace_keys
           WHERE project = $2 AND key = ANY ($3::bytea[]) AND n = ANY ($1::bigint[])),
         gone AS (
           DELETE FROM traces WHERE n = ANY ($1::bigint[]) RETURNING project, key, ${GONE_COLUMNS}
         ), forgotten AS (${FORGET_GONE})
       ${DELETE_POSTINGS_OF_GONE}`,
      [set.removedTraces, project, columnParameter(KEY_COLUMN, unused)],
    ]);
  }
  return statements;
}
