import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Key } from '../../src/store/rows/observation-row.ts';
import type { WaitingRuns } from '../../src/store/rows/observation-write.ts';

export const WAITING_CHILDREN = `
  -- Runs that name a parent and no trace, where the parent is not known or stands here itself. Each has a
  -- row in a trace of its own id, or where its parent's is, and moves when the parent's trace is known.
  CREATE TABLE IF NOT EXISTS waiting_children (
    project TEXT NOT NULL,
    key ANY NOT NULL,
    parent ANY NOT NULL,
    received_at INTEGER NOT NULL,
    PRIMARY KEY (project, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS waiting_children_by_parent ON waiting_children (project, parent);
`;

/** Whose trace follows from a parent that has yet to come. */
export class WaitingChildren implements WaitingRuns {
  readonly #any: StatementSync;
  readonly #add: StatementSync;
  readonly #is: StatementSync;
  readonly #of: StatementSync;
  readonly #drop: StatementSync;

  constructor(db: DatabaseSync) {
    this.#any = db.prepare('SELECT 1 FROM waiting_children LIMIT 1');
    this.#add = db.prepare('INSERT OR REPLACE INTO waiting_children VALUES (?, ?, ?, ?)');
    this.#is = db.prepare('SELECT 1 FROM waiting_children WHERE project = ? AND key = ?');
    this.#of = db.prepare('SELECT key FROM waiting_children WHERE project = ? AND parent = ?');
    this.#of.setReturnArrays(true);
    this.#drop = db.prepare('DELETE FROM waiting_children WHERE project = ? AND key = ?');
  }

  any(): boolean {
    return this.#any.get() !== undefined;
  }

  add(project: string, key: Key, parent: Key, receivedAt: number): void {
    this.#add.run(project, key, parent, receivedAt);
  }

  has(project: string, key: Key): boolean {
    return this.#is.get(project, key) !== undefined;
  }

  of(project: string, parent: Key): Key[] {
    return (this.#of.all(project, parent) as unknown as [Key][]).map(([key]) => key);
  }

  drop(project: string, key: Key): void {
    this.#drop.run(project, key);
  }
}
