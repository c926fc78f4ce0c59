/** Removes expired traces and the data of deleted projects from the file, step by step, in the database thread. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { allBranches } from '../../../src/sqlite/queue/lookups.ts';
import type { RemovedBatch, WalkedPage } from '../../../src/sqlite/queue/removal-operations.ts';
import { batchRemoval } from '../../../src/sqlite/queue/removal-operations.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { RetentionWindow } from '../../../src/tenancy/rows.ts';
import type { KnownTime } from '../clock-watch.ts';
import { textMarks } from '../search/marks.ts';
import { postingTable } from '../traces/postings.ts';
import { scorePurge, scoreRemoval } from '../traces/score-operations.ts';

/** Rows that one step removes: about a millisecond. */
const STEP_ROWS = 200;
/** Bytes of bodies that one step removes: every byte is overwritten, so a step also writes as much. */
const STEP_BYTES = 1024 * 1024;
/** Batches that one step of a walk reads. */
const WALK_ROWS = 2000;
/**
 * The project of hidden traces, which no client has. A trace that is too large for one step moves there first, so that
 * readers lose all of it at once.
 */
export const HIDDEN = '';

export type RemovedTraces = {
  readonly traces: number;
  readonly observations: number;
  /** Whether more may be left to remove. */
  readonly hasMore: boolean;
};

/** A batch that no trace points into. */
export type OrphanedBatch = {
  readonly seq: number;
  readonly project: string;
  readonly receivedAt: number;
};

export function purgeOperations(db: DatabaseSync) {
  return {
    'purge.traces': tracePurge(db),
    ...batchOperations(db),
    ...projectOperations(db),
    ...timeOperations(db),
  };
}

function timeOperations(db: DatabaseSync) {
  const keep = db.prepare('INSERT OR REPLACE INTO known_time VALUES (1, ?, ?)');
  return {
    'purge.keepTime': ({ at, waitedMs }: KnownTime): void => {
      keep.run(at, waitedMs);
    },
  };
}

/** Removes traces of a project whose newest event is older than `since`, oldest first. */
function tracePurge(db: DatabaseSync): (project: string, since: number) => RemovedTraces {
  const oldest = rows<{ n: number; observations: number }>(
    db,
    `SELECT n, observations FROM traces WHERE project = ? AND updated_at < ?
     ORDER BY updated_at LIMIT 1`,
  );
  const hide = traceHiding(db);
  const remove = traceRemoval(db);
  return (project, since) => {
    let traces = 0;
    let observations = 0;
    while (observations + traces < STEP_ROWS) {
      const found = oldest.get(project, since);
      if (found === undefined) return { traces, observations, hasMore: false };
      if (project !== HIDDEN && found.observations >= STEP_ROWS) {
        hide(found.n);
        traces++;
        continue;
      }
      const removed = remove(found.n, STEP_ROWS);
      observations += removed.observations;
      if (removed.isComplete && project !== HIDDEN) traces++;
    }
    return { traces, observations, hasMore: true };
  };
}

/**
 * Returns a function that makes a trace, which has more rows than one step removes, invisible at once. Its scores go now: they
 * belong to the key that it loses.
 */
export function traceHiding(db: DatabaseSync): (trace: number) => void {
  const hide = db.prepare(`UPDATE traces SET project = '${HIDDEN}', key = n WHERE n = ?`);
  const removeScores = scoreRemoval(db);
  return (trace) => {
    removeScores(trace);
    hide.run(trace);
  };
}

type RemovedPart = { readonly observations: number; readonly isComplete: boolean };

/**
 * Returns a function that removes up to `limit` observations of a trace, and after the last of them the trace. Retention, the
 * deletion of a project and erasures use it: whatever a table keeps of a trace is removed here.
 */
export function traceRemoval(db: DatabaseSync): (trace: number, limit: number) => RemovedPart {
  const observations = db.prepare(
    'DELETE FROM observations WHERE n IN (SELECT n FROM observations WHERE trace = ? LIMIT ?)',
  );
  const batchesOf = rows<{ batch: number }>(db, 'SELECT batch FROM batch_traces WHERE trace = ?');
  const pairs = db.prepare('DELETE FROM batch_traces WHERE trace = ?');
  const free = db.prepare(
    `INSERT OR IGNORE INTO free_batches
     SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM batch_traces WHERE batch = ?1)`,
  );
  const share = sharedNoting(db);
  const note = db.prepare('INSERT OR IGNORE INTO partly_expired VALUES (?)');
  const unshare = db.prepare('DELETE FROM partly_expired WHERE seq = ?');
  const branches = allBranches(db);
  const isWaiting = waitingBatches(db);
  const removeScores = scoreRemoval(db);
  const postings = postingTable(db);
  const texts = textMarks(db);
  const trace = db.prepare('DELETE FROM traces WHERE n = ?');
  return (n, limit) => {
    const removed = Number(observations.run(n, limit).changes);
    if (removed === limit) return { observations: removed, isComplete: false };
    const batches = batchesOf.all(n);
    pairs.run(n);
    for (const { batch } of batches) {
      if (Number(free.run(batch).changes) === 0) share(batch);
      // A queue may deliver it again, and writes begin no trace by an expired batch with a note.
      else if (isWaiting(batch, branches())) note.run(batch);
      else unshare.run(batch);
    }
    removeScores(n);
    postings.remove(n);
    texts.removed(n);
    trace.run(n);
    return { observations: removed, isComplete: true };
  };
}

