/** Operations for the tests of the thread that runs them. */
import type { DatabaseSync } from 'node:sqlite';
import type { Access, Operations } from '../../../src/sqlite/operation.ts';

export function operations(db: DatabaseSync, access: Access): Operations {
  if (access === 'read') {
    const all = db.prepare('SELECT value FROM numbers ORDER BY value');
    all.setReturnArrays(true);
    return {
      calls: {
        all: () => (all.all() as unknown as [number][]).map(([value]) => value),
        blob: (size: number) => new Uint8Array(size).fill(7),
        write: () => db.exec('INSERT INTO numbers VALUES (1)'),
      },
    };
  }
  db.exec('CREATE TABLE IF NOT EXISTS numbers (value INTEGER PRIMARY KEY) STRICT');
  const add = db.prepare('INSERT INTO numbers VALUES (?)');
  return {
    calls: {
      add: (value: number): number => {
        add.run(value);
        return value * 2;
      },
      fail: () => {
        throw new Error('it fails');
      },
      addAndFail: (value: number) => {
        add.run(value);
        throw new Error('after writing');
      },
      /** How many share a transaction shows in their common start. */
      total: () => db.prepare('SELECT total_changes() AS n').get()?.n,
      sync: () => db.prepare('PRAGMA synchronous').get()?.synchronous,
      pages: () => [
        db.prepare('PRAGMA page_size').get()?.page_size,
        db.prepare('PRAGMA journal_mode').get()?.journal_mode,
        db.prepare('PRAGMA wal_autocheckpoint').get()?.wal_autocheckpoint,
      ],
    },
  };
}
