import { RetryableError } from '../../../src/model/errors.ts';
import { holdOffAccepting } from '../batches/accept-lock.ts';
import type { Postgres, PostgresTransaction } from '../connection/pool.ts';
import { sumNew } from './ledger-sums.ts';

/** Runs `work` in a transaction while no transaction accepts data. */
export type Rebuilding = <T>(work: (client: PostgresTransaction) => Promise<T>) => Promise<T>;

/** The wait for transactions that accept data. Further ones wait behind it. */
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/**
 * For sums of the ledger that must be complete. The ledger is summed up before it is held still, so `work` reads few
 * rows however many were entered, and a call that fails leaves less for the next one. After transactions that took
 * longer than the wait, the next call waits twice as long, so that one of the calls succeeds.
 */
export function rebuilding(postgres: Postgres): Rebuilding {
  let waitMs = FIRST_WAIT_MS;
  return async (work) => {
    await sumNew(postgres);
    try {
      const result = await postgres.transaction(async (client) => {
        await holdOffAccepting(client, waitMs);
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
