import { HOUR_MS } from '../model/usage-window.ts';
import type { UsageRow, UsageStore } from './contract.ts';
import type { LedgerCheck, RejectedRow, TenancyRows, UsedRow, VerifyProgress } from './rows.ts';

type Range = { from: number; to: number; by: 'hour' | 'day'; projectId?: string };

/** The store sums whole periods up: the hours of a year are more rows than the event loop should hold. */
const PERIOD_HOURS = { hour: 1, day: 24 } as const;

/** A difference between a count and the ledger. */
export type Difference = { what: string; expected: number; found: number };

export function usageStore(
  rows: TenancyRows,
  verifyCounters: (progress: VerifyProgress) => Promise<Difference[]>,
  flushRejections: () => Promise<void>,
): UsageStore {
  async function history({ from, to, by, projectId }: Range): Promise<UsageRow[]> {
    await flushRejections();
    const hours = [Math.floor(from / HOUR_MS), Math.ceil(to / HOUR_MS), PERIOD_HOURS[by]] as const;
    const { used, rejected } = await rows.usedAndRejected(...hours, projectId ?? null);
    return rowsOf(used, rejected, by);
  }

  async function verify(report?: (rows: number) => void): Promise<Difference[]> {
    let checked = 0;
    const progress: VerifyProgress = (more) => {
      checked += more;
      report?.(checked);
    };
    const differences = await verifyCounters(progress);
    for (const check of await rows.ledgerChecks(progress))
      differences.push(...differencesIn(check));
    return differences;
  }

  return { history, verify };
}

function differencesIn(check: LedgerCheck): Difference[] {
  const { batchId, project, key, events, bytes, keptEvents, keptBytes } = check;
  const of =
    batchId === undefined
      ? `the ledger of ${project} ${key}, against its batches`
      : `the ledger of ${project} ${key}, in the row of batch ${batchId}`;
  // Retention removes batches but not usage, so a sum of the ledger may hold more than the batches, never less.
  const differs = (kept: number, found: number): boolean =>
    batchId === undefined ? kept > found : kept !== found;
  return [
    { what: `events in ${of}`, expected: keptEvents, found: events },
    { what: `bytes in ${of}`, expected: keptBytes, found: bytes },
  ].filter(({ expected, found }) => differs(expected, found));
}

type OpenRow = {
  period: string;
  projectId: string;
  keyId: string;
  events: number;
  bytes: number;
  rejected: Record<string, number>;
};

function rowsOf(
  used: readonly UsedRow[],
  rejected: readonly RejectedRow[],
  by: 'hour' | 'day',
): UsageRow[] {
  const rows = new Map<string, OpenRow>();
  const rowOf = (hour: number, projectId: string, keyId: string): OpenRow => {
    const period = new Date(hour * HOUR_MS).toISOString().slice(0, by === 'hour' ? 13 : 10);
    const name = `${period} ${projectId} ${keyId}`;
    let row = rows.get(name);
    if (row === undefined) {
      row = { period, projectId, keyId, events: 0, bytes: 0, rejected: {} };
      rows.set(name, row);
    }
    return row;
  };
  for (const { hour, project, key, events, bytes } of used) {
    const row = rowOf(hour, project, key);
    row.events += events;
    row.bytes += bytes;
  }
  for (const { hour, project, key, code, count } of rejected) {
    const row = rowOf(hour, project, key);
    row.rejected[code] = (row.rejected[code] ?? 0) + count;
  }
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}
