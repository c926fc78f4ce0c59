/**
 * Large bodies in parts, in the database thread:
 *
 *   parts.write, one part a group ──▶ body_parts ──(the batch is stored)──▶ batch_parts: the batch has a body
 *                                        └──(it is not, or is removed)──▶ free_parts ──(parts.sweep)──▶ deleted
 *
 * A part without a batch is invisible. The sweep deletes it, after the next opening at the latest.
 */
import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import { failpoint } from '../failpoint.ts';
import { cell, rows } from '../rows.ts';
import { deletedProjects } from './lookups.ts';

/** A body that was written in parts: the numbers of the parts in order, and the checksum of the body. */
export type WrittenParts = { readonly numbers: readonly number[]; readonly crc: number };

export type WrittenPart = {
  readonly number: number;
  /** The checksum of the body up to the part's end. */
  readonly crc: number;
};

/** Frees the parts that a crash left before their batch was stored. */
export function freeOrphanedParts(db: DatabaseSync): void {
  db.exec(
    `INSERT OR IGNORE INTO free_parts
     SELECT n FROM body_parts WHERE n NOT IN (SELECT n FROM batch_parts)`,
  );
}

export function partOperations(db: DatabaseSync) {
  const insert = db.prepare('INSERT INTO body_parts VALUES (?, ?)');
  const isDeleted = deletedProjects(db);
  const newest = cell<number>(
    db,
    `SELECT max(coalesce((SELECT max(n) FROM body_parts), 0),
       coalesce((SELECT max(n) FROM batch_parts), 0))`,
  );
  // Counts here: a number that SQLite gave twice could be freed by the caller that had it first.
  let number = newest() ?? 0;
  return {
    /** Null if the project was deleted. */
    'parts.write': (
      project: string,
      crcBefore: number,
      [bytes]: readonly [Uint8Array],
    ): WrittenPart | null => {
      if (isDeleted(project)) return null;
      number++;
      insert.run(number, bytes);
      failpoint('after_part');
      return { number, crc: crc32(bytes, crcBefore) };
    },
    'parts.free': partFreeing(db),
    'parts.sweep': partSweep(db),
  };
}

/** Deletes one free part and overwrites its bytes; returns whether there may be more. */
function partSweep(db: DatabaseSync): () => boolean {
  const next = cell<number>(db, 'SELECT n FROM free_parts LIMIT 1');
  const secureDelete = cell<number>(db, 'PRAGMA secure_delete');
  const remove = db.prepare('DELETE FROM body_parts WHERE n = ?');
  const forget = db.prepare('DELETE FROM free_parts WHERE n = ?');
  return () => {
    const n = next();
    if (n === undefined) return false;
    const isSecure = secureDelete() === 1;
    db.exec('PRAGMA secure_delete = ON');
    try {
      remove.run(n);
    } finally {
      if (!isSecure) db.exec('PRAGMA secure_delete = FAST');
    }
    forget.run(n);
    return true;
  };
}

/** Returns a function that frees parts, except those of a batch. */
function partFreeing(db: DatabaseSync): (numbers: readonly number[]) => void {
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

/** Returns a function that takes the parts away from a batch, and returns how many bytes they have. */
export function partRemoval(db: DatabaseSync): (seq: number) => number {
  const parts = rows<{ n: number; bytes: number }>(
    db,
    'SELECT n, length(bytes) AS bytes FROM batch_parts JOIN body_parts USING (n) WHERE seq = ?',
  );
  const unclaim = db.prepare('DELETE FROM batch_parts WHERE seq = ?');
  const free = partFreeing(db);
  return (seq) => {
    const found = parts.all(seq);
    if (found.length === 0) return 0;
    unclaim.run(seq);
    free(found.map(({ n }) => n));
    return found.reduce((sum, { bytes }) => sum + bytes, 0);
  };
}

/** Returns a function that joins a batch's parts; undefined for a batch without parts. */
export function partReader(db: DatabaseSync): (seq: number) => Uint8Array | undefined {
  const parts = rows<{ bytes: Uint8Array }>(
    db,
    'SELECT p.bytes FROM batch_parts b JOIN body_parts p USING (n) WHERE b.seq = ? ORDER BY b.n',
  );
  return (seq) => {
    const found = parts.all(seq);
    if (found.length === 0) return undefined;
    const whole = new Uint8Array(found.reduce((sum, { bytes }) => sum + bytes.byteLength, 0));
    let at = 0;
    for (const { bytes } of found) {
      whole.set(bytes, at);
      at += bytes.byteLength;
    }
    return whole;
  };
}
