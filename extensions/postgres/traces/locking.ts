/** The first statements of a write: locks, numbers for new rows, and the rows of its traces. */
import type { Key } from '../../../src/store/rows/observation-row.ts';
import { nameOfKey } from '../../../src/store/rows/observation-row.ts';
import type { PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient, Question } from '../connection/statement.ts';
import { ask, question, row, rows } from '../connection/statement.ts';
import { IS_SEARCHED } from '../search/marks.ts';
import type { Column } from './columns.ts';
import { columnParameter, columnParameters, namesOf, unnest } from './columns.ts';
import { firstNumberOf } from './numbers.ts';
import { POSTED_ROW_COLUMNS } from './postings.ts';
import type { TraceTableRow } from './rows.ts';
import { TRACE_STATE_COLUMNS } from './rows.ts';
import type { Snapshot, TraceName } from './snapshot.ts';
import { bytesOfKey, keyOfBytes, keyParameter } from './text.ts';

/** A trace may expire between its creation and its lock; after so many times in a row the write fails. */
const LOCK_ATTEMPTS = 5;

export type Begin = {
  readonly project: string;
  /** Locks out all other writes of the project. */
  readonly isExclusive: boolean;
  readonly batchIds: readonly string[];
  /** The most observations and traces that the write may insert. */
  readonly observations: number;
  readonly traces: number;
};

export type Begun = {
  /** Those of the raw batches that are in Postgres; they stay until the transaction ends. */
  readonly batches: ReadonlySet<string>;
  /** The positions of those that items were cut out of, by their ids: a null among them is such a gap. */
  readonly cut: ReadonlyMap<string, string>;
  /** Numbers for rows to insert. */
  readonly numbers: readonly number[];
  readonly traceNumbers: readonly number[];
  /** Whether the store searches payloads, until the transaction ends. */
  readonly isSearched: boolean;
};

type BegunRow = {
  readonly batches: string[];
  readonly cut: Readonly<Record<string, string>> | null;
  readonly is_searched: boolean;
  readonly numbers: number[];
  readonly trace_numbers: number[];
};

/** The name of the lock that writes of a project hold. */
function lockNameOf(project: string): string {
  return `tracectl/runs/${project}`;
}

/** The SQL that takes a lock until the end of the transaction. */
function lockAt(place: number, isExclusive: boolean): string {
  const lock = isExclusive ? 'pg_advisory_xact_lock' : 'pg_advisory_xact_lock_shared';
  return `${lock}(hashtextextended($${place}, 0))`;
}

/** Locks the project as a write does; exclusively, it waits for all writes under way. */
export async function lockWrites(
  client: PostgresClient,
  project: string,
  isExclusive: boolean,
): Promise<void> {
  await client.query(`SELECT ${lockAt(1, isExclusive)}`, [lockNameOf(project)]);
}

/**
 * Locks the project. Writes of one project run side by side. A write that places runs without a trace is exclusive,
 * because the rows of any other could be the run, or the parent, that it looks for.
 */
export function begin(write: Begin): Question<Begun> {
  const { project, isExclusive, batchIds, observations, traces } = write;
  return question(
    [
      `WITH held AS (SELECT id, positions FROM batches WHERE id = ANY ($1) FOR KEY SHARE)
       SELECT ${lockAt(4, isExclusive)}, ARRAY(SELECT id FROM held) AS batches,
         (SELECT json_object_agg(id, positions) FROM held WHERE strpos(positions, 'null') > 0) AS cut,
         ${IS_SEARCHED} AS is_searched,
         to_json(ARRAY(
           SELECT nextval('observation_numbers') FROM generate_series(1, $2::integer))) AS numbers,
         to_json(ARRAY(
           SELECT nextval('trace_numbers') FROM generate_series(1, $3::integer))) AS trace_numbers`,
      [batchIds, observations, traces, lockNameOf(project)],
    ],
    ([begun]: readonly BegunRow[]) => ({
      batches: new Set(begun?.batches),
      cut: new Map(Object.entries(begun?.cut ?? {})),
      numbers: begun?.numbers ?? [],
      traceNumbers: begun?.trace_numbers ?? [],
      isSearched: begun?.is_searched === true,
    }),
  );
}

/** Whether the project has an update or a child that waits for its run. Most projects never have one. */
export function hasWaiting(project: string): Question<boolean> {
  return question(
    [
      `SELECT EXISTS (SELECT 1 FROM pending_updates WHERE project = $1)
         OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1) AS some`,
      [project],
    ],
    ([found]: readonly { some: boolean }[]) => found?.some === true,
  );
}

