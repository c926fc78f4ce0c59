/**
 * The usage ledger, in the database thread:
 *
 *   accepting transaction ──▶ usage_ledger, a row a batch ──(past hours)──▶ usage_hours, a row a key
 *
 * Usage is the sum of both. It outlives projects and keys.
 */

import type { DatabaseSync } from 'node:sqlite';
import { HOUR_MS } from '../../model/usage-window.ts';
import type { HourUsage } from '../../tenancy/ledger-totals.ts';
import { finds, rows } from '../rows.ts';

/** Ledger rows that one step sums up. */
const ROLL_UP_ROWS = 500;
/**
 * The time that a row stays if its batch is not in the store: the batch may still arrive by another way, and must
 * not count twice.
 */
const UNSEEN_HOURS = 7 * 24;

/** An entry of the ledger: what a batch counts. */
export type LedgerRow = {
  readonly batchId: string;
  readonly organization: string;
  readonly project: string;
  readonly key: string;
  readonly at: number;
  readonly events: number;
  readonly bytes: number;
};

/** The usage of a project in a month, and in one hour of it. */
export type UsageSum = {
  readonly organization: string;
  readonly project: string;
  readonly events: number;
  readonly bytesOfHour: number;
};

/** The newest hour in which an organization used something. */
export type NewestHour = { readonly organization: string; readonly hour: number };

/** Returns a function that writes an entry, unless the batch has one. It returns false if it has; a batch without usage needs none. */
export function ledgerEntry(db: DatabaseSync): (row: LedgerRow) => boolean {
  const insert = db.prepare('INSERT OR IGNORE INTO usage_ledger VALUES (?, ?, ?, ?, ?, ?, ?, ?)');
  return ({ batchId, organization, project, key, at, events, bytes }) => {
    if (events === 0 && bytes === 0) return true;
    const hour = Math.floor(at / HOUR_MS);
    return insert.run(batchId, organization, project, key, at, hour, events, bytes).changes > 0;
  };
}

export function usageOperations(db: DatabaseSync, keepsBodies: boolean) {
  const count = ledgerEntry(db);
  return {
    'usage.record': (entries: readonly LedgerRow[]): void => {
      for (const entry of entries) count(entry);
    },
    'usage.rollUp': rollUp(db, keepsBodies),
  };
}

/** Sums up one step of past hours; returns where the next step begins, null at the end. */
function rollUp(
  db: DatabaseSync,
  keepsBodies: boolean,
): (after: string, now: number) => string | null {
  const page = rows<{ batchId: string; hour: number }>(
    db,
    `SELECT batch_id AS batchId, hour FROM usage_ledger
     WHERE batch_id > ? ORDER BY batch_id LIMIT ${ROLL_UP_ROWS}`,
  );
  const isStored = finds(db, 'SELECT 1 FROM raw_batches WHERE id = ?');
  const add = db.prepare(
    `INSERT INTO usage_hours
     SELECT organization, project, key, hour, events, bytes FROM usage_ledger WHERE batch_id = ?
     ON CONFLICT DO UPDATE SET events = events + excluded.events, bytes = bytes + excluded.bytes`,
  );
  const remove = db.prepare('DELETE FROM usage_ledger WHERE batch_id = ?');
  return (after, now) => {
    const current = Math.floor(now / HOUR_MS);
    const entries = page.all(after);
    for (const { batchId, hour } of entries) {
      if (hour >= current - 1) continue;
      if (keepsBodies && hour > current - UNSEEN_HOURS && !isStored(batchId)) continue;
      add.run(batchId);
      remove.run(batchId);
    }
    return entries.length < ROLL_UP_ROWS ? null : (entries.at(-1)?.batchId ?? null);
  };
}

/** Sums of a bounded number of rows, and where the next page begins; null at the end. */
export type UsagePage = {
  readonly count: number;
  readonly sums: readonly HourUsage[];
  readonly next: UsagePlace | null;
};

/** The place of a row of `usage_ledger`, or of `usage_hours`. */
export type UsagePlace =
  | { readonly batchId: string }
  | Pick<HourUsage, 'organization' | 'project' | 'key' | 'hour'>;

/** All usage, summed up or not. */
export const ALL_USAGE = `(
  SELECT organization, project, key, hour, events, bytes FROM usage_hours
  UNION ALL SELECT organization, project, key, hour, events, bytes FROM usage_ledger)`;

export function usageReadOperations(db: DatabaseSync) {
  const sums = rows<UsageSum>(
    db,
    `SELECT organization, project, sum(events) AS events,
       sum(CASE WHEN hour = ?3 THEN bytes ELSE 0 END) AS bytesOfHour
     FROM ${ALL_USAGE} WHERE hour >= ?1 AND hour < ?2 GROUP BY organization, project`,
  );
  const ledgerPage = rows<HourUsage & { batchId: string }>(
    db,
    `SELECT batch_id AS batchId, organization, project, key, hour, events, bytes FROM usage_ledger
     WHERE batch_id > ? ORDER BY batch_id LIMIT ?`,
  );
  const hoursPage = rows<HourUsage>(
    db,
    `SELECT organization, project, key, hour, events, bytes FROM usage_hours
     WHERE (organization, project, key, hour) > (?, ?, ?, ?)
     ORDER BY organization, project, key, hour LIMIT ?`,
  );
  const newest = rows<NewestHour>(
    db,
    `SELECT organization, max(hour) AS hour FROM ${ALL_USAGE}
     WHERE hour >= ? AND hour <= ? GROUP BY organization`,
  );
  return {
    /** The events of the hours from `from`, below `to`; the bytes of `hour`. */
    'usage.sums': (from: number, to: number, hour: number): UsageSum[] => sums.all(from, to, hour),
    /** `usage_ledger` from the beginning, then `usage_hours`. */
    'usage.page': (after: UsagePlace, step: number): UsagePage => {
      if ('batchId' in after) {
        const found = ledgerPage.all(after.batchId, step);
        const last = found.length < step ? undefined : found.at(-1);
        const next = last === undefined ? FIRST_HOUR : { batchId: last.batchId };
        return { count: found.length, sums: sumsOf(found), next };
      }
      const { organization, project, key, hour } = after;
      const found = hoursPage.all(organization, project, key, hour, step);
      return {
        count: found.length,
        sums: found,
        next: found.length < step ? null : (found.at(-1) ?? null),
      };
    },
    'usage.newest': (from: number, to: number): NewestHour[] => newest.all(from, to),
  };
}

const FIRST_HOUR: UsagePlace = { organization: '', project: '', key: '', hour: 0 };

function sumsOf(found: readonly HourUsage[]): HourUsage[] {
  const sums = new Map<string, { -readonly [Field in keyof HourUsage]: HourUsage[Field] }>();
  for (const { organization, project, key, hour, events, bytes } of found) {
    const name = JSON.stringify([organization, project, key, hour]);
    const sum = sums.get(name);
    if (sum === undefined) {
      sums.set(name, { organization, project, key, hour, events, bytes });
    } else {
      sum.events += events;
      sum.bytes += bytes;
    }
  }
  return [...sums.values()];
}
