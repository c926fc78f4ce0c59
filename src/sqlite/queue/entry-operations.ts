import type { DatabaseSync } from 'node:sqlite';
import { failpoint } from '../failpoint.ts';
import { errcodeOf, isDamage } from '../result-code.ts';
import { cell, finds, rows, tuples } from '../rows.ts';
import type { ReadBody } from './body-reading.ts';
import { bodyReader } from './body-reading.ts';
import type { BranchItems } from './lookups.ts';
import { partRemoval } from './part-operations.ts';

/** A waiting entry without its body. A tuple, because a backlog is read by pages of a thousand entries. */
export type PendingRow = readonly [
  seq: number,
  items: number,
  bytes: number,
  receivedAt: number,
  attempts: number,
  due: number,
  /** Empty if the row of the batch cannot be read. */
  project: string,
];

export type QueueState = {
  readonly branches: readonly BranchState[];
  readonly bytes: number;
  readonly deadLetters: number;
  readonly deadLetterItems: number;
  readonly quarantined: number;
  readonly lastSeq: number;
};

type BranchState = {
  readonly branch: string;
  readonly number: number;
  readonly entries: number;
  readonly items: number;
};

/** One page of a check. */
type CheckedPage = {
  /** Entries that were checked. */
  readonly count: number;
  readonly lastSeq: number;
  readonly damaged: readonly { readonly seq: number; readonly damage: string }[];
};

/** The bodies of a file, and the branches that still need them. */
export type KeptBodies = {
  /** Whether the entry waits in one of the branches. */
  waits(branches: readonly number[], seq: number): boolean;
  /** Removes the body if no branch and no dead letter needs it. */
  release(seq: number): void;
  /** Keeps the bodies of entries beside damage, like the bodies of quarantined entries. */
  keep(seqs: readonly number[]): void;
};

/**
 * Whether a branch or a dead letter needs the body of `?1`, and whether the body is in parts: one statement, because each takes as long as
 * its look-ups. `CROSS` looks up the branches one by one; else SQLite may scan all waiting entries.
 */
export const BODY_USE = `
  SELECT
    EXISTS (SELECT 1 FROM dead_letters WHERE seq = ?1) OR EXISTS (
      SELECT 1 FROM queue_branches b CROSS JOIN queue_pending p ON p.branch = b.id AND p.seq = ?1),
    EXISTS (SELECT 1 FROM batch_parts WHERE seq = ?1)`;

/** `keepsBodies` in a store, which removes bodies by retention; a directory of queues removes them at once. */
export function bodiesOf(db: DatabaseSync, keepsBodies: boolean): KeptBodies {
  const isPending = finds(db, 'SELECT 1 FROM queue_pending WHERE branch = ? AND seq = ?');
  const use = tuples<[isNeeded: number, isInParts: number]>(db, BODY_USE);
  const remove = db.prepare('DELETE FROM raw_batches WHERE seq = ?');
  const removeParts = partRemoval(db);
  const kept = new Set<number>();
  const waits = (branches: readonly number[], seq: number): boolean =>
    branches.some((branch) => isPending(branch, seq));
  return {
    waits,
    release(seq) {
      if (keepsBodies || kept.has(seq)) return;
      const [isNeeded, isInParts] = use.get(seq) ?? [1, 0];
      if (isNeeded === 1) return;
      if (isInParts === 1) removeParts(seq);
      remove.run(seq);
    },
    keep(seqs) {
      for (const seq of seqs) kept.add(seq);
    },
  };
}

export function entryOperations(db: DatabaseSync, bodies: KeptBodies) {
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const nack = db.prepare(
    'UPDATE queue_pending SET attempts = ?, due = ? WHERE branch = ? AND seq = ?',
  );
  return {
    /** Returns the entries that now wait in none of the queue's branches. */
    'queue.ack': (
      branches: readonly number[],
      branch: number,
      seqs: readonly number[],
    ): number[] => {
      failpoint('before_ack');
      const free: number[] = [];
      try {
        for (const seq of seqs) {
          const { changes } = unpend.run(branch, seq);
          if (changes === 0 || bodies.waits(branches, seq)) continue;
          free.push(seq);
          bodies.release(seq);
        }
      } catch (error) {
        // A transaction that met damage is rolled back; the next acknowledgement leaves these bodies alone.
        if (isDamage(errcodeOf(error))) bodies.keep(seqs);
        throw error;
      }
      return free;
    },
    'queue.nack': (branch: number, seq: number, attempts: number, due: number): void => {
      nack.run(attempts, due, branch, seq);
    },
    'queue.quarantine': quarantine(db),
  };
}

/** Takes a damaged entry out of every branch. Its row stays in the file, for tools that can read it. */
function quarantine(db: DatabaseSync) {
  const find = rows<BranchItems & { bytes: number }>(
    db,
    `SELECT p.branch, p.items, p.bytes FROM queue_pending p JOIN queue_branches b ON b.id = p.branch
     WHERE b.queue = ? AND p.seq = ?`,
  );
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const note = db.prepare('INSERT OR REPLACE INTO quarantined VALUES (?, ?, ?, ?)');
  /** Returns the places where the entry waited. Without any, another call removed it: that is no damage. */
  return (
    queue: string,
    seq: number,
    reason: string,
    foundAt: number,
  ): (BranchItems & { bytes: number })[] => {
    const found = find.all(queue, seq);
    for (const { branch } of found) unpend.run(branch, seq);
    if (found.length > 0) note.run(queue, seq, reason, foundAt);
    return found;
  };
}

