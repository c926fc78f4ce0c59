/** What takes expired traces and deleted projects out of the tables, a bounded step at a time. */
import type { PostgresClient } from '../connection/statement.ts';
import type { QueueDatabase } from '../database.ts';
import type { OnRemoved } from './batches.ts';
import { noteRemoved, removeFree, withinBytes } from './batches.ts';

type Transactions = Pick<QueueDatabase, 'transaction'>;

/** Rows of observations, and other rows, that one step removes. */
const STEP = 1000;
/** Traces that one step removes. */
const STEP_TRACES = 200;
/** A project that nobody has: what is too large for one step is moved there first, so that it goes whole. */
const HIDDEN = '';
const HOUR_MS = 3_600_000;

/**
 * Removes traces of a project whose newest event is older than `since` (milliseconds since the epoch), with
 * their observations, and runs that waited as long. Resolves with whether there may be more. One that is
 * being written is left for another time.
 */
export async function expireStep(
  database: Transactions,
  projectId: string,
  since: number,
  now: number,
  onRemoved: OnRemoved = () => {},
): Promise<boolean> {
  return database.transaction((client) =>
    removeTraces(client, projectId, since, now, onRemoved, 'SKIP LOCKED'),
  );
}

/** A project, and the time before which what it has is expired. */
export type Window = readonly [project: string, since: number];

/** Those of which something may be expired, and the hidden one where something of it is left. */
export async function dueProjects(
  database: PostgresClient,
  projects: readonly Window[],
): Promise<readonly Window[]> {
  const windows: readonly Window[] = [...projects, [HIDDEN, Number.MAX_SAFE_INTEGER]];
  const { rows } = await database.query(
    `WITH updates AS (
       SELECT project, min(received_at) AS at FROM pending_updates GROUP BY project
     ), children AS (
       SELECT project, min(received_at) AS at FROM waiting_children GROUP BY project
     )
     SELECT place FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (project, since, place)
     LEFT JOIN updates u ON u.project = w.project AND u.at < since
     LEFT JOIN children c ON c.project = w.project AND c.at < since
     WHERE u.at IS NOT NULL OR c.at IS NOT NULL
       OR (SELECT min(updated_hour) FROM traces t WHERE t.project = w.project) <= since / ${HOUR_MS}`,
    [windows.map(([project]) => project), windows.map(([, since]) => since)],
  );
  const places = new Set(rows.map(({ place }) => Number(place)));
  return windows.filter((_, i) => places.has(i + 1));
}

/** Removes what a deleted project held, its batches too. Resolves with whether there is more. */
export async function removeProjectStep(
  database: Transactions,
  projectId: string,
  now: number,
  onRemoved: OnRemoved = () => {},
): Promise<boolean> {
  return database.transaction(async (client) => {
    const everything = Number.MAX_SAFE_INTEGER;
    if (await removeTraces(client, projectId, everything, now, onRemoved, '')) return true;
    const { rows } = await client.query(
      `SELECT id, octet_length(body) AS bytes FROM batches WHERE project = $1
       ORDER BY id LIMIT ${STEP}`,
      [projectId],
    );
    if (rows.length === 0) return false;
    const removed = await client.query(
      'DELETE FROM batches WHERE id = ANY ($1) RETURNING octet_length(body) AS bytes',
      [withinBytes(rows)],
    );
    noteRemoved(removed.rows, onRemoved);
    return true;
  });
}

/**
 * Removes batches that were noted before `notedBefore` as free, if they still are. Resolves with whether
 * there are more. A day's partition goes as a whole once nothing points into it, which costs next to nothing;
 * so it pays to note long before.
 */
export async function removeFreeBatchesStep(
  database: Transactions,
  notedBefore: number,
  onRemoved: OnRemoved = () => {},
): Promise<boolean> {
  return database.transaction(async (client) => {
    const { rows } = await client.query(
      `SELECT id FROM free_batches WHERE noted_at < $1
       ORDER BY noted_at LIMIT ${STEP} FOR UPDATE SKIP LOCKED`,
      [notedBefore],
    );
    if (rows.length === 0) return false;
    const sizes = await client.query(
      'SELECT id, octet_length(body) AS bytes FROM batches WHERE id = ANY ($1)',
      [rows.map(({ id }) => id)],
    );
    const bytes = new Map(sizes.rows.map((row) => [row.id, row.bytes]));
    const some = withinBytes(rows.map(({ id }) => ({ id, bytes: bytes.get(id) ?? 0 })));
    await removeFree(client, some, onRemoved);
    // What is pointed into again is noted again when that ends.
    await client.query('DELETE FROM free_batches WHERE id = ANY ($1)', [some]);
    return some.length < rows.length || rows.length === STEP;
  });
}

