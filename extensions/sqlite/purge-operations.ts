/** What takes expired traces and deleted projects out of the file, in the database thread, step by step. */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Access, OperationOptions, Operations } from '../../src/sqlite/operation.ts';
import type { RemovedBatch } from '../../src/sqlite/queue/removal-operations.ts';
import { batchRemoval } from '../../src/sqlite/queue/removal-operations.ts';

const SCHEMA = `
  -- Batches that no trace points into any more, to be removed.
  CREATE TABLE IF NOT EXISTS free_batches (seq INTEGER PRIMARY KEY) STRICT;
`;

/** Rows of observations, and other rows, that one step removes: about a millisecond. */
const STEP_ROWS = 200;
/** Bytes of bodies that one step removes; every byte is overwritten, so this is written too. */
const STEP_BYTES = 1024 * 1024;
/** Batches that one step of a reading looks at. */
const WALK_ROWS = 2000;
/** A project that nobody has: what is too large for one step is moved there first, so that it goes whole. */
const HIDDEN = '';

/** What a step removed, and whether more is left. */
export type RemovedTraces = readonly [traces: number, observations: number, more: boolean];

export function operations(
  db: DatabaseSync,
  access: Access,
  _options: OperationOptions,
): Operations {
  if (access === 'read') return { calls: readingCalls(db) };
  db.exec(SCHEMA);
  return { calls: { ...traceCalls(db), ...batchCalls(db), ...projectCalls(db) } };
}

function rows(db: DatabaseSync, sql: string): StatementSync {
  const statement = db.prepare(sql);
  statement.setReturnArrays(true);
  return statement;
}

function traceCalls(db: DatabaseSync): Operations['calls'] {
  const oldest = rows(
    db,
    `SELECT n, observations FROM traces WHERE project = ? AND updated_at < ?
     ORDER BY updated_at LIMIT 1`,
  );
  const hide = db.prepare("UPDATE traces SET project = '', key = n WHERE n = ?");
  const removal = new TraceRemoval(db);

  return {
    /** Removes traces of a project whose newest event is older than `since`, oldest first. */
    'purge.traces': (project: string, since: number): RemovedTraces => {
      const before = removal.observations;
      let traces = 0;
      while (removal.observations - before + traces < STEP_ROWS) {
        const found = oldest.get(project, since) as unknown as [number, number] | undefined;
        if (found === undefined) return [traces, removal.observations - before, false];
        const [n, observations] = found;
        if (project !== HIDDEN && observations > STEP_ROWS) {
          hide.run(n);
          traces++;
        } else if (removal.remove(n, STEP_ROWS) && project !== HIDDEN) traces++;
      }
      return [traces, removal.observations - before, true];
    },
  };
}

class TraceRemoval {
  /** Removed so far. */
  observations = 0;
  readonly #observations: StatementSync;
  readonly #batches: StatementSync;
  readonly #pairs: StatementSync;
  readonly #free: StatementSync;
  readonly #trace: StatementSync;

  constructor(db: DatabaseSync) {
    this.#observations = db.prepare(
      'DELETE FROM observations WHERE n IN (SELECT n FROM observations WHERE trace = ? LIMIT ?)',
    );
    this.#batches = rows(db, 'SELECT batch FROM batch_traces WHERE trace = ?');
    this.#pairs = db.prepare('DELETE FROM batch_traces WHERE trace = ?');
    this.#free = db.prepare(
      `INSERT OR IGNORE INTO free_batches
       SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM batch_traces WHERE batch = ?1)`,
    );
    this.#trace = db.prepare('DELETE FROM traces WHERE n = ?');
  }

  /** Removes up to `limit` observations of a trace, and with the last of them the trace; returns whether. */
  remove(n: number, limit: number): boolean {
    const removed = Number(this.#observations.run(n, limit).changes);
    this.observations += removed;
    if (removed === limit) return false;
    const batches = this.#batches.all(n) as unknown as [number][];
    this.#pairs.run(n);
    for (const [batch] of batches) this.#free.run(batch);
    this.#trace.run(n);
    return true;
  }
}

