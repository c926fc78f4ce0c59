/** Removes erased ids from the answers that are kept for repeated requests, in the database thread. */
import type { DatabaseSync } from 'node:sqlite';
import { cell, finds } from '../../../src/sqlite/rows.ts';
import { withoutIds } from '../../../src/store/erasing/answers.ts';

export function answerOperations(db: DatabaseSync) {
  const addItem = db.prepare('INSERT OR IGNORE INTO erasure_items VALUES (?, ?)');
  const isErased = finds(db, 'SELECT 1 FROM erasure_items WHERE erasure = ? AND id = ?');
  const answer = cell<Uint8Array>(db, 'SELECT body FROM idempotency WHERE hash = ?');
  const saveAnswer = db.prepare('UPDATE idempotency SET body = ? WHERE hash = ?');
  const recent = cell<Uint8Array | null>(db, 'SELECT body FROM recent_requests WHERE seq = ?');
  const saveRecent = db.prepare('UPDATE recent_requests SET body = ? WHERE seq = ?');
  const cleaned = (erasure: string, body: Uint8Array | null | undefined): Buffer | undefined =>
    body === null || body === undefined
      ? undefined
      : withoutIds(Buffer.from(body), (id) => isErased(erasure, id));
  return {
    'erasing.addItems': (erasure: string, ids: readonly string[]): void => {
      for (const id of ids) addItem.run(erasure, id);
    },
    /** For the answers to requests with an `Idempotency-Key`, by their hashes. */
    'erasing.cleanAnswers': (erasure: string, hashes: readonly Uint8Array[]): void => {
      for (const hash of hashes) {
        const body = cleaned(erasure, answer(hash));
        if (body !== undefined) saveAnswer.run(body, hash);
      }
    },
    /** For the answers to recent requests without one, by their numbers. */
    'erasing.cleanRecent': (erasure: string, seqs: readonly number[]): void => {
      for (const seq of seqs) {
        const body = cleaned(erasure, recent(seq));
        if (body !== undefined) saveRecent.run(body, seq);
      }
    },
  };
}
