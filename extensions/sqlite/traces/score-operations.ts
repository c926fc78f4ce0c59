/** Scores of traces. */
import type { DatabaseSync } from 'node:sqlite';
import { deletedProjects } from '../../../src/sqlite/queue/lookups.ts';
import { cell, finds, rows } from '../../../src/sqlite/rows.ts';
import type { TraceScope } from '../../../src/store/plan/step.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { ScoreCells } from '../../../src/store/rows/score-rows.ts';

/** The scores of a trace `t` for a listing, as JSON. */
export const SCORES_OF_TRACE = `(SELECT json_group_array(json_array(
    s.name, s.value, s.observation IS NULL, s.updated_at, s.id))
  FROM scores s WHERE s.project = t.project AND s.trace = t.key) AS scores`;

/** The time of the first score with the id, if it is stored. */
export type PutScore = number | 'full' | 'project deleted';

export function scoreOperations(db: DatabaseSync) {
  const isDeleted = deletedProjects(db);
  const isKnown = finds(db, 'SELECT 1 FROM scores WHERE project = ? AND trace = ? AND id = ?');
  const count = cell<number>(db, 'SELECT count(*) FROM scores WHERE project = ? AND trace = ?');
  const put = cell<number>(
    db,
    `INSERT INTO scores (project, trace, id, observation, name, value, number, comment, source,
       created_at, updated_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (project, trace, id) DO UPDATE SET observation = excluded.observation,
       name = excluded.name, value = excluded.value, number = excluded.number,
       comment = excluded.comment, source = excluded.source, updated_at = excluded.updated_at
     RETURNING created_at`,
  );
  const remove = db.prepare('DELETE FROM scores WHERE project = ? AND id = ?');
  return {
    'scores.remove': (project: string, id: string): boolean => remove.run(project, id).changes > 0,
    'scores.put': (project: string, trace: Key, cells: ScoreCells, most: number): PutScore => {
      if (isDeleted(project)) return 'project deleted';
      const { id, observation, name, value, number, comment, source, ...times } = cells;
      if (!isKnown(project, trace, id) && (count(project, trace) ?? 0) >= most) return 'full';
      const texts = [observation, name, value, number, comment, source] as const;
      const { created_at: at, updated_at: updatedAt } = times;
      return put(project, trace, id, ...texts, at, updatedAt) ?? at;
    },
  };
}

export function scoreReadOperations(db: DatabaseSync) {
  const columns = 'id, observation, name, value, number, comment, source, created_at, updated_at';
  const list = rows<ScoreCells>(
    db,
    `SELECT ${columns}
     FROM scores s WHERE s.project = ?1 AND s.trace = ?2 AND (s.updated_at >= ?3 OR EXISTS (
       SELECT 1 FROM traces t WHERE t.project = ?1 AND t.key = ?2 AND t.updated_at >= ?3))`,
  );
  const find = rows<ScoreCells & { readonly trace: Key }>(
    db,
    `SELECT trace, ${columns}
     FROM scores s WHERE s.project = ?1 AND s.id = ?2 AND (s.updated_at >= ?3 OR EXISTS (
       SELECT 1 FROM traces t WHERE t.project = ?1 AND t.key = s.trace AND t.updated_at >= ?3))
     ORDER BY s.updated_at DESC, s.trace LIMIT 1`,
  );
  return {
    'scores.find': ({ project, since }: TraceScope, id: string) => find.all(project, id, since)[0],
    'scores.list': ({ project, since }: TraceScope, trace: Key): ScoreCells[] =>
      list.all(project, trace, since),
  };
}

/** Returns a function that removes the scores of a trace, by the trace's number. */
export function scoreRemoval(db: DatabaseSync): (trace: number) => void {
  const remove = db.prepare(
    `DELETE FROM scores WHERE (project, trace) IN (SELECT project, key FROM traces WHERE n = ?)`,
  );
  return (trace) => {
    remove.run(trace);
  };
}

/** Removes a step of a project's scores that are older than a time and have no trace. Returns whether more may be left. */
export function scorePurge(
  db: DatabaseSync,
  limit: number,
): (project: string, since: number) => boolean {
  const remove = db.prepare(
    `DELETE FROM scores WHERE project = ?1 AND (trace, id) IN (
       SELECT s.trace, s.id FROM scores s WHERE s.project = ?1 AND s.updated_at < ?2
         AND NOT EXISTS (SELECT 1 FROM traces t WHERE t.project = ?1 AND t.key = s.trace) LIMIT ?3)`,
  );
  return (project, since) => Number(remove.run(project, since, limit).changes) === limit;
}
