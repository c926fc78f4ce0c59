import { capability } from '../component/capability.ts';
import type { Reservation } from './contract.ts';

/**
 * The usage ledger of a store that several processes write to, for counters that are kept elsewhere. The
 * counters are a fast copy of it; when they are lost, a new epoch is begun and they are summed up again.
 * All methods reject with `RetryableError` when the store cannot be reached.
 */
export type SharedLedger = {
  /** The newest epoch; 0 before the first. */
  newestEpoch(organizationId: string): Promise<number>;
  /**
   * Begins a new epoch and sums up. From then on no transaction enters a batch that was reserved in an
   * older one (`LedgerUsage.epoch`), so that nothing is missing in the sums. Where another process began
   * one after `newest`, none is begun: undefined.
   */
  beginEpoch(organizationId: string, at: number, newest: number): Promise<LedgerSums | undefined>;
  /**
   * Decides what became of reservations that nobody settled. Resolves with those that the ledger holds;
   * the others can be entered never more.
   */
  decide(organizationId: string, batchIds: readonly string[]): Promise<ReadonlySet<string>>;
  /** Enters what was made durable elsewhere; entries it has already stay as they are. */
  record(entries: readonly LedgerEntry[]): Promise<void>;
};

export type LedgerSums = {
  /** Grows. */
  readonly epoch: number;
  /** Milliseconds since the epoch: `at`, or the start of the newest hour in the ledger if that is later. */
  readonly at: number;
  /** Of the month and the hour of `at`, by project, deleted ones included. */
  readonly projects: readonly {
    readonly projectId: string;
    readonly events: number;
    readonly bytes: number;
  }[];
};

export type LedgerEntry = Pick<Reservation, 'batchId' | 'tenant' | 'usage'> & {
  /** Milliseconds since the epoch at which it counts. */
  readonly at: number;
};

/** Offered by stores whose ledger several processes may write to. */
export const SHARED_LEDGER = capability<SharedLedger>('shared_ledger');