export function openOperations(db: DatabaseSync) {
  const addBranch = db.prepare(
    'INSERT OR IGNORE INTO queue_branches (queue, branch) VALUES (?, ?)',
  );
  return {
    'queue.open': (queue: string, branches: readonly string[]): QueueState => {
      for (const branch of branches) addBranch.run(queue, branch);
      return stateOf(db, queue);
    },
  };
}

/** `lastSeq`: an entry may wait behind the last batch, if a salvage lost its own. */
function stateOf(db: DatabaseSync, queue: string): QueueState {
  const branches = rows<BranchState>(
    db,
    `SELECT b.branch, b.id AS number, count(p.seq) AS entries, coalesce(sum(p.items), 0) AS items
     FROM queue_branches b LEFT JOIN queue_pending p ON p.branch = b.id
     WHERE b.queue = ? GROUP BY b.id ORDER BY b.id`,
  );
  const sums = rows<Omit<QueueState, 'branches'>>(
    db,
    `SELECT
       (SELECT coalesce(sum(bytes), 0) FROM (
          SELECT max(p.bytes) AS bytes FROM queue_pending p
          JOIN queue_branches b ON b.id = p.branch WHERE b.queue = ?1 GROUP BY p.seq)) AS bytes,
       count(d.id) AS deadLetters,
       coalesce(sum(d.items), 0) AS deadLetterItems,
       (SELECT count(*) FROM quarantined WHERE queue = ?1) AS quarantined,
       max(
         (SELECT coalesce(max(seq), 0) FROM raw_batches),
         (SELECT coalesce(max(last), 0) FROM (
            SELECT (SELECT max(seq) FROM queue_pending WHERE branch = b.id) AS last
            FROM queue_branches b WHERE b.queue = ?1))) AS lastSeq
     FROM dead_letters d JOIN queue_branches b ON b.id = d.branch WHERE b.queue = ?1`,
  ).get(queue);
  if (sums === undefined) throw new Error('an aggregate without a row');
  return { branches: branches.all(queue), ...sums };
}

export function entryReadOperations(db: DatabaseSync) {
  const read = bodyReader(db);
  return {
    'queue.page': pageReading(db),
    'queue.bodies': (seqs: readonly number[]): ReadBody[] => seqs.map(read),
    'queue.check': checkPage(db, read),
    'queue.answer': answerReading(db),
  };
}

function pageReading(db: DatabaseSync) {
  const page = tuples<readonly [number, number, number, number, number, number]>(
    db,
    `SELECT seq, items, bytes, received_at, attempts, due FROM queue_pending
     WHERE branch = ? AND seq > ? ORDER BY seq LIMIT ?`,
  );
  const projectOf = batchProject(db);
  return (branch: number, after: number, limit: number): PendingRow[] =>
    page.all(branch, after, limit).map((row) => [...row, projectOf(row[0])]);
}

/** Returns a function that finds the project of a batch; empty if its row is damaged, which a lease reports. */
export function batchProject(db: DatabaseSync): (seq: number) => string {
  const find = cell<string>(db, 'SELECT project FROM raw_batches WHERE seq = ?');
  return (seq) => {
    try {
      return find(seq) ?? '';
    } catch (error) {
      if (isDamage(errcodeOf(error))) return '';
      throw error;
    }
  };
}

/** Checks one page of waiting entries. */
function checkPage(db: DatabaseSync, read: (seq: number) => ReadBody) {
  const page = rows<{ seq: number }>(
    db,
    `SELECT DISTINCT p.seq FROM queue_pending p JOIN queue_branches b ON b.id = p.branch
     WHERE b.queue = ? AND p.seq > ? ORDER BY p.seq LIMIT ?`,
  );
  return (queue: string, after: number, limit: number): CheckedPage => {
    const found = page.all(queue, after, limit);
    const damaged: { seq: number; damage: string }[] = [];
    for (const { seq } of found) {
      const body = read(seq);
      if ('damage' in body) damaged.push({ seq, damage: body.damage });
    }
    return { count: found.length, lastSeq: found.at(-1)?.seq ?? after, damaged };
  };
}

/** The kept answer to a request with an `Idempotency-Key`. */
type KeptAnswer = {
  readonly requestHash: Uint8Array;
  readonly status: number;
  readonly contentType: string;
  readonly body: Uint8Array;
  readonly expiresAt: number;
};

function answerReading(db: DatabaseSync): (hash: Uint8Array) => KeptAnswer | null {
  const find = rows<KeptAnswer>(
    db,
    `SELECT request_hash AS requestHash, status, content_type AS contentType, body,
       expires_at AS expiresAt FROM idempotency WHERE hash = ?`,
  );
  return (hash) => find.get(hash) ?? null;
}