const KEY_COLUMN: Column<Key> = { name: 'key', type: 'bytea', of: keyParameter };

/** Whether updates or children wait for one of the observations, or one of them waits itself. */
export async function isWaitedFor(
  client: PostgresTransaction,
  project: string,
  keys: readonly Key[],
): Promise<boolean> {
  const found = await row<{ some: boolean }>(
    client,
    `SELECT EXISTS (SELECT 1 FROM pending_updates WHERE project = $1 AND key = ANY ($2::bytea[]))
       OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1 AND key = ANY ($2::bytea[]))
       OR EXISTS (SELECT 1 FROM waiting_children WHERE project = $1 AND parent = ANY ($2::bytea[])) AS some`,
    [project, columnParameter(KEY_COLUMN, keys)],
  );
  return found?.some === true;
}

const NAME_COLUMNS: readonly Column<TraceName>[] = [
  { name: 'key', type: 'bytea', of: ({ key }) => keyParameter(key) },
  { name: 'first', type: 'bigint', of: ({ at }) => firstNumberOf(at) },
];

/**
 * The number of the trace with the key `g.key` in the project $1. Each key is looked up on its own: a project that began since the last
 * ANALYZE has few keys for the planner, which would read all of them.
 */
const NUMBER_OF_KEY = 'SELECT n FROM trace_keys WHERE project = $1 AND key = g.key OFFSET 0';

type NamedRow = { readonly n: number; readonly key: Buffer; readonly is_new: boolean };

/**
 * Inserts the keys of the traces that do not exist, and notes these as empty: their rows follow with their summary. Until then
 * the key holds up other writes of the trace. Notes the numbers of the others, except for one that another transaction
 * created at the same time.
 */
export function numberTraces(
  project: string,
  names: readonly TraceName[],
  snapshot: Snapshot,
): Question<void> {
  return question(
    [
      `WITH named AS (
         SELECT * FROM ${unnest(NAME_COLUMNS, 2)} AS g (${namesOf(NAME_COLUMNS)})
       ), keyed AS (
         INSERT INTO trace_keys (project, key, n)
         SELECT $1, g.key, g.first + nextval('trace_numbers') FROM named g ORDER BY g.key
         ON CONFLICT (project, key) DO NOTHING
         RETURNING key, n
       )
       SELECT n, key, true AS is_new FROM keyed
       UNION ALL
       SELECT k.n, g.key, false FROM named g CROSS JOIN LATERAL (${NUMBER_OF_KEY}) k`,
      [project, ...columnParameters(NAME_COLUMNS, names)],
    ],
    (named: readonly NamedRow[]) => {
      const byName = new Map(names.map((trace) => [nameOfKey(trace.key), trace]));
      for (const { n, key, is_new } of named) {
        const name = nameOfKey(keyOfBytes(key));
        const trace = byName.get(name);
        if (is_new && trace !== undefined) {
          snapshot.numbers.set(name, n);
          snapshot.empty.set(n, { ...trace, n });
        } else {
          snapshot.unlocked.set(name, n);
        }
      }
    },
  );
}

/**
 * Locks the traces that `numberTraces` found, in the order of their keys, so that two writes never deadlock. A trace
 * that expired since is created again.
 */
export async function lockTraces(
  client: PostgresTransaction,
  project: string,
  names: readonly TraceName[],
  snapshot: Snapshot,
): Promise<void> {
  const unlocked = () => names.filter(({ key }) => !snapshot.numbers.has(nameOfKey(key)));
  for (let attempt = 0; unlocked().length > 0; attempt++) {
    if (attempt === LOCK_ATTEMPTS) throw new Error('traces expire as fast as they are created');
    const keys = unlocked().map(({ key }) => key);
    const numbers = keys.flatMap((key) => snapshot.unlocked.get(nameOfKey(key)) ?? []);
    const isKnown = attempt === 0 && numbers.length === keys.length;
    if (isKnown) await lockKnownTraces(client, project, numbers, snapshot);
    else await lockTracesByKey(client, project, keys, snapshot);
    const gone = unlocked();
    if (gone.length === 0) return;
    await client.together([
      forgetKeys(
        project,
        gone.map(({ key }) => key),
      ),
      numberTraces(project, gone, snapshot),
    ]);
  }
}

