/**
 * Large bodies in parts, in the database thread:
 *
 *   parts.write, a part a group ──▶ body_parts ──(the batch is stored)──▶ batch_parts: it has a body
 *                                       └──(it is not, or it goes)──▶ free_parts ──(parts.sweep)──▶ gone
 *
 * A part that no batch has is nowhere to be seen, and is swept away after the next opening at the latest.
 */
import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { failpoint } from '../failpoint.ts';
import type { Operations } from '../operation.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS body_parts (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS batch_parts (n INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT;
  CREATE INDEX IF NOT EXISTS batch_parts_by_seq ON batch_parts (seq);
  CREATE TABLE IF NOT EXISTS free_parts (n INTEGER PRIMARY KEY) STRICT;
`;

/** A body that was written in parts: their numbers in order, and the checksum of the whole. */
export type WrittenParts = readonly [numbers: readonly number[], crc: number];

/** Makes the tables, and frees what a crash left between the parts of a body. */
export function preparePartTables(db: DatabaseSync): void {
  db.exec(SCHEMA);
  db.exec(
    `INSERT OR IGNORE INTO free_parts
     SELECT n FROM body_parts WHERE n NOT IN (SELECT n FROM batch_parts)`,
  );
}

export function partCalls(db: DatabaseSync): Operations['calls'] {
  const insert = db.prepare('INSERT INTO body_parts VALUES (?, ?)');
  const isDeleted = db.prepare('SELECT 1 FROM deleted_projects WHERE project = ?');
  const next = db.prepare('SELECT n FROM free_parts LIMIT 1');
  const remove = db.prepare('DELETE FROM body_parts WHERE n = ?');
  const forget = db.prepare('DELETE FROM free_parts WHERE n = ?');
  const newest = db
    .prepare(
      `SELECT max(coalesce((SELECT max(n) FROM body_parts), 0),
         coalesce((SELECT max(n) FROM batch_parts), 0)) AS n`,
    )
    .get()?.n;
  // Counted here: a number that SQLite gave again could be freed by whoever had it before.
  let number = Number(newest);
  const free = partFreeing(db);
  return {
    /** Returns the part's number, and the checksum up to its end; null where the project was deleted. */
    'parts.write': (
      project: string,
      crcBefore: number,
      [bytes]: readonly [Uint8Array],
    ): readonly [number: number, crc: number] | null => {
      if (isDeleted.get(project) !== undefined) return null;
      const n = ++number;
      insert.run(n, bytes);
      failpoint('after_part');
      return [n, crc32(bytes, crcBefore)];
    },
    'parts.free': free,
    /** Removes one free part, overwriting its bytes; returns whether there may be more. */
    'parts.sweep': (): boolean => {
      const n = next.get()?.n;
      if (n === undefined) return false;
      const before = db.prepare('PRAGMA secure_delete').get()?.secure_delete;
      db.exec('PRAGMA secure_delete = ON');
      try {
        remove.run(n);
      } finally {
        if (before !== 1) db.exec('PRAGMA secure_delete = FAST');
      }
      forget.run(n);
      return true;
    },
  };
}

/** Returns a function that frees parts, except those that a batch has. */
export function partFreeing(db: DatabaseSync): (numbers: readonly number[]) => void {
  const free = db.prepare(
    `INSERT OR IGNORE INTO free_parts
     SELECT ?1 WHERE NOT EXISTS (SELECT 1 FROM batch_parts WHERE n = ?1)`,
  );
  return (numbers) => {
    for (const n of numbers) free.run(n);
  };
}

/** Returns a function that makes parts the body of a batch. */
export function partClaim(db: DatabaseSync): (seq: number, numbers: readonly number[]) => void {
  const claim = db.prepare('INSERT INTO batch_parts VALUES (?, ?)');
  return (seq, numbers) => {
    for (const n of numbers) claim.run(n, seq);
  };
}

/** Returns a function that takes a batch's parts away from it, and says how many bytes they have. */
export function partRemoval(db: DatabaseSync): (seq: number) => number {
  const parts = db.prepare(
    `SELECT n, length(bytes) AS bytes FROM batch_parts JOIN body_parts USING (n) WHERE seq = ?`,
  );
  const unclaim = db.prepare('DELETE FROM batch_parts WHERE seq = ?');
  const free = partFreeing(db);
  return (seq) => {
    const found = parts.all(seq);
    if (found.length === 0) return 0;
    unclaim.run(seq);
    free(found.map(({ n }) => Number(n)));
    return found.reduce((sum, { bytes }) => sum + Number(bytes), 0);
  };
}

/** Returns a function that puts a batch's parts together; undefined for a batch without any. */
export function partReader(db: DatabaseSync): (seq: number) => Uint8Array | undefined {
  const parts = db.prepare(
    `SELECT p.bytes FROM batch_parts b JOIN body_parts p USING (n) WHERE b.seq = ? ORDER BY b.n`,
  );
  parts.setReturnArrays(true);
  return (seq) => {
    const found = (parts.all(seq) as unknown as [Uint8Array][]).map(([bytes]) => bytes);
    if (found.length === 0) return undefined;
    const whole = new Uint8Array(found.reduce((sum, { byteLength }) => sum + byteLength, 0));
    let at = 0;
    for (const bytes of found) {
      whole.set(bytes, at);
      at += bytes.byteLength;
    }
    return whole;
  };
}
