import { HOUR_MS, monthStart } from '../../../src/model/usage-window.ts';
import type { HourUsage } from '../../../src/tenancy/ledger-totals.ts';
import { LedgerTotals } from '../../../src/tenancy/ledger-totals.ts';
import type { LedgerCheck, VerifyProgress } from '../../../src/tenancy/rows.ts';
import type { Difference } from '../../../src/tenancy/usage.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import type { PostgresClient } from '../connection/statement.ts';
import { row, rows } from '../connection/statement.ts';
import { withText } from './stored-text.ts';

/**
 * Sums of the whole ledger, page by page in one snapshot: each statement is short, and the sums are those of one
 * moment however long it takes. Nothing waits for the snapshot.
 */

/** Rows that one statement adds up. */
const STEP = 20_000;

type Reader = {
  readonly client: PostgresClient;
  readonly step: number;
  readonly progress: VerifyProgress;
};

/** A table to read in the order of an index, whose columns are the place of a row. */
type Source = {
  readonly from: string;
  readonly place: readonly string[];
  readonly first: readonly (string | number)[];
  /** The columns that the sums are grouped by. */
  readonly by: readonly string[];
  readonly events: string;
  readonly bytes: string;
};

const USAGE = { by: ['project', 'key'], events: 'events', bytes: 'bytes' };
const BATCHES: Source = {
  ...{ from: 'batches WHERE', place: ['id'], first: [''] },
  ...{ by: ['project', 'key'], events: 'usage_events', bytes: 'usage_bytes' },
};
/** Rows that are not part of `usage_hours` yet. */
const LEDGER: Source = {
  ...USAGE,
  ...{ from: 'usage_ledger WHERE (events > 0 OR bytes > 0) AND' },
  ...{ place: ['hour', 'batch_id'], first: [0, ''] },
};
const HOURS: Source = {
  ...USAGE,
  ...{ from: 'usage_hours WHERE' },
  ...{ place: ['organization', 'project', 'key', 'hour'], first: ['', '', '', 0] },
};
const RESERVATIONS: Source = {
  ...USAGE,
  ...{ from: 'usage_reservations WHERE', place: ['batch_id'], first: [''] },
};

/** See `TenancyRows`. */
export async function ledgerChecks(
  postgres: Postgres,
  progress: VerifyProgress,
  step = STEP,
): Promise<readonly LedgerCheck[]> {
  return inSnapshot(postgres, async (client) => {
    const reader = { client, step, progress };
    const totals = new LedgerTotals();
    await readAll(reader, BATCHES, (sum) => totals.addBatches(sum));
    for (const source of [LEDGER, HOURS]) {
      await readAll(reader, source, (sum) => totals.addLedger(sum));
    }
    return totals.checks().map(withText);
  });
}

type Window = {
  readonly organization: string;
  /** Empty for the organization's own window. */
  readonly project: string;
  readonly month: number;
  readonly hour: number;
  readonly events: number;
  readonly bytes: number;
};

/** Compares the windows with the ledger and the reservations that they sum up. Without Redis only. */
export async function windowDifferences(
  postgres: Postgres,
  progress: VerifyProgress,
  step = STEP,
): Promise<Difference[]> {
  return inSnapshot(postgres, async (client) => {
    const windows = await rows<Window>(
      client,
      'SELECT organization, project, month, hour, events, bytes FROM usage_windows',
    );
    const counted = new Map(
      windows.map((window) => [nameOf(window), { window, events: 0, bytes: 0 }]),
    );
    const count = (sum: HourUsage): void => {
      for (const project of ['', sum.project]) {
        const found = counted.get(nameOf({ ...sum, project }));
        if (found === undefined || !isInMonth(sum.hour, found.window)) continue;
        found.events += sum.events;
        if (sum.hour === found.window.hour) found.bytes += sum.bytes;
      }
    };
    const by = ['organization', 'project', 'hour'];
    const sources = windows.length === 0 ? [] : [LEDGER, HOURS, RESERVATIONS];
    for (const source of sources) {
      await readAll({ client, step, progress }, { ...source, by }, count);
    }
    return [...counted.values()].flatMap(({ window, events, bytes }) => {
      const of = window.project === '' ? 'the organization' : window.project;
      return [
        { what: `events of ${of}`, expected: events, found: window.events },
        { what: `bytes of ${of}`, expected: bytes, found: window.bytes },
      ].filter(({ expected, found }) => expected !== found);
    });
  });
}

/** The first hour of a month stands for it. */
function isInMonth(hour: number, { month }: Window): boolean {
  return hour >= month && hour < monthStart(month * HOUR_MS, 1) / HOUR_MS;
}

function nameOf({ organization, project }: Pick<Window, 'organization' | 'project'>): string {
  return JSON.stringify([organization, project]);
}

function inSnapshot<T>(
  postgres: Postgres,
  work: (client: PostgresTransaction) => Promise<T>,
): Promise<T> {
  return postgres.transaction(async (client) => {
    await client.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY');
    return work(client);
  });
}

type Page = {
  readonly count: number;
  /** Null without a row. */
  readonly sums: readonly HourUsage[] | null;
  readonly last: readonly (string | number)[] | null;
};

const NO_ROWS: Page = { count: 0, sums: null, last: null };

async function readAll(
  { client, step, progress }: Reader,
  source: Source,
  add: (sum: HourUsage) => void,
): Promise<void> {
  const text = pageOf(source);
  let after: readonly (string | number)[] | null = source.first;
  while (after !== null) {
    const page: Page = (await row<Page>(client, text, [...after, step])) ?? NO_ROWS;
    for (const sum of page.sums ?? []) add(sum);
    progress(page.count);
    after = page.count < step ? null : page.last;
  }
}

/** The statement for the page of rows after a place. Parameters: the place, the number of rows. */
function pageOf({ from, place, by, events, bytes }: Source): string {
  const places = place.join(', ');
  const columns = [...new Set([...place, ...by])].join(', ');
  const parameters = place.map((_, i) => `$${i + 1}`).join(', ');
  return `
    WITH page AS MATERIALIZED (
      SELECT ${columns}, ${events} AS events, ${bytes} AS bytes
      FROM ${from} (${places}) > (${parameters}) ORDER BY ${places} LIMIT $${place.length + 1}
    ), sums AS (
      SELECT ${by.join(', ')}, sum(events) AS events, sum(bytes) AS bytes FROM page
      GROUP BY ${by.join(', ')}
    )
    SELECT (SELECT count(*) FROM page) AS count, (SELECT json_agg(sums) FROM sums) AS sums,
      (SELECT json_build_array(${places}) FROM page
       ORDER BY ${place.map((column) => `${column} DESC`).join(', ')} LIMIT 1) AS last`;
}
