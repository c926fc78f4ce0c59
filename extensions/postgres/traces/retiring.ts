/** Drops partitions of traces: first detached, so that neither reader nor writer sees them, then cleaned up behind. */

import type { Steps } from '../../../src/component/background.ts';
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { attempt, LOCK_TIMEOUT } from '../partitions/partitioned.ts';
import { MARK_MOVED } from '../search/marks.ts';
import { FORGET_GONE } from './changes.ts';
import { lockWrites } from './locking.ts';
import { firstNumberOf } from './numbers.ts';
import type { TracePartition } from './partitions.ts';
import { TRACE_TABLES, tracePartitions } from './partitions.ts';

type Database = Pick<Postgres, 'query' | 'transaction'>;
/** The time before which the traces of a project are expired, in milliseconds since the epoch. */
type Since = (projectId: string) => number;

const HOUR_MS = 3_600_000;
/** Traces that one step cleans up behind. */
const STEP_TRACES = 5_000;
/** Traces and observations that one step moves; at least one trace. */
const STEP_MOVED = { traces: 100, observations: 2_000 };
/**
 * The share of the traces of a partition that is moved out of it, so that it can be dropped. A moved row is removed, and inserted
 * again with its index entries: beyond the share, removing the expired rows costs less.
 */
const MOVED_SHARE = 0.1;
/** So many are moved whatever their share. */
const MOVED_ALWAYS = 100;
/** The name of no project, whose traces are being removed (batches/purge.ts). */
const HIDDEN = '';
const DETACHED = 'detached_';
/**
 * The comment on a detached partition that no other table has rows of any more. A comment waits for no reader, as a new name of the
 * table would.
 */
const CLEAN = 'cleaned up behind';

/**
 * Drops every partition of which all traces are expired. Traces of a partition that got an event after its last day move to
 * the partition of that event first, if they are few. Then the rows that other tables have of the dropped traces are removed,
 * in steps. `cleaned` has the detached partitions for which that is done and that could not be marked yet, by their suffixes.
 */
export async function* retirePartitions(
  database: Database,
  since: Since,
  now: number,
  onRemoved: OnRemoved,
  cleaned = new Set<string>(),
): Steps {
  if (!(await isOwner(database))) return;
  for (const partition of await tracePartitions(database)) {
    if (partition.endsAt > now) continue;
    if (!(yield* moveLate(database, partition, since))) continue;
    await attempt(() => detach(database, partition, since));
    yield;
  }
  for (const { suffix, isClean } of await detachedPartitions(database)) {
    if (!isClean && !cleaned.has(suffix)) {
      yield* cleanUp(database, suffix, now, onRemoved);
      cleaned.add(suffix);
    }
    // A vacuum can hold the table for hours, and so can a dump of the database.
    if (!isClean) await attempt(() => markClean(database, suffix));
    if ((await attempt(() => drop(database, suffix))) === undefined) cleaned.delete(suffix);
    yield;
  }
}

async function markClean(database: Database, suffix: string): Promise<void> {
  await database.transaction(async (client) => {
    await client.query(LOCK_TIMEOUT);
    await client.query(`COMMENT ON TABLE ${DETACHED}traces_${suffix} IS '${CLEAN}'`);
  });
}

async function drop(database: Database, suffix: string): Promise<void> {
  await database.transaction(async (client) => {
    await client.query(LOCK_TIMEOUT);
    const tables = TRACE_TABLES.map(({ table }) => `${DETACHED}${table}_${suffix}`);
    await client.query(`DROP TABLE IF EXISTS ${tables.join(', ')}`);
  });
}

/** Whether the role may drop partitions. */
async function isOwner(client: PostgresClient): Promise<boolean> {
  const found = await row<{ owner: boolean }>(
    client,
    `SELECT pg_has_role(relowner, 'USAGE') AS owner FROM pg_class WHERE oid = 'traces'::regclass`,
  );
  return found?.owner === true;
}

type Late = {
  readonly n: number;
  readonly project: string;
  readonly observations: number;
  readonly updated_at: number;
};

/** Moves the traces that stay, and yields after each step. Answers whether all others are expired. */
async function* moveLate(
  database: Database,
  partition: TracePartition,
  since: Since,
): AsyncGenerator<undefined, boolean> {
  const most = await mostMoved(database, partition);
  const late = await lateTraces(database, partition, since, most + 1);
  if (late === undefined || late.length > most) return false;
  for (const step of stepsOf(late)) {
    await database.transaction((client) => move(client, step));
    yield;
  }
  return true;
}

