import type { Clock, Logger } from '../component/component.ts';
import { Background } from '../sqlite/background.ts';
import type { Database } from '../sqlite/database.ts';
import type { OperationSource } from '../sqlite/operation.ts';
import { SqliteQueue } from './durable-queue.ts';
import { idempotencyLedger } from './idempotency.ts';
import type { QueueState } from './operations.ts';
import type { DropReason, DurableQueue, QueueOptions, QueueStorage } from './queue.ts';
import type { RemovedBatch } from './removal-operations.ts';
import { UsageLedger } from './usage-ledger.ts';

/** How often expired answers go and the usage ledger is summed up. */
const TIDY_MS = 10 * 60_000;
/** Between two steps of that. */
const STEP_MS = 50;

/** The queue's operations, for the thread of the file that will hold the queues. */
export function queueOperations(options: { keepsBodies: boolean }): OperationSource {
  const here = import.meta.url;
  const url = new URL(here.endsWith('.ts') ? './operations.ts' : './operations.js', here);
  return { url: url.href, options };
}

export type SqliteQueueStorage = QueueStorage & {
  readonly usage: UsageLedger;
  /** Batches were taken out of the file: the queues forget them. */
  forget(removed: readonly RemovedBatch[], reason: DropReason): void;
  /** Forgets expired answers and sums up the ledger, as far as there is anything to do now. */
  tidy(): Promise<void>;
  /** Before the database is closed. */
  close(): Promise<void>;
  /** Ends without writing anything more. */
  crash(): void;
};

/** Queues in one database file, found again by name: opening an open one reconfigures it. */
export async function queueStorage(
  database: Database,
  clock: Clock,
  logger: Logger,
): Promise<SqliteQueueStorage> {
  const queues = new Map<string, SqliteQueue>();
  // One for all queues: a key is claimed once, whichever queue keeps its answer.
  const idempotency = idempotencyLedger(database, clock);
  const usage = new UsageLedger(database, clock, logger);
  await usage.load();
  const tidying = new Background({
    clock,
    logger,
    everyMs: TIDY_MS,
    betweenMs: STEP_MS,
    failure: 'expired answers could not be removed, or usage not summed up',
    step: async () => {
      const moreAnswers = await database.write('queue.tidy', [clock.now()], { lazy: true });
      const moreUsage = await usage.rollUp();
      return moreAnswers === true || moreUsage;
    },
  });
  tidying.wake();

  async function openQueue(options: QueueOptions): Promise<DurableQueue> {
    const args = [options.name, options.branches];
    const state = (await database.write('queue.open', args)) as QueueState;
    const open = queues.get(options.name);
    if (open !== undefined) {
      open.reconfigure(options, state);
      return open;
    }
    const queue = new SqliteQueue({ database, clock, logger, idempotency, usage }, options, state);
    queues.set(options.name, queue);
    return queue;
  }

  function crash(): void {
    tidying.stop();
    usage.crash();
    for (const queue of queues.values()) queue.close();
    queues.clear();
  }

  return {
    openQueue,
    usage,
    forget(removed, reason) {
      for (const queue of queues.values()) queue.forget(removed, reason);
    },
    tidy: () => tidying.finish(),
    async close() {
      await tidying.close();
      await usage.close();
      crash();
    },
    crash,
  };
}
