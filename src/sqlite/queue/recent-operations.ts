/**
 * The log of requests without an `Idempotency-Key`, in the database thread. An append adds a row in the transaction of its
 * batch, and the rows outlive the batches: a queue removes the body of a delivered batch. `RecentRequests` finds a row.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { BatchRecord } from '../../queue/record.ts';
import { RECORD } from '../../queue/record.ts';
import { rows } from '../rows.ts';
import { fingerprintOf } from './recent-index.ts';
import type { WalkedPage } from './removal-operations.ts';

/** Expired rows that one step removes. */
const EXPIRE_ROWS = 1000;
/** Rows that one step of a walk reads. */
const WALK_ROWS = 2000;
/** Rows that one step of a start reads. */
const LOAD_ROWS = 20_000;

/** A request as the log keeps it; the last three are null if all items were accepted. */
export type RecentRow = readonly [
  tag: string,
  expiresAt: number,
  status: number | null,
  contentType: string | null,
  body: Uint8Array | null,
];

/** The answer to a request in the log. */
export type RecentAnswer = {
  readonly batch: string;
  readonly status: number | null;
  readonly contentType: string | null;
  readonly body: Uint8Array | null;
};

/** Fingerprint, sequence number and end of each of some requests, one behind the other. */
export type RecentPage = {
  readonly entries: Float64Array;
  /** Where the next page begins; null at the end. */
  readonly next: number | null;
};

/** Returns a function that logs the request of a batch. */
export function recentRequestLog(
  db: DatabaseSync,
): (seq: number, row: RecentRow, record: BatchRecord) => void {
  const insert = db.prepare(
    'INSERT OR REPLACE INTO recent_requests VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  );
  return (seq, [tag, expiresAt, ...answer], record) => {
    insert.run(seq, tag, expiresAt, record[RECORD.PROJECT], record[RECORD.ID], ...answer);
  };
}

export function recentOperations(db: DatabaseSync) {
  const oldest = rows<{ seq: number; expiresAt: number }>(
    db,
    'SELECT seq, expires_at AS expiresAt FROM recent_requests ORDER BY seq LIMIT ?',
  );
  const removeUpTo = db.prepare('DELETE FROM recent_requests WHERE seq <= ?');
  const remove = db.prepare('DELETE FROM recent_requests WHERE seq = ?');
  return {
    /** Removes some expired rows from the head of the log; returns whether there may be more. */
    'recent.expire': (now: number): boolean => {
      const head = oldest.all(EXPIRE_ROWS);
      const kept = head.findIndex(({ expiresAt }) => expiresAt > now);
      const expired = kept === -1 ? head : head.slice(0, kept);
      const last = expired.at(-1);
      if (last !== undefined) removeUpTo.run(last.seq);
      return expired.length === EXPIRE_ROWS;
    },
    'recent.remove': (seqs: readonly number[]): void => {
      for (const seq of seqs) remove.run(seq);
    },
  };
}

export function recentReadOperations(db: DatabaseSync) {
  const find = rows<RecentAnswer>(
    db,
    `SELECT batch, status, content_type AS contentType, body FROM recent_requests
     WHERE seq = ? AND tag = ? AND expires_at > ?
       AND NOT EXISTS (SELECT 1 FROM deleted_projects d WHERE d.project = recent_requests.project)`,
  );
  const page = rows<{ seq: number; tag: string; expiresAt: number }>(
    db,
    `SELECT seq, tag, expires_at AS expiresAt FROM recent_requests
     WHERE seq > ? ORDER BY seq LIMIT ${LOAD_ROWS}`,
  );
  const walk = rows<{ seq: number; project: string }>(
    db,
    `SELECT seq, project FROM recent_requests WHERE seq > ? ORDER BY seq LIMIT ${WALK_ROWS}`,
  );
  return {
    /** The answer of the row, if it has the tag and has not expired. */
    'recent.answer': (seq: number, tag: string, now: number): RecentAnswer | null =>
      find.get(seq, tag, now) ?? null,
    /** One step over the requests that have not expired, in their order. */
    'recent.page': (after: number, now: number): RecentPage => {
      const found = page.all(after);
      const valid = found.filter(({ expiresAt }) => expiresAt > now);
      const entries = valid.flatMap(({ seq, tag, expiresAt }) => [
        fingerprintOf(tag),
        seq,
        expiresAt,
      ]);
      const next = found.length < LOAD_ROWS ? null : (found.at(-1)?.seq ?? null);
      return { entries: new Float64Array(entries), next };
    },
    /** One step over all requests; finds the numbers of those of the project. */
    'recent.ofProject': (project: string, after: number): WalkedPage<number, number> => {
      const all = walk.all(after);
      const found = all.filter((row) => row.project === project).map(({ seq }) => seq);
      return { found, next: all.length < WALK_ROWS ? null : (all.at(-1)?.seq ?? null) };
    },
  };
}
