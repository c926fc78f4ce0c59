import type { SealedBatch } from '../../src/model/batch.ts';
import type { PostgresTransaction } from './connection/pool.ts';
import type { PostgresClient, Question } from './connection/statement.ts';

/** A connection inside a transaction. */
export type QueueClient = PostgresTransaction;

/** What the queues ask of the store they are part of. */
export type QueueDatabase = PostgresClient & {
  transaction<T>(work: (client: QueueClient) => Promise<T>): Promise<T>;
  /** The same for somebody who waits for an answer: it has two seconds in all. */
  promptly<T>(work: (client: QueueClient) => Promise<T>): Promise<T>;
  /** Of these projects those that are deleted; the others cannot be deleted before the transaction ends. */
  deletedAmong(projectIds: readonly string[]): Question<ReadonlySet<string>>;
  /**
   * Keeps batches, those that are not here yet, with their usage. Resolves with those that are refused:
   * what was reserved for them is not counted any more.
   */
  keep(client: QueueClient, batches: readonly SealedBatch[]): Promise<ReadonlySet<string>>;
  /** Batches that are here, by id. */
  read(wanted: readonly WantedBatch[]): Promise<ReadonlyMap<string, SealedBatch>>;
};

export type WantedBatch = {
  readonly id: string;
  readonly projectId: string;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
};