/** Returns a function that notes a batch which traces keep after some of its items expired (erasing/expired-operations.ts). */
function sharedNoting(db: DatabaseSync): (batch: number) => void {
  const share = db.prepare(
    `INSERT OR IGNORE INTO partly_expired
     SELECT ?1 WHERE EXISTS (SELECT 1 FROM batch_traces WHERE batch = ?1)`,
  );
  return (batch) => {
    share.run(batch);
  };
}

type FreeBatchesStep = {
  readonly removed: readonly RemovedBatch[];
  readonly dead: readonly OrphanedBatch[];
  readonly hasMore: boolean;
};

/** Returns a function that finds whether one of the queues has an entry of a batch, or an update in it waits for its run. */
export function waitingBatches(
  db: DatabaseSync,
): (seq: number, branches: readonly number[]) => boolean {
  const isPending = finds(db, 'SELECT 1 FROM queue_pending WHERE branch = ? AND seq = ?');
  const hasUpdate = finds(
    db,
    `SELECT 1 FROM raw_batches r JOIN pending_updates u ON u.project = r.project AND u.batch = r.seq
     WHERE r.seq = ?`,
  );
  return (seq, branches) => hasUpdate(seq) || branches.some((branch) => isPending(branch, seq));
}

function batchOperations(db: DatabaseSync) {
  const next = rows<{ seq: number; bytes: number }>(
    db,
    `SELECT f.seq, coalesce(length(r.body), 0) AS bytes
     FROM free_batches f LEFT JOIN raw_batches r USING (seq) ORDER BY f.seq LIMIT ${STEP_ROWS}`,
  );
  const forget = db.prepare('DELETE FROM free_batches WHERE seq = ?');
  const free = db.prepare('INSERT OR IGNORE INTO free_batches VALUES (?)');
  const branches = allBranches(db);
  const isWaiting = waitingBatches(db);
  const hasTrace = finds(db, 'SELECT 1 FROM batch_traces WHERE batch = ?');
  const dead = rows<OrphanedBatch>(
    db,
    `SELECT seq, project, received_at AS receivedAt FROM raw_batches r
     WHERE seq = ? AND EXISTS (SELECT 1 FROM dead_letters d WHERE d.seq = r.seq)`,
  );
  const remove = batchRemoval(db);
  const unpair = db.prepare('DELETE FROM batch_traces WHERE batch = ?');
  // A replay can have given it a trace again.
  const isNeeded = (seq: number, all: readonly number[]): boolean =>
    hasTrace(seq) || isWaiting(seq, all);

  return {
    'purge.free': (seqs: readonly number[]): void => {
      for (const seq of seqs) free.run(seq);
    },
    /**
     * Removes a step of the batches that no trace points into. If something else needs one, the search for orphans finds it
     * later; `dead` are those that only a dead letter holds.
     */
    'purge.batches': (): FreeBatchesStep => {
      const all = branches();
      const found = next.all();
      const removed: RemovedBatch[] = [];
      const held: OrphanedBatch[] = [];
      let bytes = 0;
      for (const { seq, bytes: size } of found) {
        if (removed.length > 0 && bytes + size > STEP_BYTES) {
          return { removed, dead: held, hasMore: true };
        }
        forget.run(seq);
        if (isNeeded(seq, all)) continue;
        const letters = dead.all(seq);
        held.push(...letters);
        if (letters.length > 0) continue;
        bytes += size;
        const batch = remove(seq);
        if (batch !== undefined) removed.push(batch);
      }
      return { removed, dead: held, hasMore: found.length === STEP_ROWS };
    },
    /** Removes a batch with its dead letters, unless something else needs it. */
    'purge.dead': (seq: number): RemovedBatch[] => {
      const batch = isNeeded(seq, branches()) ? undefined : remove(seq);
      return batch === undefined ? [] : [batch];
    },
    /** Removes batches of a deleted project, even if traces point into them. */
    'purge.batchesOf': (seqs: readonly number[]): RemovedBatch[] => {
      for (const seq of seqs) {
        unpair.run(seq);
        forget.run(seq);
      }
      return seqs.flatMap((seq) => remove(seq) ?? []);
    },
  };
}

