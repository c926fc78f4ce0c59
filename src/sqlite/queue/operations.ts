/**
 * What the queue asks of its database thread. One file holds any number of queues; the bodies stand once
 * in `raw_batches`, however many branches wait for them.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { crc32 } from 'node:zlib';
import type { BatchRecord } from '../../queue/record.ts';
import { batchOf, RECORD_COLUMNS } from '../../queue/record.ts';
import { failpoint } from '../failpoint.ts';
import type { Access, OperationOptions, Operations } from '../operation.ts';
import { errcodeOf, isDamage } from '../result-code.ts';
import type { WrittenParts } from './part-operations.ts';
import {
  partCalls,
  partClaim,
  partReader,
  partRemoval,
  preparePartTables,
} from './part-operations.ts';
import {
  deletedProjects,
  REMOVAL_SCHEMA,
  removalCalls,
  removalReadingCalls,
} from './removal-operations.ts';
import type { LedgerRow } from './usage-operations.ts';
import { ledgerEntry, USAGE_SCHEMA, usageCalls, usageReadingCalls } from './usage-operations.ts';

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS raw_batches (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    permissions INTEGER NOT NULL,
    format INTEGER NOT NULL,
    encoding INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    request_items INTEGER NOT NULL,
    items INTEGER NOT NULL,
    usage_events INTEGER NOT NULL,
    usage_bytes INTEGER NOT NULL,
    positions TEXT,
    rejections TEXT,
    crc INTEGER NOT NULL,
    body BLOB NOT NULL
  ) STRICT;
  CREATE TABLE IF NOT EXISTS queue_branches (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    branch TEXT NOT NULL,
    UNIQUE (queue, branch)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS queue_pending (
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    due INTEGER NOT NULL,
    PRIMARY KEY (branch, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    branch INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    items INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    code TEXT NOT NULL,
    message TEXT NOT NULL,
    failed_at INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS dead_letters_by_seq ON dead_letters (seq);
  CREATE TABLE IF NOT EXISTS quarantined (
    queue TEXT NOT NULL,
    seq INTEGER NOT NULL,
    reason TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    PRIMARY KEY (queue, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS idempotency (
    hash BLOB PRIMARY KEY,
    request_hash BLOB NOT NULL,
    status INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    project TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS idempotency_by_expiry ON idempotency (expires_at);
`;

/** `hash`, `requestHash`, status, content type, body, expiry, project: a row of `idempotency`. */
export type AnswerRecord = readonly [
  Uint8Array,
  Uint8Array,
  number,
  string,
  Uint8Array,
  number,
  string,
];

/** What is known of a waiting entry without its body. */
export type PendingRow = readonly [
  seq: number,
  items: number,
  bytes: number,
  receivedAt: number,
  attempts: number,
  due: number,
];
export type BranchState = readonly [branch: string, number: number, entries: number, items: number];
export type QueueState = {
  readonly branches: readonly BranchState[];
  readonly bytes: number;
  readonly deadLetters: number;
  readonly deadLetterItems: number;
  readonly quarantined: number;
  readonly lastSeq: number;
};
export type ReplayedRow = readonly [branch: number, ...row: PendingRow];
export type DeadLetterRow = readonly [
  id: number,
  branch: string,
  batchId: string,
  project: string,
  items: number,
  bytes: number,
  code: string,
  message: string,
  failedAt: number,
];

export function operations(
  db: DatabaseSync,
  access: Access,
  options: OperationOptions,
): Operations {
  if (access === 'read') {
    return {
      calls: { ...readingCalls(db), ...usageReadingCalls(db), ...removalReadingCalls(db) },
    };
  }
  db.exec(SCHEMA);
  db.exec(USAGE_SCHEMA);
  db.exec(REMOVAL_SCHEMA);
  preparePartTables(db);
  const keepsBodies = options.keepsBodies === true;
  return {
    calls: {
      ...appendingCalls(db),
      ...partCalls(db),
      ...endingCalls(db, keepsBodies),
      ...tidyingCalls(db),
      ...usageCalls(db, keepsBodies),
      ...removalCalls(db),
    },
    growing: ['queue.append', 'queue.remember', 'parts.write'],
  };
}

