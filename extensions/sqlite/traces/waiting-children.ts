import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { RowQuery } from '../../../src/sqlite/rows.ts';
import { finds, rows } from '../../../src/sqlite/rows.ts';
import type { Key } from '../../../src/store/rows/observation-row.ts';
import type { WaitingRuns } from '../../../src/store/rows/observation-write.ts';

/** Runs that name a parent and no trace, until the parent arrives. */
export class WaitingChildren implements WaitingRuns {
  readonly #any: () => boolean;
  readonly #add: StatementSync;
  readonly #has: (project: string, key: Key) => boolean;
  readonly #of: RowQuery<{ key: Key }>;
  readonly #drop: StatementSync;

  constructor(db: DatabaseSync) {
    this.#any = finds(db, 'SELECT 1 FROM waiting_children LIMIT 1');
    this.#add = db.prepare('INSERT OR REPLACE INTO waiting_children VALUES (?, ?, ?, ?)');
    this.#has = finds(db, 'SELECT 1 FROM waiting_children WHERE project = ? AND key = ?');
    this.#of = rows(db, 'SELECT key FROM waiting_children WHERE project = ? AND parent = ?');
    this.#drop = db.prepare('DELETE FROM waiting_children WHERE project = ? AND key = ?');
  }

  any(): boolean {
    return this.#any();
  }

  add(project: string, key: Key, parent: Key, receivedAt: number): void {
    this.#add.run(project, key, parent, receivedAt);
  }

  has(project: string, key: Key): boolean {
    return this.#has(project, key);
  }

  of(project: string, parent: Key): Key[] {
    return this.#of.all(project, parent).map(({ key }) => key);
  }

  drop(project: string, key: Key): void {
    this.#drop.run(project, key);
  }
}
