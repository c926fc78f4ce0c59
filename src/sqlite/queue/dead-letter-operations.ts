import type { DatabaseSync } from 'node:sqlite';
import { rows } from '../rows.ts';
import type { KeptBodies } from './entry-operations.ts';
import { batchProject } from './entry-operations.ts';
import type { BranchItems } from './lookups.ts';

export type DeadLetterRow = {
  readonly id: number;
  readonly branch: string;
  readonly batchId: string;
  readonly projectId: string;
  readonly items: number;
  readonly bytes: number;
  readonly code: string;
  readonly message: string;
  readonly failedAt: number;
};

/** A dead letter that waits again. */
export type ReplayedRow = BranchItems & {
  readonly seq: number;
  readonly bytes: number;
  readonly receivedAt: number;
  readonly project: string;
  /** Whether its body waited in no branch before. */
  readonly wasFree: boolean;
};

export type DroppedLetters = { readonly count: number; readonly items: number };

type Letter = BranchItems & { readonly id: number; readonly seq: number };

export function deadLetterOperations(db: DatabaseSync, bodies: KeptBodies) {
  const add = db.prepare(
    `INSERT INTO dead_letters (branch, seq, items, bytes, code, message, failed_at)
     SELECT branch, seq, ?, bytes, ?, ?, ? FROM queue_pending WHERE branch = ? AND seq = ?`,
  );
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const revive = rows<Omit<ReplayedRow, 'project' | 'wasFree'>>(
    db,
    `INSERT OR IGNORE INTO queue_pending
     SELECT d.branch, d.seq, d.items, d.bytes, r.received_at, 0, 0
     FROM dead_letters d JOIN raw_batches r USING (seq) WHERE d.id = ?
     RETURNING branch, seq, items, bytes, received_at AS receivedAt`,
  );
  const remove = db.prepare('DELETE FROM dead_letters WHERE id = ?');
  const projectOf = batchProject(db);
  const select = letterSelection(db);

  return {
    /** Returns whether the entry now waits in none of the queue's branches; null if it did not wait in this one. */
    'queue.deadLetter': (
      branches: readonly number[],
      branch: number,
      seq: number,
      code: string,
      message: string,
      failedAt: number,
      items: number,
    ): boolean | null => {
      if (add.run(items, code, message, failedAt, branch, seq).changes === 0) return null;
      unpend.run(branch, seq);
      return !bodies.waits(branches, seq);
    },
    'queue.replay': (
      branches: readonly number[],
      ids: readonly number[] | 'all',
    ): ReplayedRow[] => {
      const replayed: ReplayedRow[] = [];
      for (const { id, seq } of select(branches, ids)) {
        const wasFree = !bodies.waits(branches, seq);
        const row = revive.get(id);
        if (row === undefined) continue;
        remove.run(id);
        replayed.push({ ...row, project: projectOf(seq), wasFree });
      }
      return replayed;
    },
    'queue.drop': (branches: readonly number[], ids: readonly number[] | 'all'): DroppedLetters => {
      const letters = select(branches, ids);
      for (const { id, seq } of letters) {
        remove.run(id);
        bodies.release(seq);
      }
      return { count: letters.length, items: letters.reduce((sum, { items }) => sum + items, 0) };
    },
  };
}

/** Returns a function that selects the dead letters of a queue's branches: all of them, or those with an id. */
function letterSelection(
  db: DatabaseSync,
): (branches: readonly number[], ids: readonly number[] | 'all') => Letter[] {
  const all = rows<Letter>(
    db,
    `SELECT id, branch, seq, items FROM dead_letters
     WHERE branch IN (SELECT value FROM json_each(?)) ORDER BY id`,
  );
  return (branches, ids) => {
    const known = all.all(JSON.stringify(branches));
    if (ids === 'all') return known;
    const wanted = new Set(ids);
    return known.filter(({ id }) => wanted.has(id));
  };
}

export function deadLetterReadOperations(db: DatabaseSync) {
  const letters = rows<DeadLetterRow>(
    db,
    `SELECT d.id, b.branch, coalesce(r.id, '') AS batchId, coalesce(r.project, '') AS projectId,
       d.items, d.bytes, d.code, d.message, d.failed_at AS failedAt
     FROM dead_letters d JOIN queue_branches b ON b.id = d.branch LEFT JOIN raw_batches r USING (seq)
     WHERE b.queue = ?1 AND d.id > ?2 AND (?3 IS NULL OR b.branch = ?3) ORDER BY d.id LIMIT ?4`,
  );
  return {
    'queue.deadLetters': (
      queue: string,
      after: number,
      branch: string | null,
      limit: number,
    ): DeadLetterRow[] => letters.all(queue, after, branch, limit),
  };
}
