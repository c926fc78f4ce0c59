/** Removes expired traces and the traces and batches of deleted projects, in bounded steps. */
import type { OnRemoved } from '../../../src/store/removals.ts';
import type { Postgres } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { FORGET_GONE } from '../traces/changes.ts';
import { DELETE_POSTINGS_OF_GONE, GONE_COLUMNS } from '../traces/postings.ts';
import { removeLoneScores } from '../traces/scores.ts';
import { IS_USED, removeUnreferenced, reportRemoved, withinBytes } from './batches.ts';

type Transactions = Pick<Postgres, 'transaction'>;

/** Rows, of observations and of other tables, that one step removes. */
const STEP = 1000;
/** Traces that one step removes. */
const STEP_TRACES = 200;
/**
 * The name of no project. A trace with more rows than a step removes is moved there first, so that readers never see
 * a part of it.
 */
const HIDDEN = '';
const HOUR_MS = 3_600_000;

/**
 * Removes traces of a project whose newest event is older than `since` (milliseconds since the epoch), with their
 * observations, and updates and children that waited as long. Skips traces that are being written, and those with the
 * number `before` or a later one, whose partitions are dropped. Resolves with whether there may be more.
 */
export async function expireTracesStep(
  database: Transactions,
  projectId: string,
  since: number,
  now: number,
  onRemoved: OnRemoved = () => {},
  before = Number.MAX_SAFE_INTEGER,
): Promise<boolean> {
  return database.transaction((client) =>
    removeTraces(client, { projectId, since, before, now, onRemoved, locking: 'SKIP LOCKED' }),
  );
}

/**
 * A project, the time before which its traces are expired, and the first number of a trace whose partition is dropped
 * instead.
 */
export type ExpiryWindow = readonly [project: string, since: number, before?: number];

/**
 * The projects with expired rows, and the hidden one if it holds rows. The oldest row is asked for: of any trace, the planner
 * expects many, and reads all by their number until it finds one.
 */
export async function dueProjects(
  client: PostgresClient,
  projects: readonly ExpiryWindow[],
): Promise<readonly ExpiryWindow[]> {
  const windows: readonly ExpiryWindow[] = [...projects, [HIDDEN, Number.MAX_SAFE_INTEGER]];
  const due = await rows<{ place: number }>(
    client,
    `SELECT place FROM unnest($1::text[], $2::bigint[], $3::bigint[])
       WITH ORDINALITY AS w (project, since, before, place)
     WHERE (SELECT min(received_at) FROM pending_updates u WHERE u.project = w.project) < since
       OR (SELECT min(received_at) FROM waiting_children c WHERE c.project = w.project) < since
       OR (SELECT min(updated_at) FROM scores s WHERE s.project = w.project) < since
       OR (SELECT t.updated_hour FROM traces t WHERE t.project = w.project
            AND t.updated_hour <= since / ${HOUR_MS} AND t.n < w.before
            ORDER BY t.updated_hour LIMIT 1) IS NOT NULL`,
    [
      windows.map(([project]) => project),
      windows.map(([, since]) => since),
      windows.map(([, , before]) => before ?? Number.MAX_SAFE_INTEGER),
    ],
  );
  const places = new Set(due.map(({ place }) => place));
  return windows.filter((_, i) => places.has(i + 1));
}

/** Removes traces and batches of a deleted project. Resolves with whether there may be more. */
export async function removeProjectStep(
  database: Transactions,
  projectId: string,
  now: number,
  onRemoved: OnRemoved = () => {},
): Promise<boolean> {
  return database.transaction(async (client) => {
    const all = { since: Number.MAX_SAFE_INTEGER, before: Number.MAX_SAFE_INTEGER, locking: '' };
    if (await removeTraces(client, { ...all, projectId, now, onRemoved })) return true;
    const batches = await rows<BatchSize>(
      client,
      `SELECT id, octet_length(body) AS bytes FROM batches WHERE project = $1
       ORDER BY id LIMIT ${STEP}`,
      [projectId],
    );
    if (batches.length === 0) return false;
    const removed = await rows<{ bytes: number }>(
      client,
      'DELETE FROM batches WHERE id = ANY ($1) RETURNING octet_length(body) AS bytes',
      [withinBytes(batches)],
    );
    reportRemoved(removed, onRemoved);
    return true;
  });
}

type BatchSize = { readonly id: string; readonly bytes: number };

/**
 * Removes batches that were noted as free before `notedBefore` and still are. Resolves with whether there may be
 * more. Dropping the whole partition of a day costs next to nothing, so callers leave batches time to go that way.
 */
