/** Cuts erased items out of a batch and its entries, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { BatchRecord } from '../../queue/record.ts';
import { RECORD } from '../../queue/record.ts';
import { rows } from '../rows.ts';
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
