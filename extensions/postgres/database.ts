import type { SealedBatch } from '../../src/model/batch.ts';
import type { ChangeFeed } from '../../src/store/changes.ts';
import type { StorePrices } from '../../src/store/pricing.ts';
import type { TermMetrics } from '../../src/store/term-metrics.ts';
import { findDeletedProjects, lockForAccept } from './batches/accept-lock.ts';
import { acceptBatches, storeDelivered } from './batches/accepting.ts';
import { readBatches } from './batches/batches.ts';
import type { Postgres, PostgresTransaction } from './connection/pool.ts';
import type { PostgresPools } from './connection/pools.ts';
import type { PostgresClient, Question } from './connection/statement.ts';
import type { UsageTimes } from './tenancy/usage.ts';

/**
 * The database as the queues (queue/) and the traces (traces/) use it: connections, the raw batches that both keep
 * rows about, and the lock that holds off deletions while a transaction accepts data. `query` and `transaction`
 * have the time-out of deliveries, `transactionWithDeadline` has that of accepting.
 */
export type StoreDatabase = PostgresClient &
  Pick<Postgres, 'transaction' | 'transactionWithDeadline' | 'queryIf' | 'onTakeover'> & {
    /** For merged observations. */
    readonly prices: StorePrices;
    readonly terms: Pick<TermMetrics, 'leftOut'>;
    readonly changes: WrittenChanges;
    /** For single statements that a client's request waits for. */
    readonly accepting: PostgresClient;
    /**
     * The first statement of a transaction that stores data of the projects: takes the accept lock until its end.
     * Answers the deleted ones among them; the others cannot be deleted before the transaction ends.
     */
    lockForAccept(projectIds: readonly string[]): Question<ReadonlySet<string>>;
    /** The deleted ones among the projects, without a lock: any other may be deleted right after. */
    deletedProjects(projectIds: readonly string[]): Promise<ReadonlySet<string>>;
    /**
     * Stores the batches that are not in Postgres yet, with their usage. Resolves with the ids of refused ones, whose
     * reservation is no longer counted.
     */
    acceptBatches(
      client: PostgresTransaction,
      batches: readonly SealedBatch[],
    ): Promise<ReadonlySet<string>>;
    /** The same for batches that were accepted and made durable in another place: none is refused. */
    storeDelivered(client: PostgresTransaction, batches: readonly SealedBatch[]): Promise<void>;
    /** Batches by id; an unknown id is left out. */
    readBatches(ids: readonly string[]): Promise<ReadonlyMap<string, SealedBatch>>;
  };

/** The feed that a write reports its traces to, after the commit. */
export type WrittenChanges = Pick<ChangeFeed, 'isWatched' | 'publish'>;

export function storeDatabase(
  { accept, write }: Pick<PostgresPools, 'accept' | 'write'>,
  usageTimes: UsageTimes,
  terms: Pick<TermMetrics, 'leftOut'> = { leftOut() {} },
  changes: WrittenChanges = { isWatched: () => false, publish() {} },
): StoreDatabase {
  const { query, transaction, queryIf, onTakeover } = write;
  const { transactionWithDeadline } = accept;
  return {
    ...{ query, transaction, queryIf, onTakeover, transactionWithDeadline },
    ...{ accepting: accept, lockForAccept },
    prices: { pricing: undefined },
    terms,
    changes,
    deletedProjects: (projectIds) => findDeletedProjects(write, projectIds),
    async acceptBatches(client, batches) {
      await usageTimes.load(batches);
      return acceptBatches(client, batches, usageTimes.of);
    },
    async storeDelivered(client, batches) {
      await usageTimes.load(batches);
      await storeDelivered(client, batches, usageTimes.of);
    },
    readBatches: (ids) => readBatches(write, ids),
  };
}