function appendingCalls(db: DatabaseSync): Operations['calls'] {
  const keep = keepBatch(db);
  const isDeleted = deletedProjects(db);
  const pending = db.prepare('INSERT OR IGNORE INTO queue_pending VALUES (?, ?, ?, ?, ?, 0, 0)');
  const remember = db.prepare('INSERT OR REPLACE INTO idempotency VALUES (?, ?, ?, ?, ?, ?, ?)');
  return {
    /**
     * Returns the entry's sequence number. For a batch that is stored here already: its number, the
     * branches in which it did not wait yet, and whether it waited in another. Null where the project was
     * deleted: of that nothing may appear again. `bytes` are the body's, which `parts` hold where it is large.
     */
    'queue.append': (
      branches: readonly number[],
      answer: AnswerRecord | null,
      record: BatchRecord,
      usageAt: number,
      bytes: number,
      parts: WrittenParts | null,
    ): number | readonly [seq: number, added: number[], waited: boolean] | null => {
      if (isDeleted(record[2])) return null;
      const [seq, isNew] = keep(record, usageAt, parts);
      const items = record[9];
      const added: number[] = [];
      for (const branch of branches) {
        const { changes } = pending.run(branch, seq, items, bytes, record[7]);
        if (!isNew && changes > 0) added.push(branch);
      }
      if (answer !== null) remember.run(...answer);
      return isNew ? seq : [seq, added, added.length < branches.length];
    },
    'queue.remember': (answer: AnswerRecord): void => {
      if (!isDeleted(answer[6])) remember.run(...answer);
    },
  };
}

/**
 * Returns a function that stores a batch and its usage, unless it is here already, and gives its number.
 * Numbers are counted here and not by SQLite, which would give the number of a deleted last row again.
 */
