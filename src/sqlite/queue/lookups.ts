/** Reads that several operations of the queues share. */
import type { DatabaseSync } from 'node:sqlite';
import { finds, rows } from '../rows.ts';

/** Items of one entry in a branch. */
export type BranchItems = { readonly branch: number; readonly items: number };

/** Returns a function that reads the numbers of all branches of the file. */
export function allBranches(db: DatabaseSync): () => number[] {
  const ids = rows<{ id: number }>(db, 'SELECT id FROM queue_branches');
  return () => ids.all().map(({ id }) => id);
}

export function deletedProjects(db: DatabaseSync): (project: string) => boolean {
  return finds(db, 'SELECT 1 FROM deleted_projects WHERE project = ?');
}
