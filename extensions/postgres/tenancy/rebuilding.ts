import { RetryableError } from '../../../src/model/errors.ts';
import { holdOffAccepting } from '../batches/accept-lock.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import { sumNew } from './ledger-sums.ts';

/** Runs `work` in a transaction while no transaction accepts data and `usage_hours` has the whole ledger. */
export type Rebuilding = <T>(work: (client: PostgresTransaction) => Promise<T>) => Promise<T>;

/** The wait for transactions that accept data. Further ones wait behind it. */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * For sums of the ledger that must be complete. The ledger is summed up before it is held still, so that little is left
 * then however much was entered, and a call that fails leaves less for the next one. `work` reads `usage_hours`: with the
 * statistics of a table that has just changed, Postgres would look for the rows that are not summed up in all of them.
 * After transactions that took
 * longer than the wait, the next call waits twice as long, so that one of the calls succeeds.
 */
export function rebuilding(postgres: Postgres): Rebuilding {
  let waitMs = FIRST_WAIT_MS;
  return async (work) => {
    await sumNew(postgres);
    // The second pass removes the entries of the first one from the index (LP_DEAD), and so the third one is short.
    await sumNew(postgres);
    try {
      const result = await postgres.transaction(async (client) => {
        await holdOffAccepting(client, waitMs);
        await sumNew(client, undefined, true);
        return work(client);
      });
      waitMs = FIRST_WAIT_MS;
      return result;
    } catch (error) {
      if (error instanceof RetryableError && error.code === 'statement_timeout') {
        waitMs = Math.min(LONGEST_WAIT_MS, 2 * waitMs);
      }
      throw error;
    }
  };
}
