import type { HourUsage } from '../../tenancy/ledger-totals.ts';
import type { VerifyProgress } from '../../tenancy/rows.ts';
import type { Database } from '../database.ts';
import type { QueueOperations } from './operations.ts';
import type { UsagePage, UsagePlace } from './usage-operations.ts';

/** Rows that one call of the searching thread reads, so that listings run in between. */
export const VERIFY_STEP = 5_000;

const BEGINNING: UsagePlace = { batchId: '' };

/**
 * All usage of a file, page by page. The pages are read one after another, so no usage may move from the ledger to the
 * sums by hour until the last one (`UsageLedger.holdStill`).
 */
export async function readUsage(
  database: Pick<Database<QueueOperations>, 'search'>,
  step: number,
  progress: VerifyProgress,
  add: (sum: HourUsage) => void,
): Promise<void> {
  let after: UsagePlace | null = BEGINNING;
  while (after !== null) {
    const page: UsagePage = await database.search('usage.page', [after, step]);
    for (const sum of page.sums) add(sum);
    progress(page.count);
    after = page.next;
  }
}
