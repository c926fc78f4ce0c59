import type { Database } from '../../../src/sqlite/database.ts';
import type { CostStore } from '../../../src/store/pricing.ts';
import type { StoreOperations } from '../operations.ts';
import type { RollupFolding } from './rollup-folding.ts';
import type { Summarizing } from './summarizing.ts';

/** The database thread has the pricing. */
export function sqliteCosts(
  database: Database<StoreOperations>,
  summaries: Pick<Summarizing, 'wake'>,
  rollups: Pick<RollupFolding, 'wake'>,
): CostStore {
  return {
    async usePricing(source) {
      await database.write('costs.usePricing', [source]);
      // An operation is synchronous, and loading a module is not: the thread loads it between two calls.
      while (!(await database.write('costs.hasLoaded', [])));
    },
    async priceAgain(range, after, isDryRun) {
      const step = await database.write('costs.priceAgain', [range, after, isDryRun]);
      if (step === null) return null;
      const { isSummarized, ...sum } = step;
      if (!isSummarized) summaries.wake();
      rollups.wake();
      return sum;
    },
  };
}