/** Forgets keys whose traces are in a partition that is being removed (partitions.ts). */
function forgetKeys(project: string, keys: readonly Key[]): Question<void> {
  return question(
    [
      `DELETE FROM trace_keys k WHERE k.project = $1 AND k.key = ANY ($2)
         AND NOT EXISTS (SELECT 1 FROM traces t WHERE t.n = k.n)`,
      [project, keys.map(bytesOfKey)],
    ],
    () => {},
  );
}

/** Takes back the keys of those of the traces that this transaction would begin. */
export async function forgetEmpty(
  client: PostgresTransaction,
  project: string,
  keys: readonly Key[],
  { numbers, empty }: Snapshot,
): Promise<void> {
  const begun = keys.filter((key) => empty.has(numbers.get(nameOfKey(key)) ?? 0));
  if (begun.length === 0) return;
  await ask(client, forgetKeys(project, begun));
  for (const key of begun) {
    empty.delete(numbers.get(nameOfKey(key)) ?? 0);
    numbers.set(nameOfKey(key), null);
  }
}

/**
 * Those of the batches of which a trace was removed. A trace that is being removed has left its project (batches/purge.ts), or its partition
 * is detached (retiring.ts), before the batch is noted.
 */
export async function expiredBatches(
  client: PostgresClient,
  project: string,
  batchIds: readonly string[],
): Promise<ReadonlySet<string>> {
  if (batchIds.length === 0) return new Set();
  const found = await rows<{ id: string }>(
    client,
    `SELECT id FROM unnest($2::text[]) AS g (id)
     WHERE EXISTS (SELECT 1 FROM free_batches f WHERE f.id = g.id)
       OR EXISTS (SELECT 1 FROM partly_expired e WHERE e.id = g.id)
       OR EXISTS (SELECT 1 FROM batch_traces p WHERE p.batch = g.id
         AND NOT EXISTS (SELECT 1 FROM traces t WHERE t.n = p.trace AND t.project = $1))`,
    [project, batchIds],
  );
  return new Set(found.map(({ id }) => id));
}

type LockedRow = TraceTableRow & { readonly key: Buffer };

const STATE_CELLS = TRACE_STATE_COLUMNS.map(({ name }) => `t.${name}`).join(', ');
const TRACE_CELLS = `${STATE_CELLS}, t.rollup, ${POSTED_ROW_COLUMNS}`;

async function lockKnownTraces(
  client: PostgresTransaction,
  project: string,
  numbers: readonly number[],
  snapshot: Snapshot,
): Promise<void> {
  const locked = await rows<LockedRow>(
    client,
    `SELECT ${TRACE_CELLS}, t.key FROM traces t WHERE t.n = ANY ($2::bigint[]) AND t.project = $1
     ORDER BY t.key FOR UPDATE`,
    [project, numbers],
  );
  noteTraces(locked, snapshot);
}

/** Reads and locks the traces that exist. */
export async function lockTracesByKey(
  client: PostgresTransaction,
  project: string,
  keys: readonly Key[],
  snapshot: Snapshot,
): Promise<void> {
  const locked = await rows<LockedRow>(
    client,
    `SELECT ${TRACE_CELLS}, t.key FROM unnest($2::bytea[]) AS g (key)
     CROSS JOIN LATERAL (${NUMBER_OF_KEY}) k JOIN traces t ON t.n = k.n
     WHERE t.project = $1 ORDER BY t.key FOR UPDATE OF t`,
    [project, columnParameter(KEY_COLUMN, keys)],
  );
  noteTraces(locked, snapshot);
}

/** The same by number. Rejects with `TraceGone` if one of them does not exist any more. */
export async function lockTracesByNumber(
  client: PostgresTransaction,
  numbers: ReadonlySet<number>,
  snapshot: Snapshot,
): Promise<void> {
  const locked = await rows<LockedRow>(
    client,
    `SELECT ${TRACE_CELLS}, t.key FROM traces t WHERE t.n = ANY ($1::bigint[])
     ORDER BY t.key FOR UPDATE`,
    [[...numbers]],
  );
  noteTraces(locked, snapshot);
  if (locked.length < numbers.size) throw new TraceGone();
}

function noteTraces(locked: readonly LockedRow[], snapshot: Snapshot): void {
  for (const { key, ...trace } of locked) {
    snapshot.numbers.set(nameOfKey(keyOfBytes(key)), trace.n);
    snapshot.traces.set(trace.n, trace);
  }
}

/** A trace was removed after the write saw one of its observations; the write starts over. */
export class TraceGone extends Error {
  override readonly name = 'TraceGone';
}