function batchCalls(db: DatabaseSync): Operations['calls'] {
  const next = rows(
    db,
    `SELECT f.seq, coalesce(length(r.body), 0) FROM free_batches f LEFT JOIN raw_batches r USING (seq)
     ORDER BY f.seq LIMIT ${STEP_ROWS}`,
  );
  const taken = db.prepare('DELETE FROM free_batches WHERE seq = ?');
  const note = db.prepare('INSERT OR IGNORE INTO free_batches VALUES (?)');
  const branches = rows(db, 'SELECT id FROM queue_branches');
  const isPending = db.prepare('SELECT 1 FROM queue_pending WHERE branch = ? AND seq = ?');
  const hasTrace = db.prepare('SELECT 1 FROM batch_traces WHERE batch = ?');
  const remove = batchRemoval(db);
  const pairs = db.prepare('DELETE FROM batch_traces WHERE batch = ?');

  return {
    'purge.free': (seqs: readonly number[]): void => {
      for (const seq of seqs) note.run(seq);
    },
    /** Removes a step of the batches that nothing points into; returns them, and whether more are left. */
    'purge.batches': (): [removed: RemovedBatch[], more: boolean] => {
      const all = (branches.all() as unknown as [number][]).map(([id]) => id);
      const found = next.all() as unknown as [seq: number, bytes: number][];
      const removed: RemovedBatch[] = [];
      let bytes = 0;
      for (const [seq, size] of found) {
        if (removed.length > 0 && bytes + size > STEP_BYTES) return [removed, true];
        taken.run(seq);
        // A replay may have made it wanted again; what waits in a queue is looked at again with the orphans.
        if (hasTrace.get(seq) !== undefined) continue;
        if (all.some((branch) => isPending.get(branch, seq) !== undefined)) continue;
        bytes += size;
        removed.push(...remove(seq));
      }
      return [removed, found.length === STEP_ROWS];
    },
    /** Removes batches of a deleted project, whatever points into them. */
    'purge.batchesOf': (seqs: readonly number[]): RemovedBatch[] => {
      for (const seq of seqs) {
        pairs.run(seq);
        taken.run(seq);
      }
      return seqs.flatMap(remove);
    },
  };
}

function projectCalls(db: DatabaseSync): Operations['calls'] {
  const keys = db.prepare(
    `DELETE FROM api_keys WHERE rowid IN (
       SELECT rowid FROM api_keys WHERE project = ? LIMIT ${STEP_ROWS})`,
  );
  const updates = db.prepare(
    `DELETE FROM pending_updates WHERE project = ?1 AND (key, batch, position) IN (
       SELECT key, batch, position FROM pending_updates
       WHERE project = ?1 AND received_at < ?2 LIMIT ${STEP_ROWS})`,
  );
  const children = db.prepare(
    `DELETE FROM waiting_children WHERE project = ?1 AND key IN (
       SELECT key FROM waiting_children WHERE project = ?1 AND received_at < ?2 LIMIT ${STEP_ROWS})`,
  );
  const rejections = db.prepare(
    `DELETE FROM rejections WHERE project = ?1 AND n IN (
       SELECT n FROM rejections WHERE project = ?1 AND at < ?2 ORDER BY n LIMIT ${STEP_ROWS})`,
  );
  const isFull = (statement: StatementSync, ...values: (string | number)[]): boolean =>
    Number(statement.run(...values).changes) === STEP_ROWS;
  return {
    'purge.keys': (project: string): boolean => isFull(keys, project),
    'purge.updates': (project: string, since: number): boolean =>
      isFull(updates, project, since) || isFull(children, project, since),
    'purge.rejections': (project: string, since: number): boolean =>
      isFull(rejections, project, since),
  };
}

function readingCalls(db: DatabaseSync): Operations['calls'] {
  const projects = rows(
    db,
    `WITH RECURSIVE all_projects (project) AS (
       SELECT min(project) FROM traces
       UNION ALL
       SELECT (SELECT min(project) FROM traces WHERE project > all_projects.project)
       FROM all_projects WHERE project IS NOT NULL)
     SELECT project FROM all_projects WHERE project IS NOT NULL`,
  );
  const expired = db.prepare('SELECT 1 FROM traces WHERE project = ? AND updated_at < ? LIMIT 1');
  const walk = rows(
    db,
    `SELECT seq, project, received_at,
       EXISTS (SELECT 1 FROM batch_traces b WHERE b.batch = seq)
       OR EXISTS (SELECT 1 FROM pending_updates u WHERE u.project = r.project AND u.batch = seq)
     FROM raw_batches r WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const withUpdates = rows(
    db,
    'SELECT project FROM pending_updates UNION SELECT project FROM waiting_children',
  );
  const withRejections = rows(db, 'SELECT DISTINCT project FROM rejections');
  const namesOf = (statement: StatementSync): string[] =>
    (statement.all() as unknown as [string][]).map(([project]) => project);
  return {
    'purge.projects': () => namesOf(projects),
    /** The projects, by number in the list, that have something to remove. */
    'purge.due': (windows: readonly [project: string, since: number][]): number[] =>
      windows.flatMap(([project, since], i) =>
        expired.get(project, since) === undefined ? [] : [i],
      ),
    /** One step over all batches: those that nothing points into, and where the next step begins. */
    'purge.orphans': (
      after: number,
    ): [found: [seq: number, project: string, at: number][], next: number | null] => {
      const page = walk.all(after) as unknown as [number, string, number, number][];
      const found = page.filter(([, , , isWanted]) => isWanted === 0);
      const next = page.length < WALK_ROWS ? null : (page.at(-1)?.[0] ?? null);
      return [found.map(([seq, project, at]) => [seq, project, at]), next];
    },
    'purge.others': (): [updates: string[], rejections: string[]] => [
      namesOf(withUpdates),
      namesOf(withRejections),
    ],
  };
}
