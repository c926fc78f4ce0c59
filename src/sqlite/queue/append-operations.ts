import type { DatabaseSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { BatchRecord } from '../../queue/record.ts';
import { RECORD, RECORD_COLUMNS } from '../../queue/record.ts';
import { cell } from '../rows.ts';
import { deletedProjects } from './lookups.ts';
import type { WrittenParts } from './part-operations.ts';
import { partClaim } from './part-operations.ts';
import type { ItemizedAnswer } from './recent-log.ts';
import { recentLog } from './recent-log.ts';
import { ledgerEntry } from './usage-operations.ts';

/** The answer to a request with an `Idempotency-Key`, as a row of `idempotency`. */
export type AnswerRecord = {
  readonly hash: Uint8Array;
  readonly requestHash: Uint8Array;
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  readonly expiresAt: number;
  readonly project: string;
};

/** An append of a batch that the file has already, or whose usage its ledger has. */
export type KnownEntry = {
  readonly seq: number;
  /** The branches in which it did not wait before. */
  readonly added: readonly number[];
  /** Whether it waited in another branch. */
  readonly waited: boolean;
};

export function appendOperations(db: DatabaseSync) {
  const keep = keepBatch(db);
  const isDeleted = deletedProjects(db);
  const pending = db.prepare('INSERT OR IGNORE INTO queue_pending VALUES (?, ?, ?, ?, ?, 0, 0)');
  const remember = answerKeeping(db);
  const log = recentLog(db);
  return {
    /**
     * Returns the number of the new entry: an object for each request costs a measurable part of the accept path. Null
     * if the project was deleted. `bytes` is the size of the body, which is in `parts` if it is large. A request has an
     * `answer` to its `Idempotency-Key`, or a `tag`, or neither; with a tag, `itemized` is the answer if some items were not accepted.
     */
    'queue.append': (
      branches: readonly number[],
      answer: AnswerRecord | null,
      record: BatchRecord,
      usageAt: number,
      bytes: number,
      parts: WrittenParts | null,
      tag: string | null,
      expiresAt: number,
      itemized: ItemizedAnswer | null,
    ): number | KnownEntry | null => {
      if (isDeleted(record[RECORD.PROJECT])) return null;
      const { seq, isNew, isCounted } = keep(record, usageAt, parts);
      const added: number[] = [];
      for (const branch of branches) {
        const items = record[RECORD.ITEMS];
        const { changes } = pending.run(branch, seq, items, bytes, record[RECORD.RECEIVED_AT]);
        if (!isCounted && changes > 0) added.push(branch);
      }
      if (answer !== null) remember(answer);
      if (tag !== null) {
        if (isNew && itemized === null) log.add(seq, tag, expiresAt, record);
        else log.addRow(seq, tag, expiresAt, record, itemized);
      }
      return isCounted ? seq : { seq, added, waited: added.length < branches.length };
    },
    'queue.remember': (answer: AnswerRecord): void => {
      if (!isDeleted(answer.project)) remember(answer);
    },
  };
}

function answerKeeping(db: DatabaseSync): (answer: AnswerRecord) => void {
  const insert = db.prepare(
    `INSERT OR REPLACE INTO idempotency
     VALUES (:hash, :requestHash, :status, :contentType, :body, :expiresAt, :project)`,
  );
  return (answer) => {
    insert.run(answer);
  };
}

export type KeptBatch = {
  readonly seq: number;
  /** False if the file had the batch already. */
  readonly isNew: boolean;
  /** False if the file or its ledger had the batch already. */
  readonly isCounted: boolean;
};

/** Returns a function that stores a batch and its usage, unless the file has the batch. */
export function keepBatch(
  db: DatabaseSync,
): (record: BatchRecord, usageAt: number, parts: WrittenParts | null) => KeptBatch {
  const insert = db.prepare(
    `INSERT INTO raw_batches (seq, crc, ${RECORD_COLUMNS})
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const count = ledgerEntry(db);
  const seqOf = cell<number>(db, 'SELECT seq FROM raw_batches WHERE id = ?');
  const numbers = sequences.get(db) ?? beginSequence(db);
  const claim = partClaim(db);
  return (record, usageAt, parts) => {
    const seq = numbers.next();
    const { changes } = insert.run(seq, parts?.crc ?? crc32(record[RECORD.BODY]), ...record);
    const [batchId, organization, project, key] = record;
    if (changes === 0) {
      const known = seqOf(batchId);
      if (known === undefined) throw new Error(`the batch ${batchId} conflicts with no other`);
      return { seq: known, isNew: false, isCounted: false };
    }
    if (parts !== null) claim(seq, parts.numbers);
    const [events, bytes] = [record[RECORD.USAGE_EVENTS], record[RECORD.USAGE_BYTES]];
    const entry = { batchId, organization, project, key, at: usageAt, events, bytes };
    return { seq, isNew: true, isCounted: count(entry) };
  };
}

type Sequence = { next(): number };

/** One counter for each connection, because queues and traces keep batches in the same file. */
const sequences = new WeakMap<DatabaseSync, Sequence>();

/** A request in the log may have outlived its batch, and so have all rows that a salvage kept. */
const LAST_SEQS = [
  'SELECT max(seq) FROM raw_batches',
  'SELECT max(seq) FROM recent_requests',
  'SELECT max(last_seq) FROM recent_groups',
  'SELECT max(seq) FROM dead_letters',
  `SELECT max(last) FROM (
     SELECT (SELECT max(seq) FROM queue_pending WHERE branch = b.id) AS last FROM queue_branches b)`,
];

/**
 * Counts here and not by SQLite, which gives the number of a deleted last row again. `lastReferred`: queries for the last numbers in
 * other tables of the file.
 */
export function beginSequence(db: DatabaseSync, lastReferred: readonly string[] = []): Sequence {
  const queries = [...LAST_SEQS, ...lastReferred];
  let seq = Math.max(0, ...queries.map((query) => cell<number | null>(db, query)() ?? 0));
  const counter = { next: () => ++seq };
  sequences.set(db, counter);
  return counter;
}