async function mostMoved(client: PostgresClient, { suffix }: TracePartition): Promise<number> {
  const estimate = await row<{ traces: number }>(
    client,
    'SELECT greatest(reltuples, 0)::bigint AS traces FROM pg_class WHERE oid = $1::regclass',
    [`traces_${suffix}`],
  );
  return Math.max(MOVED_ALWAYS, Math.floor((estimate?.traces ?? 0) * MOVED_SHARE));
}

/**
 * Traces of the partition that are not expired, at most `limit`; undefined if a project keeps its traces for longer than
 * the partition is old.
 */
async function lateTraces(
  client: PostgresClient,
  partition: TracePartition,
  since: Since,
  limit: number,
): Promise<readonly Late[] | undefined> {
  const { from, to, endsAt } = partition;
  const windows: [project: string, since: number][] = [];
  for (const project of await projectsOf(client, partition)) {
    if (project === HIDDEN) continue;
    const expired = since(project);
    if (expired < endsAt) return undefined;
    windows.push([project, expired]);
  }
  return rows<Late>(
    client,
    `SELECT t.* FROM unnest($1::text[], $2::bigint[]) AS w (project, since) CROSS JOIN LATERAL (
       SELECT n, project, observations, updated_at FROM traces l
       WHERE l.project = w.project AND l.updated_hour >= w.since / ${HOUR_MS} AND l.updated_at >= w.since
         AND l.n >= $4 AND l.n < $5
       LIMIT $3) t
     LIMIT $3`,
    [windows.map(([project]) => project), windows.map(([, expired]) => expired), limit, from, to],
  );
}

/** The projects with traces in a partition: one look into the index for each. */
async function projectsOf(
  client: PostgresClient,
  { from, to }: TracePartition,
): Promise<readonly string[]> {
  const next = (behind: string) =>
    `(SELECT project FROM traces WHERE n >= $1 AND n < $2 ${behind} ORDER BY project LIMIT 1)`;
  const found = await rows<{ project: string }>(
    client,
    `WITH RECURSIVE found AS (
       SELECT ${next('')} AS project
       UNION ALL
       SELECT ${next('AND project > f.project')} FROM found f WHERE f.project IS NOT NULL
     )
     SELECT project FROM found WHERE project IS NOT NULL`,
    [from, to],
  );
  return found.map(({ project }) => project);
}

/** Of one project each, because a step locks the project. */
function stepsOf(late: readonly Late[]): Late[][] {
  const steps: Late[][] = [];
  let observations = 0;
  for (const trace of late) {
    observations += trace.observations;
    const open = steps.at(-1);
    const fits =
      open?.[0]?.project === trace.project &&
      open.length < STEP_MOVED.traces &&
      observations <= STEP_MOVED.observations;
    if (fits) open.push(trace);
    else {
      steps.push([trace]);
      observations = trace.observations;
    }
  }
  return steps;
}

type LockedTrace = { readonly n: number; readonly key: Buffer; readonly updated_at: number };

/**
 * Gives traces of one project numbers of the day of their newest event, under the locks that writers take. Postgres rejects a
 * write that waits for the row of such a trace with a serialization failure; the write starts over.
 */
async function move(client: PostgresClient, traces: readonly Late[]): Promise<void> {
  const project = traces[0]?.project ?? '';
  await lockWrites(client, project, false);
  const locked = await rows<LockedTrace>(
    client,
    `SELECT n, key, updated_at FROM traces WHERE n = ANY ($1::bigint[]) AND project = $2
     ORDER BY key FOR UPDATE SKIP LOCKED`,
    [traces.map(({ n }) => n), project],
  );
  const drawn = await rows<{ value: number }>(
    client,
    `SELECT nextval('trace_numbers') AS value FROM generate_series(1, $1::integer)`,
    [locked.length],
  );
  const before = locked.map(({ n }) => n);
  const after = locked.map((trace, i) => firstNumberOf(trace.updated_at) + (drawn[i]?.value ?? 0));
  await client.query(
    `UPDATE trace_terms p SET trace = g.after
     FROM (SELECT n, at_ms, at_ns, after, unnest(terms) AS term
       FROM traces JOIN unnest($1::bigint[], $2::bigint[]) AS m (before, after) ON n = before
       WHERE n = ANY ($1::bigint[])) AS g
     WHERE p.term = g.term AND p.at_ms = g.at_ms AND p.at_ns = g.at_ns AND p.trace = g.n
       AND p.trace = ANY ($1::bigint[])`,
    [before, after],
  );
  for (const [table, column] of NUMBERED) {
    await client.query(
      `UPDATE ${table} m SET ${column} = g.after FROM unnest($1::bigint[], $2::bigint[]) AS g (before, after)
       WHERE m.${column} = g.before AND m.${column} = ANY ($1::bigint[])`,
      [before, after],
    );
  }
  // The index gets them again. Not left to the partition: if it stays, nothing would find the words of before.
  await client.query('DELETE FROM payload_texts WHERE trace = ANY ($1::bigint[])', [before]);
  await client.query(MARK_MOVED, [after]);
  await client.query(
    `UPDATE trace_keys k SET n = g.after FROM unnest($2::bytea[], $3::bigint[]) AS g (key, after)
     WHERE k.project = $1 AND k.key = g.key`,
    [project, locked.map(({ key }) => key), after],
  );
}

