/** Removes a deleted project from a file, step by step, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, rows } from '../rows.ts';
import type { BranchItems } from './lookups.ts';
import { allBranches } from './lookups.ts';
import { partRemoval } from './part-operations.ts';

/** Rows that one step of a walk reads. */
const WALK_ROWS = 2000;

/** A removed batch, with the places in branches and the dead letters that it had. */
export type RemovedBatch = {
  readonly seq: number;
  readonly bytes: number;
  readonly pending: readonly BranchItems[];
  readonly letters: readonly BranchItems[];
};

/** A batch from which items were erased. */
export type ShrunkBatch = {
  readonly seq: number;
  /** Whether no item is left: its entries are gone too. */
  readonly isEmpty: boolean;
  /** Bytes that the queues count for the batch. */
  readonly bytes: number;
  /** Items that left each entry that waits. */
  readonly pending: readonly BranchItems[];
  /** Items that left each dead letter. */
  readonly letters: readonly BranchItems[];
};

export type BatchSize = { readonly seq: number; readonly bytes: number };

/** One step of a walk; `next` is where the next step begins, null at the end. */
export type WalkedPage<Found, Place> = {
  readonly found: readonly Found[];
  readonly next: Place | null;
};

export function removalOperations(db: DatabaseSync) {
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
    /** For directories of queues: overwrites the bytes, which an acknowledgement there does not. */
    'removal.batches': (seqs: readonly number[]): RemovedBatch[] => {
      db.exec('PRAGMA secure_delete = ON');
      try {
        return seqs.flatMap((seq) => remove(seq) ?? []);
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
 * Returns a function that removes a batch with its entries and dead letters; undefined if the file does not have
 * it. The sweep overwrites its parts.
 */
export function batchRemoval(db: DatabaseSync): (seq: number) => RemovedBatch | undefined {
  const size = cell<number>(db, 'SELECT length(body) FROM raw_batches WHERE seq = ?');
  const branches = allBranches(db);
  const unpend = rows<BranchItems>(
    db,
    'DELETE FROM queue_pending WHERE branch = ? AND seq = ? RETURNING branch, items',
  );
  const unletter = rows<BranchItems>(
    db,
    'DELETE FROM dead_letters WHERE seq = ? RETURNING branch, items',
  );
  const remove = db.prepare('DELETE FROM raw_batches WHERE seq = ?');
  const removeParts = partRemoval(db);
  return (seq) => {
    const bytes = size(seq);
    if (bytes === undefined) return undefined;
    const pending = branches().flatMap((branch) => unpend.all(branch, seq));
    const letters = unletter.all(seq);
    remove.run(seq);
    return { seq, bytes: bytes + removeParts(seq), pending, letters };
  };
}

export function removalReadOperations(db: DatabaseSync) {
  const open = rows<{ project: string }>(
    db,
    'SELECT project FROM deleted_projects WHERE purged = 0',
  );
  const walk = rows<BatchSize & { project: string }>(
    db,
    `SELECT seq, project, length(body) AS bytes FROM raw_batches
     WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const answers = rows<{ hash: Uint8Array; project: string }>(
    db,
    `SELECT hash, project FROM idempotency WHERE hash > ? ORDER BY hash LIMIT ${WALK_ROWS}`,
  );
  return {
    'removal.open': (): string[] => open.all().map(({ project }) => project),
    /** One step over all batches; finds those of the project. */
    'removal.walk': (project: string, after: number): WalkedPage<BatchSize, number> => {
      const page = walk.all(after);
      const found = page
        .filter((batch) => batch.project === project)
        .map(({ seq, bytes }) => ({ seq, bytes }));
      return { found, next: page.length < WALK_ROWS ? null : (page.at(-1)?.seq ?? null) };
    },
    /** One step over all kept answers; finds the hashes of those of the project. */
    'removal.answersOf': (
      project: string,
      after: Uint8Array,
    ): WalkedPage<Uint8Array, Uint8Array> => {
      const page = answers.all(after);
      const found = page.filter((answer) => answer.project === project).map(({ hash }) => hash);
      // A copy: the last hash may be among those found, and the same bytes cannot move to the main thread twice.
      const next = page.length < WALK_ROWS ? undefined : page.at(-1)?.hash.slice();
      return { found, next: next ?? null };
    },
  };
}
