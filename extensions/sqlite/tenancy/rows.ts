import type { Database } from '../../../src/sqlite/database.ts';
import type { UsageLedger } from '../../../src/sqlite/queue/usage-ledger.ts';
import { readUsage, VERIFY_STEP } from '../../../src/sqlite/queue/usage-pages.ts';
import { LedgerTotals } from '../../../src/tenancy/ledger-totals.ts';
import type { LedgerCheck, TenancyRows, VerifyProgress } from '../../../src/tenancy/rows.ts';
import type { StoreOperations } from '../operations.ts';
import type { KeptPage } from './log-operations.ts';

/** Changes run in the writing thread, point reads in the reader, listings and sums in the searcher. */
export function sqliteRows(
  database: Database<StoreOperations>,
  usage: Pick<UsageLedger, 'holdStill'>,
): TenancyRows {
  const { write, read, search } = database;
  return {
    first: (...args) => write('store.first', args),
    organization: () => read('organization.get', []),
    updateOrganization: (...args) => write('organization.update', args),
    createProject: (...args) => write('projects.create', args),
    updateProject: (...args) => write('projects.update', args),
    deleteProject: (...args) => write('projects.delete', args),
    project: (...args) => read('projects.get', args),
    projects: () => read('projects.list', []),
    limitedProjects: () => read('projects.limited', []),
    retainedTraces: (...args) => search('projects.retained', args),
    openRemovals: () => read('removal.open', []),
    createKey: (...args) => write('keys.create', args),
    revokeKey: (...args) => write('keys.revoke', args),
    touchKeys: (...args) => write('keys.touch', args, { lazy: true }),
    keys: (...args) => read('keys.list', args),
    keyByHash: (...args) => read('keys.findByHash', args),
    activeKeyHashes: (among) =>
      among === undefined
        ? search('keys.activeHashes', [])
        : read('keys.activeHashesAmong', [among]),
    recordRejections: (projects, counts, most, isLast) =>
      write('rejections.record', [projects, counts, most], { lazy: !isLast }),
    rejections: (...args) => search('rejections.list', args),
    recordAudit: (...args) => write('audit.record', args),
    audit: (...args) => search('audit.list', args),
    usedAndRejected: (...args) => search('usage.history', args),
    ledgerChecks: (progress) => usage.holdStill(() => checksOf(database, progress)),
  };
}

/** Rows of the ledger that differ from their batches are named up to this number. */
const MOST_ALTERED = 100;

/** Batches first: the usage of each of them is in the ledger when the ledger is read. */
export async function checksOf(
  database: Pick<Database<StoreOperations>, 'search'>,
  progress: VerifyProgress,
  step = VERIFY_STEP,
): Promise<readonly LedgerCheck[]> {
  const totals = new LedgerTotals();
  const altered: LedgerCheck[] = [];
  let after: number | null = 0;
  while (after !== null) {
    const page: KeptPage = await database.search('usage.kept', [after, step]);
    for (const check of page.checks) totals.add(check);
    altered.push(...page.altered.slice(0, MOST_ALTERED - altered.length));
    progress(page.count);
    after = page.next;
  }
  await readUsage(database, step, progress, (sum) => totals.addLedger(sum));
  return [...totals.checks(), ...altered];
}
