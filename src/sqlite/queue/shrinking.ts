/** Cuts erased items out of a batch and its entries, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { BatchRecord } from '../../queue/record.ts';
import { RECORD } from '../../queue/record.ts';
import { returnPages } from '../maintenance.ts';
import { cell, finds, rows } from '../rows.ts';
import type { BranchItems } from './lookups.ts';
import { allBranches } from './lookups.ts';
import type { WrittenParts } from './part-operations.ts';
import { partClaim, partRemoval } from './part-operations.ts';
import type { ShrunkBatch } from './removal-operations.ts';

/** Returns a function that replaces a batch by its rest, and shortens its entries; null if the file does not have it. */
export function batchReplacing(
  db: DatabaseSync,
): (seq: number, record: BatchRecord, parts: WrittenParts | null) => ShrunkBatch | null {
  const update = db.prepare(
    `UPDATE raw_batches SET items = ?, positions = ?, rejections = ?, crc = ?, body = ? WHERE seq = ?`,
  );
  const claim = partClaim(db);
  const removeParts = partRemoval(db);
  const shrink = entryShrinking(db);
  return (seq, record, parts) => {
    const [items, body] = [record[RECORD.ITEMS], record[RECORD.BODY]];
    const [positions, rejections] = [record[RECORD.POSITIONS], record[RECORD.REJECTIONS]];
    const crc = parts?.crc ?? crc32(body);
    const { changes } = update.run(items, positions, rejections, crc, body, seq);
    if (changes === 0) return null;
    removeParts(seq);
    if (parts !== null) claim(seq, parts.numbers);
    return shrink(seq, items);
  };
}

type WaitingItems = BranchItems & { readonly bytes: number };

function entryShrinking(db: DatabaseSync): (seq: number, left: number) => ShrunkBatch {
  const branches = allBranches(db);
  const pending = rows<WaitingItems>(
    db,
    'SELECT branch, items, bytes FROM queue_pending WHERE branch = ? AND seq = ?',
  );
  const letters = rows<BranchItems>(db, 'SELECT branch, items FROM dead_letters WHERE seq = ?');
  const shrinkPending = db.prepare(
    'UPDATE queue_pending SET items = min(items, ?) WHERE branch = ? AND seq = ?',
  );
  // The message may repeat a text of an erased item.
  const shrinkLetters = db.prepare(
    "UPDATE dead_letters SET items = min(items, ?), message = 'an item was erased' WHERE seq = ?",
  );
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const unletter = db.prepare('DELETE FROM dead_letters WHERE seq = ?');
  const gone = ({ branch, items }: BranchItems, left: number): BranchItems => ({
    branch,
    items: Math.max(0, items - left),
  });
  return (seq, left) => {
    const waiting = branches().flatMap((branch) => pending.all(branch, seq));
    const dead = letters.all(seq);
    for (const { branch } of waiting) {
      if (left === 0) unpend.run(branch, seq);
      else shrinkPending.run(left, branch, seq);
    }
    if (left === 0) unletter.run(seq);
    else if (dead.length > 0) shrinkLetters.run(left, seq);
    return {
      seq,
      isEmpty: left === 0,
      bytes: Math.max(0, ...waiting.map(({ bytes }) => bytes)),
      pending: waiting.map((each) => gone(each, left)),
      letters: dead.map((each) => gone(each, left)),
    };
  };
}

/** A place in a walk over the dead letters and then the entries, branch by branch. */
export type WaitingPlace = { readonly branch: number; readonly seq: number };

/** One step of the walk; `next` is null at the end. */
export type WaitingPage = { readonly found: number[]; readonly next: WaitingPlace | null };

/** Rows that one step of a walk reads. */
const WALK_ROWS = 500;
/** The first place of a walk: branches have numbers from 1. */
const DEAD_LETTERS = 0;

export function shrinkReadOperations(db: DatabaseSync) {
  const nextBranch = cell<number>(db, 'SELECT min(id) FROM queue_branches WHERE id > ?');
  const pending = rows<{ seq: number }>(
    db,
    `SELECT seq FROM queue_pending WHERE branch = ? AND seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const dead = rows<{ seq: number }>(
    db,
    `SELECT DISTINCT seq FROM dead_letters WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  const isOf = finds(
    db,
    'SELECT 1 FROM raw_batches WHERE seq = ? AND project = ? AND received_at <= ?',
  );
  const page = ({ branch, seq }: WaitingPlace): number[] =>
    (branch === DEAD_LETTERS ? dead.all(seq) : pending.all(branch, seq)).map((row) => row.seq);
  return {
    /** One step over the waiting batches of a project that were received until a time. */
    'queue.waiting': (project: string, until: number, place: WaitingPlace | null): WaitingPage => {
      const at = place ?? { branch: DEAD_LETTERS, seq: 0 };
      const seqs = page(at);
      const found = seqs.filter((seq) => isOf(seq, project, until));
      const last = seqs.at(-1);
      if (seqs.length === WALK_ROWS && last !== undefined) {
        return { found, next: { branch: at.branch, seq: last } };
      }
      const branch = nextBranch(at.branch);
      return { found, next: typeof branch === 'number' ? { branch, seq: 0 } : null };
    },
  };
}

/** For directories of queues, which overwrite removed bytes only here. */
export function shrinkOperations(db: DatabaseSync) {
  const replace = batchReplacing(db);
  const removeParts = partRemoval(db);
  const remove = db.prepare('DELETE FROM raw_batches WHERE seq = ?');
  const freePages = cell<number>(db, 'PRAGMA freelist_count');
  return {
    /** Replaces a batch by its rest, and removes it without one. Null if the file does not have it. */
    'queue.rewrite': (
      seq: number,
      record: BatchRecord,
      parts: WrittenParts | null,
    ): ShrunkBatch | null => {
      db.exec('PRAGMA secure_delete = ON');
      try {
        const shrunk = replace(seq, record, parts);
        if (shrunk?.isEmpty === true) {
          removeParts(seq);
          remove.run(seq);
        }
        return shrunk;
      } finally {
        db.exec('PRAGMA secure_delete = FAST');
      }
    },
    /** Gives some free pages, which hold what was delivered before, back to the disk; returns whether more are left. */
    'queue.returnPages': (): boolean => {
      if ((freePages() ?? 0) === 0) return false;
      returnPages(db);
      return true;
    },
  };
}