export async function removeFreeBatchesStep(
  database: Transactions,
  notedBefore: number,
  onRemoved: OnRemoved = () => {},
): Promise<boolean> {
  return database.transaction(async (client) => {
    const noted = await rows<{ id: string }>(
      client,
      `SELECT id FROM free_batches WHERE noted_at < $1
       ORDER BY noted_at LIMIT ${STEP} FOR UPDATE SKIP LOCKED`,
      [notedBefore],
    );
    if (noted.length === 0) return false;
    const sizes = await rows<BatchSize>(
      client,
      'SELECT id, octet_length(body) AS bytes FROM batches WHERE id = ANY ($1)',
      [noted.map(({ id }) => id)],
    );
    const bytes = new Map(sizes.map((size) => [size.id, size.bytes]));
    const some = withinBytes(noted.map(({ id }) => ({ id, bytes: bytes.get(id) ?? 0 })));
    await removeUnreferenced(client, some, onRemoved);
    // Other traces keep it, and erasures cut the items of the traces that are gone out of it (erasing/expired.ts). Or a queue keeps it, and a
    // further delivery begins none of the traces that are gone (traces/write.ts).
    await client.query(
      `INSERT INTO partly_expired SELECT id FROM batches b
       WHERE id = ANY ($1)
         AND (${IS_USED} OR EXISTS (SELECT 1 FROM batch_traces p WHERE p.batch = b.id))
       ORDER BY id ON CONFLICT DO NOTHING`,
      [some],
    );
    // A batch that is referenced again is noted again when that reference goes.
    await client.query('DELETE FROM free_batches WHERE id = ANY ($1)', [some]);
    return some.length < noted.length || noted.length === STEP;
  });
}

/** The lowest id of the batches that a project has; null if it has none. */
export async function oldestBatchOf(
  client: PostgresClient,
  projectId: string,
): Promise<string | null> {
  const found = await row<{ id: string | null }>(
    client,
    'SELECT min(id) AS id FROM batches WHERE project = $1',
    [projectId],
  );
  return found?.id ?? null;
}

/**
 * Removes the batches of a project among a bounded number of those that are noted as free behind the id `after`, and not before
 * `oldest`, however young the notes are. Resolves with the last id that was looked at; undefined if none was left.
 */
export async function removeFreeOfProjectStep(
  database: Transactions,
  projectId: string,
  { oldest, after }: { readonly oldest: string; readonly after: string },
  onRemoved: OnRemoved,
): Promise<string | undefined> {
  return database.transaction(async (client) => {
    const noted = await rows<{ id: string }>(
      client,
      `SELECT id FROM free_batches WHERE id >= $1 AND id > $2 ORDER BY id LIMIT ${STEP}`,
      [oldest, after],
    );
    const found = await rows<BatchSize>(
      client,
      `SELECT id, octet_length(body) AS bytes FROM batches
       WHERE id = ANY ($1) AND project = $2 ORDER BY id`,
      [noted.map(({ id }) => id), projectId],
    );
    const some = withinBytes(found);
    // The notes before the batches, as in housekeeping: the other order deadlocks with it.
    await client.query('SELECT FROM free_batches WHERE id = ANY ($1) ORDER BY id FOR UPDATE', [
      some,
    ]);
    await removeUnreferenced(client, some, onRemoved);
    await client.query(
      `DELETE FROM free_batches f
       WHERE id = ANY ($1) AND NOT EXISTS (SELECT 1 FROM batches b WHERE b.id = f.id)`,
      [some],
    );
    return some.length < found.length ? some.at(-1) : noted.at(-1)?.id;
  });
}

type Removal = {
  readonly projectId: string;
  /** Older traces are expired. Milliseconds since the epoch, as `now`. */
  readonly since: number;
  /** The first number of a trace that stays. */
  readonly before: number;
  readonly now: number;
  readonly onRemoved: OnRemoved;
  readonly locking: string;
};

