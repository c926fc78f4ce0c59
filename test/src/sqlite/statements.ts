/** A file of operations, for the tests of the threads that run it. */
import { existsSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import type { FileMigration } from '../../../src/sqlite/migrate.ts';
import { cell, rows } from '../../../src/sqlite/rows.ts';

export const migrations: readonly FileMigration[] = [
  {
    name: '0001-numbers',
    apply: (db) => db.exec('CREATE TABLE IF NOT EXISTS numbers (value INTEGER PRIMARY KEY) STRICT'),
  },
];

/** A file with this ending beside the database: the disk reads it for no new connection. */
export const REFUSED = '.refused';

/** A file with this ending beside the database: a part of the database seems damaged. */
export const UNREADABLE = '.unreadable';

export function readOperations(db: DatabaseSync) {
  if (existsSync(`${db.location()}${REFUSED}`)) throw new Error('refused by the disk');
  const prepare = db.prepare.bind(db);
  const all = rows<{ value: number }>(db, 'SELECT value FROM numbers ORDER BY value');
  return {
    all: (): number[] => all.all().map(({ value }) => value),
    blob: (size: number): { bytes: Uint8Array } => ({ bytes: new Uint8Array(size).fill(7) }),
    end: (): void => process.exit(1),
    failWith: (errcode: number): void => {
      throw Object.assign(new Error(`it fails with ${errcode}`), { errcode });
    },
    /** Fails every statement that is prepared from now on; 0 ends it. */
    refuseReads: (errcode: number): void => {
      db.prepare = (sql) => {
        if (errcode === 0) return prepare(sql);
        throw Object.assign(new Error('refused by the disk'), { errcode });
      };
    },
    readPart: (): void => {
      if (!existsSync(`${db.location()}${UNREADABLE}`)) return;
      throw Object.assign(new Error('malformed'), { errcode: 11 });
    },
    insert: (): void => db.exec('INSERT INTO numbers VALUES (1)'),
  };
}

/** The result code of the commits of the next groups; 0 commits them. */
const disk = { errcode: 0, next: 0, hasFailed: false };

export function groupEnd() {
  return {
    beforeCommit(): void {
      const { errcode } = disk;
      if (errcode !== 0) throw Object.assign(new Error('refused by the disk'), { errcode });
      disk.errcode = disk.next;
    },
    rolledBack(): void {},
  };
}

export function writeOperations(db: DatabaseSync) {
  const add = db.prepare('INSERT INTO numbers VALUES (?)');
  return {
    add: (value: number): number => {
      add.run(value);
      return value * 2;
    },
    end: (): void => process.exit(1),
    fail: (): void => {
      throw new Error('it fails');
    },
    failWith: (errcode: number): void => {
      throw Object.assign(new Error(`it fails with ${errcode}`), { errcode });
    },
    /** Fails as if it had taken so many milliseconds. */
    failLate: (errcode: number, ms: number): void => {
      const now = performance.now.bind(performance);
      performance.now = () => now() + ms;
      throw Object.assign(new Error(`it fails with ${errcode}`), { errcode });
    },
    failOnce: (errcode: number): boolean => {
      if (disk.hasFailed) return true;
      disk.hasFailed = true;
      throw Object.assign(new Error(`it fails with ${errcode}`), { errcode });
    },
    refuseWrites: (errcode: number): void => {
      disk.next = errcode;
      if (errcode === 0) disk.errcode = 0;
    },
    addAndFail: (value: number): void => {
      add.run(value);
      throw new Error('after writing');
    },
    /** Waits until the number in the memory is not 0, as a call of the system does whose disk is away. */
    stall: (memory: SharedArrayBuffer): void => {
      Atomics.wait(new Int32Array(memory), 0, 0);
    },
    pragma: (name: string): number | string | undefined => cell<number>(db, `PRAGMA ${name}`)(),
  };
}

export const growing = [] as const;