export function keepBatch(
  db: DatabaseSync,
): (
  record: BatchRecord,
  usageAt: number,
  parts: WrittenParts | null,
) => readonly [seq: number, isNew: boolean, isCounted: boolean] {
  const insert = db.prepare(
    `INSERT INTO raw_batches (seq, crc, ${RECORD_COLUMNS})
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const count = ledgerEntry(db);
  const find = db.prepare('SELECT seq FROM raw_batches WHERE id = ?');
  const counter = sequence(db);
  const claim = partClaim(db);
  return (record, usageAt, parts) => {
    const seq = counter.next();
    const { changes } = insert.run(seq, parts?.[1] ?? crc32(record[14]), ...record);
    if (changes > 0 && parts !== null) claim(seq, parts[0]);
    if (changes === 0) return [Number(find.get(record[0])?.seq), false, false];
    const [id, organization, project, key] = record;
    const entry: LedgerRow = [id, organization, project, key, usageAt, record[10], record[11]];
    return [seq, true, count(entry)];
  };
}

/** One counter a connection: several modules of operations may keep batches in the same file. */
const sequences = new WeakMap<DatabaseSync, { next(): number }>();

function sequence(db: DatabaseSync): { next(): number } {
  const known = sequences.get(db);
  if (known !== undefined) return known;
  const last = db.prepare('SELECT coalesce(max(seq), 0) AS last FROM raw_batches').get()?.last;
  let seq = Number(last);
  const counter = { next: () => ++seq };
  sequences.set(db, counter);
  return counter;
}

function endingCalls(db: DatabaseSync, keepsBodies: boolean): Operations['calls'] {
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const nack = db.prepare(
    'UPDATE queue_pending SET attempts = ?, due = ? WHERE branch = ? AND seq = ?',
  );
  const isPending = db.prepare('SELECT 1 FROM queue_pending WHERE branch = ? AND seq = ?');
  const branchIds = db.prepare('SELECT id FROM queue_branches');
  branchIds.setReturnArrays(true);
  const isDead = db.prepare('SELECT 1 FROM dead_letters WHERE seq = ? LIMIT 1');
  const deleteBody = db.prepare('DELETE FROM raw_batches WHERE seq = ?');
  const removeParts = partRemoval(db);
  /** Entries beside damage: their bodies stay where they are, as those of quarantined ones do. */
  const beside = new Set<number>();

  const waits = (branches: readonly number[], seq: number): boolean =>
    branches.some((branch) => isPending.get(branch, seq) !== undefined);

  /** In a directory of its own a body goes when nothing needs it; in a store it stays until retention. */
  const release = (seq: number): void => {
    if (keepsBodies || beside.has(seq) || isDead.get(seq) !== undefined) return;
    const all = (branchIds.all() as unknown as [number][]).map(([id]) => id);
    if (waits(all, seq)) return;
    removeParts(seq);
    deleteBody.run(seq);
  };

  return {
    /** Returns those that wait in none of the queue's branches any more. */
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
          if (changes === 0 || waits(branches, seq)) continue;
          free.push(seq);
          release(seq);
        }
      } catch (error) {
        // Nothing of a transaction that met damage can be kept; the next one passes it by.
        if (isDamage(errcodeOf(error))) for (const seq of seqs) beside.add(seq);
        throw error;
      }
      return free;
    },
    'queue.nack': (branch: number, seq: number, attempts: number, due: number): void => {
      nack.run(attempts, due, branch, seq);
    },
    ...deadLetterCalls(db, waits, release),
    'queue.quarantine': quarantineCall(db),
  };
}

function deadLetterCalls(
  db: DatabaseSync,
  waits: (branches: readonly number[], seq: number) => boolean,
  release: (seq: number) => void,
): Operations['calls'] {
  const bury = db.prepare(
    `INSERT INTO dead_letters (branch, seq, items, bytes, code, message, failed_at)
     SELECT branch, seq, ?, bytes, ?, ?, ? FROM queue_pending WHERE branch = ? AND seq = ?`,
  );
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const letter = db.prepare('SELECT branch, seq, items FROM dead_letters WHERE id = ?');
  letter.setReturnArrays(true);
  const revive = db.prepare(
    `INSERT OR IGNORE INTO queue_pending
     SELECT d.branch, d.seq, d.items, d.bytes, r.received_at, 0, 0
     FROM dead_letters d JOIN raw_batches r USING (seq) WHERE d.id = ?
     RETURNING branch, seq, items, bytes, received_at, attempts, due`,
  );
  revive.setReturnArrays(true);
  const remove = db.prepare('DELETE FROM dead_letters WHERE id = ?');

  return {
    /** Returns whether it waits in none of the queue's branches any more; null where it is not here. */
    'queue.deadLetter': (
      branches: readonly number[],
      branch: number,
      seq: number,
      code: string,
      message: string,
      failedAt: number,
      items: number,
    ): boolean | null => {
      if (bury.run(items, code, message, failedAt, branch, seq).changes === 0) return null;
      unpend.run(branch, seq);
      return !waits(branches, seq);
    },
    /** Returns the entries that wait again, and per letter whether its body waited nowhere before. */
    'queue.replay': (
      branches: readonly number[],
      ids: readonly number[] | 'all',
    ): [ReplayedRow, wasFree: boolean][] => {
      const replayed: [ReplayedRow, boolean][] = [];
      for (const id of lettersOf(db, branches, ids)) {
        const found = letter.get(id) as unknown as [number, number, number] | undefined;
        if (found === undefined) continue;
        const wasFree = !waits(branches, found[1]);
        const row = revive.get(id) as unknown as ReplayedRow | undefined;
        if (row === undefined) continue;
        remove.run(id);
        replayed.push([row, wasFree]);
      }
      return replayed;
    },
    /** Returns how many, and their items. */
    'queue.drop': (
      branches: readonly number[],
      ids: readonly number[] | 'all',
    ): [count: number, items: number] => {
      let count = 0;
      let items = 0;
      for (const id of lettersOf(db, branches, ids)) {
        const found = letter.get(id) as unknown as [number, number, number] | undefined;
        if (found === undefined) continue;
        remove.run(id);
        release(found[1]);
        count++;
        items += found[2];
      }
      return [count, items];
    },
  };
}

/** Ids of dead letters, as far as they belong to the queue's branches. */
function lettersOf(
  db: DatabaseSync,
  branches: readonly number[],
  ids: readonly number[] | 'all',
): number[] {
  const all = db.prepare(
    'SELECT id FROM dead_letters WHERE branch IN (SELECT value FROM json_each(?)) ORDER BY id',
  );
  all.setReturnArrays(true);
  const known = (all.all(JSON.stringify(branches)) as unknown as [number][]).map(([id]) => id);
  if (ids === 'all') return known;
  const wanted = new Set(ids);
  return known.filter((id) => wanted.has(id));
}

/** Takes a damaged entry out of every branch; its row stays where it is, for whoever can read it. */
function quarantineCall(db: DatabaseSync): Operations['calls'][string] {
  const find = db.prepare(
    `SELECT p.branch, p.items, p.bytes FROM queue_pending p JOIN queue_branches b ON b.id = p.branch
     WHERE b.queue = ? AND p.seq = ?`,
  );
  find.setReturnArrays(true);
  const unpend = db.prepare('DELETE FROM queue_pending WHERE branch = ? AND seq = ?');
  const note = db.prepare('INSERT OR REPLACE INTO quarantined VALUES (?, ?, ?, ?)');
  return (
    queue: string,
    seq: number,
    reason: string,
    foundAt: number,
  ): [branch: number, items: number, bytes: number][] => {
    const rows = find.all(queue, seq) as unknown as [number, number, number][];
    for (const [branch] of rows) unpend.run(branch, seq);
    // Where it waits no more, somebody took it away meanwhile: that is no damage.
    if (rows.length > 0) note.run(queue, seq, reason, foundAt);
    return rows;
  };
}

/** Answers that one step forgets. */
const TIDY_ROWS = 500;

function tidyingCalls(db: DatabaseSync): Operations['calls'] {
  const addBranch = db.prepare(
    'INSERT OR IGNORE INTO queue_branches (queue, branch) VALUES (?, ?)',
  );
  const expire = db.prepare(
    `DELETE FROM idempotency WHERE hash IN (
       SELECT hash FROM idempotency WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`,
  );
  return {
    'queue.open': (queue: string, branches: readonly string[]): QueueState => {
      for (const branch of branches) addBranch.run(queue, branch);
      return stateOf(db, queue);
    },
    /** Forgets a bounded number of answers that have expired; returns whether there may be more. */
    'queue.tidy': (now: number): boolean =>
      Number(expire.run(now, TIDY_ROWS).changes) === TIDY_ROWS,
  };
}

function stateOf(db: DatabaseSync, queue: string): QueueState {
  const branches = db.prepare(
    `SELECT b.branch, b.id, count(p.seq), coalesce(sum(p.items), 0)
     FROM queue_branches b LEFT JOIN queue_pending p ON p.branch = b.id
     WHERE b.queue = ? GROUP BY b.id ORDER BY b.id`,
  );
  branches.setReturnArrays(true);
  const bytes = db
    .prepare(
      `SELECT coalesce(sum(bytes), 0) AS bytes FROM (
         SELECT max(p.bytes) AS bytes FROM queue_pending p JOIN queue_branches b ON b.id = p.branch
         WHERE b.queue = ? GROUP BY p.seq)`,
    )
    .get(queue);
  const dead = db
    .prepare(
      `SELECT count(*) AS letters, coalesce(sum(d.items), 0) AS items
       FROM dead_letters d JOIN queue_branches b ON b.id = d.branch WHERE b.queue = ?`,
    )
    .get(queue);
  const bad = db.prepare('SELECT count(*) AS count FROM quarantined WHERE queue = ?').get(queue);
  const last = db.prepare('SELECT coalesce(max(seq), 0) AS seq FROM raw_batches').get();
  return {
    branches: branches.all(queue) as unknown as BranchState[],
    bytes: Number(bytes?.bytes),
    deadLetters: Number(dead?.letters),
    deadLetterItems: Number(dead?.items),
    quarantined: Number(bad?.count),
    lastSeq: Number(last?.seq),
  };
}

/** A body as it was read: its record, or why it cannot be used. */
export type ReadBody = { readonly record: BatchRecord } | { readonly damage: string };

function readingCalls(db: DatabaseSync): Operations['calls'] {
  const page = db.prepare(
    `SELECT seq, items, bytes, received_at, attempts, due FROM queue_pending
     WHERE branch = ? AND seq > ? ORDER BY seq LIMIT ?`,
  );
  page.setReturnArrays(true);
  const answer = db.prepare(
    'SELECT request_hash, status, content_type, body, expires_at FROM idempotency WHERE hash = ?',
  );
  answer.setReturnArrays(true);
  const body = bodyReader(db);
  return {
    'queue.page': (branch: number, after: number, limit: number) => page.all(branch, after, limit),
    'queue.bodies': (seqs: readonly number[]): [BatchRecord | null, damage: string | null][] =>
      seqs.map((seq) => {
        const read = body(seq);
        return 'record' in read ? [read.record, null] : [null, read.damage];
      }),
    'queue.check': checkCall(db, body),
    'queue.answer': (hash: Uint8Array) => answer.get(hash) ?? null,
    'queue.deadLetters': deadLettersCall(db),
  };
}

function deadLettersCall(db: DatabaseSync): Operations['calls'][string] {
  const letters = db.prepare(
    `SELECT d.id, b.branch, coalesce(r.id, ''), coalesce(r.project, ''), d.items, d.bytes, d.code,
       d.message, d.failed_at
     FROM dead_letters d JOIN queue_branches b ON b.id = d.branch LEFT JOIN raw_batches r USING (seq)
     WHERE b.queue = ?1 AND d.id > ?2 AND (?3 IS NULL OR b.branch = ?3) ORDER BY d.id LIMIT ?4`,
  );
  letters.setReturnArrays(true);
  return (queue: string, after: number, branch: string | null, limit: number) =>
    letters.all(queue, after, branch, limit) as unknown as DeadLetterRow[];
}

export function bodyReader(db: DatabaseSync): (seq: number) => ReadBody {
  const find = db.prepare(`SELECT crc, ${RECORD_COLUMNS} FROM raw_batches WHERE seq = ?`);
  find.setReturnArrays(true);
  const inParts = partReader(db);
  return (seq) => {
    try {
      const row = find.get(seq) as unknown as [number, ...BatchRecord] | undefined;
      if (row === undefined) return { damage: 'its body is missing' };
      const [crc, ...stored] = row;
      const body = stored[14].byteLength === 0 ? inParts(seq) : undefined;
      const record = body === undefined ? stored : withBody(stored, body);
      if (crc32(record[14]) !== crc) return { damage: 'its checksum does not fit' };
      batchOf(record);
      return { record };
    } catch (error) {
      // A reading that failed for another reason (no memory, the disk) may succeed the next time.
      const errcode = errcodeOf(error);
      if (errcode !== undefined && !isDamage(errcode)) throw error;
      return { damage: error instanceof Error ? error.message : String(error) };
    }
  };
}

function withBody(record: BatchRecord, body: Uint8Array): BatchRecord {
  return record.with(14, body) as unknown as BatchRecord;
}

/** Checks one page of entries; returns how many it looked at, the last of them, and the damaged ones. */
function checkCall(db: DatabaseSync, body: (seq: number) => ReadBody): Operations['calls'][string] {
  const page: StatementSync = db.prepare(
    `SELECT DISTINCT p.seq FROM queue_pending p JOIN queue_branches b ON b.id = p.branch
     WHERE b.queue = ? AND p.seq > ? ORDER BY p.seq LIMIT ?`,
  );
  page.setReturnArrays(true);
  return (queue: string, after: number, limit: number): [number, number, [number, string][]] => {
    const seqs = (page.all(queue, after, limit) as unknown as [number][]).map(([seq]) => seq);
    const damaged: [number, string][] = [];
    for (const seq of seqs) {
      const read = body(seq);
      if ('damage' in read) damaged.push([seq, read.damage]);
    }
    return [seqs.length, seqs.at(-1) ?? after, damaged];
  };
}
