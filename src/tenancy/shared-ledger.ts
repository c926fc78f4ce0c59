import { capability } from '../component/capability.ts';
import type { Reservation } from './contract.ts';

/**
 * The usage ledger of a store that several processes share, for counters that live outside the store. The
 * counters are a cache of the ledger. When they are lost, a new epoch begins and they are rebuilt.
 * All methods reject with `RetryableError` when the store cannot be reached.
 */
export type SharedLedger = {
  /** The newest epoch; 0 before the first. */
  newestEpoch(organizationId: string): Promise<number>;
  /**
   * Begins a new epoch and sums the ledger up. From then on no transaction enters a batch that was reserved in
   * an older epoch, so that the sums are complete. Returns undefined, and begins no epoch, when another process
   * has begun one after `newest`.
   */
  beginEpoch(organizationId: string, at: number, newest: number): Promise<LedgerSums | undefined>;
  /**
   * Decides reservations that no process has settled. Resolves with those that the ledger holds; the others are
   * discarded, and a later transaction cannot enter them.
   */
  decide(organizationId: string, batchIds: readonly string[]): Promise<ReadonlySet<string>>;
  /**
   * Enters batches that another storage made durable. Existing entries stay unchanged. Resolves with the newest epoch for each batch
   * that its sums lack, because the entry came after them; without one whose entry is summed up already, which may have come after, too.
   */
  record(entries: readonly LedgerEntry[]): Promise<ReadonlyMap<string, number>>;
};

export type LedgerSums = {
  /** Increases with each epoch. */
  readonly epoch: number;
  /**
   * Milliseconds since the epoch: `at`, or the time of the store if that is earlier, or the start of the newest hour in the
   * ledger if that is later than both. An hour after the next one is left out.
   */
  readonly at: number;
  /** Sums of the month and hour of `at`, by project, including deleted projects. */
  readonly projects: readonly {
    readonly projectId: string;
    readonly events: number;
    readonly bytes: number;
  }[];
};

export type LedgerEntry = Pick<Reservation, 'batchId' | 'tenant' | 'usage'> & {
  /** The time at which the usage counts, in milliseconds since the epoch. */
  readonly at: number;
};

/** Stores with a ledger that several processes share offer it. */
export const SHARED_LEDGER = capability<SharedLedger>('shared_ledger');
