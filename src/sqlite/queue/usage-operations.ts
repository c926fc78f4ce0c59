/**
 * The usage ledger, in the database thread:
 *
 *   accepting transaction ──▶ usage_ledger, a row a batch ──(hours that are over)──▶ usage_hours, a row a key
 *
 * Usage is the sum of both. It stays when projects and keys go.
 */
import type { DatabaseSync } from 'node:sqlite';
import { HOUR_MS } from '../../model/usage-window.ts';
import type { Operations } from '../operation.ts';

export const USAGE_SCHEMA = `
  CREATE TABLE IF NOT EXISTS usage_ledger (
    batch_id TEXT PRIMARY KEY,
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    hour INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS usage_hours (
    organization TEXT NOT NULL,
    project TEXT NOT NULL,
    key TEXT NOT NULL,
    hour INTEGER NOT NULL,
    events INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (organization, project, key, hour)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS usage_hours_by_hour ON usage_hours (hour);
`;

/** Ledger rows that one step sums up. */
const ROLL_UP_ROWS = 500;
/** So long a row is kept whose batch may still come here by another way, lest it counts twice. */
const UNSEEN_HOURS = 7 * 24;

export type LedgerRow = readonly [
  batchId: string,
  organization: string,
  project: string,
  key: string,
  at: number,
  events: number,
  bytes: number,
];

/** What a project (or, summed up, an organization) used in the month and the hour that were asked for. */
export type UsageSum = readonly [
  organization: string,
  project: string,
  events: number,
  bytesOfHour: number,
];

/** Returns a function that writes an entry, unless the batch has one, and says whether it did. */
export function ledgerEntry(db: DatabaseSync): (row: LedgerRow) => boolean {
  const insert = db.prepare('INSERT OR IGNORE INTO usage_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
  return ([batchId, organization, project, key, at, events, bytes]) => {
    if (events === 0 && bytes === 0) return false;
    const hour = Math.floor(at / HOUR_MS);
    return insert.run(batchId, organization, project, key, at, hour, events, bytes).changes > 0;
  };
}

export function usageCalls(db: DatabaseSync, keepsBodies: boolean): Operations['calls'] {
  const count = ledgerEntry(db);
  return {
    'usage.record': (rows: readonly LedgerRow[]): void => {
      for (const row of rows) count(row);
    },
    'usage.rollUp': rollUpCall(db, keepsBodies),
  };
}

/** Sums up one step of hours that are over; returns where the next step begins, null at the end. */
function rollUpCall(db: DatabaseSync, keepsBodies: boolean): Operations['calls'][string] {
  const page = db.prepare(
    `SELECT batch_id, hour FROM usage_ledger WHERE batch_id > ? ORDER BY batch_id LIMIT ${ROLL_UP_ROWS}`,
  );
  page.setReturnArrays(true);
  const isStored = db.prepare('SELECT 1 FROM raw_batches WHERE id = ?');
  const add = db.prepare(
    `INSERT INTO usage_hours
     SELECT organization, project, key, hour, events, bytes FROM usage_ledger WHERE batch_id = ?
     ON CONFLICT DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes`,
  );
  const remove = db.prepare('DELETE FROM usage_ledger WHERE batch_id = ?');
  return (after: string, now: number): string | null => {
    const current = Math.floor(now / HOUR_MS);
    const rows = page.all(after) as unknown as [batchId: string, hour: number][];
    for (const [batchId, hour] of rows) {
      if (hour >= current - 1) continue;
      if (keepsBodies && hour > current - UNSEEN_HOURS && isStored.get(batchId) === undefined) {
        continue;
      }
      add.run(batchId);
      remove.run(batchId);
    }
    return rows.length < ROLL_UP_ROWS ? null : (rows.at(-1)?.[0] ?? null);
  };
}

/** Everything that was counted, whether summed up already or not. */
export const ALL_USAGE = `(
  SELECT organization, project, key, hour, events, bytes FROM usage_hours
  UNION ALL SELECT organization, project, key, hour, events, bytes FROM usage_ledger)`;

export function usageReadingCalls(db: DatabaseSync): Operations['calls'] {
  const sums = db.prepare(
    `SELECT organization, project, sum(events), sum(CASE WHEN hour = ?3 THEN bytes ELSE 0 END)
     FROM ${ALL_USAGE} WHERE hour >= ?1 AND hour < ?2 GROUP BY organization, project`,
  );
  sums.setReturnArrays(true);
  const newest = db.prepare(
    `SELECT organization, max(hour) FROM ${ALL_USAGE} WHERE hour >= ? AND hour <= ? GROUP BY organization`,
  );
  newest.setReturnArrays(true);
  return {
    /** Hours from `from`, below `to`; the bytes are those of `hour`. */
    'usage.sums': (from: number, to: number, hour: number): UsageSum[] =>
      sums.all(from, to, hour) as unknown as UsageSum[],
    'usage.newest': (from: number, to: number): [organization: string, hour: number][] =>
      newest.all(from, to) as unknown as [string, number][],
  };
}