async function removeTraces(client: PostgresClient, removal: Removal): Promise<boolean> {
  const { projectId, since, before, now, onRemoved, locking } = removal;
  if (await removeHidden(client, now, onRemoved)) return true;
  const traces = await rows<{ n: number; observations: number }>(
    client,
    `SELECT n, observations FROM traces
     WHERE project = $1 AND updated_hour <= $2::bigint AND updated_at < $3 AND n < $4
     ORDER BY updated_hour LIMIT ${STEP_TRACES} FOR UPDATE ${locking}`,
    [projectId, Math.floor(since / HOUR_MS), since, before],
  );
  const small: number[] = [];
  let observations = 0;
  for (const trace of traces) {
    observations += trace.observations;
    if (observations > STEP) break;
    small.push(trace.n);
  }
  if (small.length > 0) {
    await removeWhole(client, small, now, onRemoved);
    return true;
  }
  const [large] = traces;
  if (large !== undefined) {
    await hideTrace(client, large.n);
    return true;
  }
  return removeWaiting(client, projectId, since, now);
}

/** $1 numbers of traces. */
const REMOVE_SCORES = `DELETE FROM scores s USING traces t
  WHERE t.n = ANY ($1::bigint[]) AND s.project = t.project AND s.trace = t.key`;

/**
 * Removes traces with everything that refers to them. Retention, the deletion of a project and erasures use it: whatever a
 * table keeps of a trace is removed here.
 */
export async function removeWhole(
  client: PostgresClient,
  traces: readonly number[],
  now: number,
  onRemoved: OnRemoved,
): Promise<void> {
  const removed = await row<{ observations: number }>(
    client,
    `WITH removed AS (
       DELETE FROM observations WHERE trace = ANY ($1::bigint[]) RETURNING 1
     ), texts AS (
       DELETE FROM payload_texts WHERE trace = ANY ($1::bigint[])
     ), pairs AS (
       DELETE FROM batch_traces WHERE trace = ANY ($1::bigint[]) RETURNING batch
     ), noted AS (
       INSERT INTO free_batches (id, noted_at) SELECT DISTINCT batch, $2::bigint FROM pairs
       ORDER BY batch ON CONFLICT DO NOTHING
     ), scored AS (${REMOVE_SCORES}
     ), gone AS (
       DELETE FROM traces WHERE n = ANY ($1::bigint[]) RETURNING project, key, ${GONE_COLUMNS}
     ), forgotten AS (
       ${FORGET_GONE}
     ), unposted AS (
       ${DELETE_POSTINGS_OF_GONE}
     )
     SELECT count(*) AS observations FROM removed`,
    [traces, now],
  );
  onRemoved({ traces: traces.length, observations: removed?.observations ?? 0 });
}

/**
 * Makes a trace, which has more rows than one step removes, invisible at once. Its scores go now: they belong to the key that it
 * loses.
 */
export async function hideTrace(client: PostgresClient, trace: number): Promise<void> {
  await client.query(
    `WITH scored AS (${REMOVE_SCORES}
     ), gone AS (
       SELECT project, key, n FROM traces WHERE n = ANY ($1::bigint[])
     ), forgotten AS (${FORGET_GONE}
     )
     UPDATE traces SET project = $2 WHERE n = ANY ($1::bigint[])`,
    [[trace], HIDDEN],
  );
}

/** Removes a part of a hidden trace; the trace itself goes with the last of its observations. */
export async function removeHidden(
  client: PostgresClient,
  now: number,
  onRemoved: OnRemoved,
): Promise<boolean> {
  const hidden = await row<{ n: number }>(
    client,
    'SELECT n FROM traces WHERE project = $1 LIMIT 1 FOR UPDATE SKIP LOCKED',
    [HIDDEN],
  );
  if (hidden === undefined) return false;
  const { rows: removed } = await client.query(
    `DELETE FROM observations WHERE trace = $1 AND key IN (
       SELECT key FROM observations WHERE trace = $1 LIMIT ${STEP}) RETURNING 1`,
    [hidden.n],
  );
  onRemoved({ observations: removed.length });
  if (removed.length < STEP) await removeWhole(client, [hidden.n], now, onRemoved);
  return true;
}

/** Removes updates and children that wait for a run, and scores without a trace. */
async function removeWaiting(
  client: PostgresClient,
  projectId: string,
  since: number,
  now: number,
): Promise<boolean> {
  const updates = await row<{ count: number }>(
    client,
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
  const children = await row<{ count: number }>(
    client,
    `WITH removed AS (
       DELETE FROM waiting_children WHERE project = $1 AND key IN (
         SELECT key FROM waiting_children WHERE project = $1 AND received_at < $2 LIMIT ${STEP})
       RETURNING 1
     )
     SELECT count(*) AS count FROM removed`,
    [projectId, since],
  );
  const scores = await removeLoneScores(client, projectId, since, STEP);
  return updates?.count === STEP || children?.count === STEP || scores === STEP;
}