async function removeTraces(
  client: PostgresClient,
  projectId: string,
  since: number,
  now: number,
  onRemoved: OnRemoved,
  locking: 'SKIP LOCKED' | '',
): Promise<boolean> {
  if (await removeHidden(client, now, onRemoved)) return true;
  const { rows } = await client.query(
    `SELECT n, observations FROM traces
     WHERE project = $1 AND updated_hour <= $2::bigint AND updated_at < $3
     ORDER BY updated_hour LIMIT ${STEP_TRACES} FOR UPDATE ${locking}`,
    [projectId, Math.floor(since / HOUR_MS), since],
  );
  const small: string[] = [];
  let observations = 0;
  for (const row of rows) {
    observations += Number(row.observations);
    if (observations > STEP) break;
    small.push(String(row.n));
  }
  if (small.length > 0) {
    await removeWhole(client, small, now, onRemoved);
    return true;
  }
  const [first] = rows;
  if (first !== undefined) {
    await client.query('UPDATE traces SET project = $2, key = int8send(n) WHERE n = $1', [
      first.n,
      HIDDEN,
    ]);
    return true;
  }
  return removeWaiting(client, projectId, since, now);
}

async function removeWhole(
  client: PostgresClient,
  traces: readonly string[],
  now: number,
  onRemoved: OnRemoved,
): Promise<void> {
  const { rows } = await client.query(
    `WITH removed AS (
       DELETE FROM observations WHERE trace = ANY ($1::bigint[]) RETURNING 1
     ), pairs AS (
       DELETE FROM batch_traces WHERE trace = ANY ($1::bigint[]) RETURNING batch
     ), noted AS (
       INSERT INTO free_batches (id, noted_at) SELECT DISTINCT batch, $2::bigint FROM pairs
       ORDER BY batch ON CONFLICT DO NOTHING
     ), gone AS (
       DELETE FROM traces WHERE n = ANY ($1::bigint[])
     )
     SELECT count(*) AS observations FROM removed`,
    [traces, now],
  );
  onRemoved({ traces: traces.length, observations: Number(rows[0]?.observations) });
}

/** A part of what is hidden; with the last of its observations the trace itself. */
async function removeHidden(
  client: PostgresClient,
  now: number,
  onRemoved: OnRemoved,
): Promise<boolean> {
  const { rows } = await client.query(
    'SELECT n FROM traces WHERE project = $1 LIMIT 1 FOR UPDATE SKIP LOCKED',
    [HIDDEN],
  );
  const n = rows[0]?.n;
  if (n === undefined) return false;
  const removed = await client.query(
    `DELETE FROM observations WHERE trace = $1 AND key IN (
       SELECT key FROM observations WHERE trace = $1 LIMIT ${STEP}) RETURNING 1`,
    [n],
  );
  if (removed.rows.length === STEP) onRemoved({ observations: STEP });
  else {
    onRemoved({ observations: removed.rows.length });
    await removeWhole(client, [String(n)], now, onRemoved);
  }
  return true;
}

/** Runs that wait for a trace. */
async function removeWaiting(
  client: PostgresClient,
  projectId: string,
  since: number,
  now: number,
): Promise<boolean> {
  const updates = await client.query(
    `WITH removed AS (
       DELETE FROM pending_updates WHERE project = $1 AND (key, batch, position) IN (
         SELECT key, batch, position FROM pending_updates
         WHERE project = $1 AND received_at < $2 LIMIT ${STEP})
       RETURNING batch
     ), noted AS (
       INSERT INTO free_batches (id, noted_at) SELECT DISTINCT batch, $3::bigint FROM removed
       ORDER BY batch ON CONFLICT DO NOTHING
     )
     SELECT count(*) AS count FROM removed`,
    [projectId, since, now],
  );
  const children = await client.query(
    `WITH removed AS (
       DELETE FROM waiting_children WHERE project = $1 AND key IN (
         SELECT key FROM waiting_children WHERE project = $1 AND received_at < $2 LIMIT ${STEP})
       RETURNING 1
     )
     SELECT count(*) AS count FROM removed`,
    [projectId, since],
  );
  return [updates, children].some(({ rows }) => Number(rows[0]?.count) === STEP);
}
