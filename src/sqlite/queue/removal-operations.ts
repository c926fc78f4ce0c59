/** What takes a deleted project out of a file, in the database thread, step by step. */
import type { DatabaseSync } from 'node:sqlite';
import type { Operations } from '../operation.ts';
import { partRemoval } from './part-operations.ts';

export const REMOVAL_SCHEMA = `
  -- Nothing of these may be written again. Ids are random: they stay, and cost a line each.
  CREATE TABLE IF NOT EXISTS deleted_projects (
    project TEXT PRIMARY KEY,
    deleted_at INTEGER NOT NULL,
    purged INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
`;

/** Rows that one step of the walk looks at. */
const WALK_ROWS = 2000;

/** What a removed batch left of the queues: its places in branches, and its dead letters. */
export type RemovedBatch = readonly [
  seq: number,
  bytes: number,
  pending: readonly (readonly [branch: number, items: number])[],
  letters: readonly (readonly [branch: number, items: number])[],
];

export function deletedProjects(db: DatabaseSync): (project: string) => boolean {
  const find = db.prepare('SELECT 1 FROM deleted_projects WHERE project = ?');
  return (project) => find.get(project) !== undefined;
}

export function removalCalls(db: DatabaseSync): Operations['calls'] {
  const mark = db.prepare('INSERT OR IGNORE INTO deleted_projects VALUES (?, ?, 0)');
  const purged = db.prepare('UPDATE deleted_projects SET purged = 1 WHERE project = ?');
  const remove = batchRemoval(db);
  const answer = db.prepare('DELETE FROM idempotency WHERE hash = ?');
  return {
    'removal.mark': (project: string, now: number): void => {
      mark.run(project, now);
    },
    'removal.purged': (project: string): void => {
      purged.run(project);
    },
    /** For directories of queues: overwrites what it frees, which an acknowledgement there does not. */
    'removal.batches': (seqs: readonly number[]): RemovedBatch[] => {
      db.exec('PRAGMA secure_delete = ON');
      try {
        return seqs.flatMap(remove);
      } finally {
        db.exec('PRAGMA secure_delete = FAST');
      }
    },
    'removal.answers': (hashes: readonly Uint8Array[]): void => {
      for (const hash of hashes) answer.run(hash);
    },
  };
}

/**
 * Returns a function that removes a batch with everything the queues know of it. Its parts, where it has
 * any, are free then, and overwritten when they are swept.
 */
export function batchRemoval(db: DatabaseSync): (seq: number) => RemovedBatch[] {
  const size = db.prepare('SELECT length(body) FROM raw_batches WHERE seq = ?');
  size.setReturnArrays(true);
  const branches = db.prepare('SELECT id FROM queue_branches');
  branches.setReturnArrays(true);
  const unpend = db.prepare(
    'DELETE FROM queue_pending WHERE branch = ? AND seq = ? RETURNING branch, items',
  );
  unpend.setReturnArrays(true);
  const letters = db.prepare('DELETE FROM dead_letters WHERE seq = ? RETURNING branch, items');
  letters.setReturnArrays(true);
  const remove = db.prepare('DELETE FROM raw_batches WHERE seq = ?');
  const removeParts = partRemoval(db);
  return (seq) => {
    const bytes = (size.get(seq) as unknown as [number] | undefined)?.[0];
    if (bytes === undefined) return [];
    const pending: [number, number][] = [];
    for (const [branch] of branches.all() as unknown as [number][]) {
      pending.push(...(unpend.all(branch, seq) as unknown as [number, number][]));
    }
    const dead = letters.all(seq) as unknown as [number, number][];
    remove.run(seq);
    return [[seq, bytes + removeParts(seq), pending, dead]];
  };
}

export function removalReadingCalls(db: DatabaseSync): Operations['calls'] {
  const open = db.prepare('SELECT project FROM deleted_projects WHERE purged = 0');
  open.setReturnArrays(true);
  const walk = db.prepare(
    `SELECT seq, project, length(body) FROM raw_batches WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  walk.setReturnArrays(true);
  const answers = db.prepare(
    `SELECT hash, project FROM idempotency WHERE hash > ? ORDER BY hash LIMIT ${WALK_ROWS}`,
  );
  answers.setReturnArrays(true);
  return {
    'removal.open': (): string[] => (open.all() as unknown as [string][]).map(([id]) => id),
    /** One step over all batches: those of the project with their size, and where the next step begins. */
    'removal.walk': (
      project: string,
      after: number,
    ): [found: [seq: number, bytes: number][], next: number | null] => {
      const rows = walk.all(after) as unknown as [number, string, number][];
      const found = rows.filter(([, owner]) => owner === project);
      const next = rows.length < WALK_ROWS ? null : (rows.at(-1)?.[0] ?? null);
      return [found.map(([seq, , bytes]) => [seq, bytes]), next];
    },
    'removal.answersOf': (
      project: string,
      after: Uint8Array,
    ): [found: Uint8Array[], next: Uint8Array | null] => {
      const rows = answers.all(after) as unknown as [Uint8Array, string][];
      const found = rows.filter(([, owner]) => owner === project).map(([hash]) => hash);
      const last = rows.length < WALK_ROWS ? undefined : rows.at(-1);
      // The last hash may be among those found: the same bytes cannot be moved twice.
      return [found, last === undefined ? null : last[0].slice()];
    },
  };
}