/** The columns with the number of a trace, beside `trace_terms` and `trace_keys`. */
const NUMBERED: readonly (readonly [table: string, column: string])[] = [
  ['observations', 'trace'],
  ['batch_traces', 'trace'],
  ['traces', 'n'],
];

/** Detaches the partition of every table in one transaction. Resolves with false if a trace got an event since. */
async function detach(
  database: Database,
  partition: TracePartition,
  since: Since,
): Promise<boolean> {
  return database.transaction(async (client) => {
    await client.query(LOCK_TIMEOUT);
    const parents = TRACE_TABLES.map(({ table }) => `ONLY ${table}`).join(', ');
    await client.query(`LOCK TABLE ${parents} IN ACCESS EXCLUSIVE MODE`);
    const stay = await lateTraces(client, partition, since, 1);
    if (stay === undefined || stay.length > 0) return false;
    for (const { table } of TRACE_TABLES) {
      const name = `${table}_${partition.suffix}`;
      await client.query(`ALTER TABLE ${table} DETACH PARTITION ${name}`);
      await client.query(`ALTER TABLE ${name} RENAME TO ${DETACHED}${name}`);
    }
    return true;
  });
}

type DetachedPartition = { readonly suffix: string; readonly isClean: boolean };

/** The partitions that are detached and not dropped yet. */
export async function detachedPartitions(client: PostgresClient): Promise<DetachedPartition[]> {
  const prefix = `${DETACHED}traces_`;
  const found = await rows<{ name: string; comment: string | null }>(
    client,
    `SELECT relname AS name, obj_description(oid, 'pg_class') AS comment FROM pg_class
     WHERE relkind = 'r' AND pg_table_is_visible(oid) AND starts_with(relname::text, $1) ORDER BY 1`,
    [prefix],
  );
  return found.map(({ name, comment }) => ({
    suffix: name.slice(prefix.length),
    isClean: comment === CLEAN,
  }));
}

type CleanedUp = {
  readonly last: number | null;
  readonly traces: number;
  readonly observations: number;
};

/** Removes the keys and scores of detached traces, and their references to raw batches. */
async function* cleanUp(
  database: Database,
  suffix: string,
  now: number,
  onRemoved: OnRemoved,
): Steps {
  for (let after: number | null = -1; ; ) {
    const done: CleanedUp | undefined = await row<CleanedUp>(
      database,
      `WITH gone AS MATERIALIZED (
         SELECT n, project, key, observations FROM ${DETACHED}traces_${suffix}
         WHERE n > $1 ORDER BY n LIMIT ${STEP_TRACES}
       ), keys AS (
         ${FORGET_GONE} RETURNING k.project, k.key
       ), scored AS (
         DELETE FROM scores s USING keys k WHERE s.project = k.project AND s.trace = k.key
       ), pairs AS (
         DELETE FROM batch_traces b USING gone WHERE b.trace = gone.n RETURNING b.batch
       ), noted AS (
         INSERT INTO free_batches (id, noted_at) SELECT DISTINCT batch, $2::bigint FROM pairs
         ORDER BY batch ON CONFLICT DO NOTHING
       )
       SELECT max(n) AS last, count(*) AS traces, coalesce(sum(observations), 0)::bigint AS observations
       FROM gone`,
      [after, now],
    );
    if (done === undefined || done.last === null) return;
    onRemoved({ traces: done.traces, observations: done.observations });
    after = done.last;
    yield;
  }
}
