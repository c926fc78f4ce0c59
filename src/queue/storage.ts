import type { Clock, Logger } from '../component/component.ts';
import type { Database } from '../sqlite/database.ts';
import type { OperationSource } from '../sqlite/operation.ts';
import { SqliteQueue } from './durable-queue.ts';
import { idempotencyLedger } from './idempotency.ts';
import type { QueueState } from './operations.ts';
import type { DurableQueue, QueueOptions, QueueStorage } from './queue.ts';

/** How often expired answers go and the usage ledger is summed up. */
const TIDY_MS = 10 * 60_000;

/** The queue's operations, for the thread of the file that will hold the queues. */
export function queueOperations(options: { keepsBodies: boolean }): OperationSource {
  const here = import.meta.url;
  const url = new URL(here.endsWith('.ts') ? './operations.ts' : './operations.js', here);
  return { url: url.href, options };
}

export type SqliteQueueStorage = QueueStorage & {
  /** Before the database is closed. */
  close(): void;
};

/** Queues in one database file, found again by name: opening an open one reconfigures it. */
export function queueStorage(database: Database, clock: Clock, logger: Logger): SqliteQueueStorage {
  const queues = new Map<string, SqliteQueue>();
  // One for all queues: a key is claimed once, whichever queue keeps its answer.
  const idempotency = idempotencyLedger(database, clock);
  let cancelTidy = clock.after(0, tidy);

  function tidy(): void {
    cancelTidy = clock.after(TIDY_MS, tidy);
    database.write('queue.tidy', [clock.now()], { lazy: true }).catch((error: unknown) => {
      logger.warn({ error }, 'expired answers could not be removed');
    });
  }

  async function openQueue(options: QueueOptions): Promise<DurableQueue> {
    const args = [options.name, options.branches];
    const state = (await database.write('queue.open', args)) as QueueState;
    const open = queues.get(options.name);
    if (open !== undefined) {
      open.reconfigure(options, state);
      return open;
    }
    const queue = new SqliteQueue({ database, clock, logger, idempotency }, options, state);
    queues.set(options.name, queue);
    return queue;
  }

  function close(): void {
    cancelTidy();
    for (const queue of queues.values()) queue.close();
    queues.clear();
  }

  return { openQueue, close };
}