/** Each returns whether more may be left. */
function projectOperations(db: DatabaseSync) {
  const keys = db.prepare(
    `DELETE FROM api_keys WHERE rowid IN (
       SELECT rowid FROM api_keys WHERE project = ? LIMIT ${STEP_ROWS})`,
  );
  const updates = rows<{ batch: number }>(
    db,
    `DELETE FROM pending_updates WHERE project = ?1 AND (key, batch, position) IN (
       SELECT key, batch, position FROM pending_updates
       WHERE project = ?1 AND received_at < ?2 LIMIT ${STEP_ROWS}) RETURNING batch`,
  );
  const share = sharedNoting(db);
  const removeUpdates = (project: string, since: number): boolean => {
    const removed = updates.all(project, since);
    for (const { batch } of removed) share(batch);
    return removed.length === STEP_ROWS;
  };
  const children = db.prepare(
    `DELETE FROM waiting_children WHERE project = ?1 AND key IN (
       SELECT key FROM waiting_children WHERE project = ?1 AND received_at < ?2 LIMIT ${STEP_ROWS})`,
  );
  const rejections = db.prepare(
    `DELETE FROM rejections WHERE project = ?1 AND n IN (
       SELECT n FROM rejections WHERE project = ?1 AND at < ?2 ORDER BY n LIMIT ${STEP_ROWS})`,
  );
  const removeScores = scorePurge(db, STEP_ROWS);
  const isFull = (statement: StatementSync, ...values: (string | number)[]): boolean =>
    Number(statement.run(...values).changes) === STEP_ROWS;
  return {
    'purge.keys': (project: string): boolean => isFull(keys, project),
    'purge.updates': (project: string, since: number): boolean =>
      removeUpdates(project, since) ||
      isFull(children, project, since) ||
      removeScores(project, since),
    'purge.rejections': (project: string, since: number): boolean =>
      isFull(rejections, project, since),
  };
}

type ProjectName = { readonly project: string };

/** Returns a function that finds the projects in a table by its index, one look-up each. */
function projectsIn(
  db: DatabaseSync,
  table: 'traces' | 'scores' | 'pending_updates' | 'waiting_children' | 'rejections',
): () => string[] {
  const query = rows<ProjectName>(
    db,
    `WITH RECURSIVE found (project) AS (
       SELECT min(project) FROM ${table}
       UNION ALL
       SELECT (SELECT min(project) FROM ${table} WHERE project > found.project)
       FROM found WHERE project IS NOT NULL)
     SELECT project FROM found WHERE project IS NOT NULL`,
  );
  return () => query.all().map(({ project }) => project);
}

export function purgeReadOperations(db: DatabaseSync) {
  const projects = projectsIn(db, 'traces');
  const withUpdates = (['scores', 'pending_updates', 'waiting_children'] as const).map((table) =>
    projectsIn(db, table),
  );
  const withRejections = projectsIn(db, 'rejections');
  const hasExpired = finds(db, 'SELECT 1 FROM traces WHERE project = ? AND updated_at < ? LIMIT 1');
  const walk = rows<OrphanedBatch & { isWanted: 0 | 1 }>(
    db,
    `SELECT seq, project, received_at AS receivedAt,
       (EXISTS (SELECT 1 FROM batch_traces b WHERE b.batch = seq)
        OR EXISTS (SELECT 1 FROM pending_updates u WHERE u.project = r.project AND u.batch = seq)
       ) AS isWanted
     FROM raw_batches r WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const knownTime = rows<KnownTime>(
    db,
    'SELECT at, waited_ms AS waitedMs FROM known_time WHERE id = 1',
  );
  const newest = cell<number>(
    db,
    'SELECT received_at FROM raw_batches WHERE seq = (SELECT max(seq) FROM raw_batches)',
  );
  return {
    /** The last time that the store knew to be right. An earlier version kept only the times of batches. */
    'purge.knownTime': (): KnownTime | null => {
      const known = knownTime.get();
      if (known !== undefined) return known;
      const at = newest();
      return at === undefined || at === null ? null : { at, waitedMs: 0 };
    },
    'purge.projects': projects,
    /** The windows of which traces have expired. */
    'purge.due': (windows: readonly RetentionWindow[]): RetentionWindow[] =>
      windows.filter(({ project, since }) => hasExpired(project, since)),
    /** One step over all batches; finds those that no trace and no pending update points into. */
    'purge.orphans': (after: number): WalkedPage<OrphanedBatch, number> => {
      const page = walk.all(after);
      const found = page
        .filter(({ isWanted }) => isWanted === 0)
        .map(({ seq, project, receivedAt }) => ({ seq, project, receivedAt }));
      return { found, next: page.length < WALK_ROWS ? null : (page.at(-1)?.seq ?? null) };
    },
    /** Projects with pending updates or scores, and projects with a log of rejections. */
    'purge.others': (): { updates: string[]; rejections: string[] } => ({
      updates: [...new Set(withUpdates.flatMap((find) => find()))],
      rejections: withRejections(),
    }),
  };
}
