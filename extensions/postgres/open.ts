import type { Clock, Logger } from '../../src/component/component.ts';
import type { Postgres } from '../../src/postgres/pool.ts';
import { insertBatches, readBatches, removeFreeBatches } from './batches.ts';
import type { QueueDatabase } from './queue-database.ts';
import type { PostgresQueues } from './queue-storage.ts';
import { openQueues } from './queue-storage.ts';

export type OpenDatabase = {
  readonly queues: PostgresQueues;
  /** Whether the last look found it. */
  isThere(): boolean;
  close(): Promise<void>;
};

const REMOVE_MS = 5_000;
/** An append, from its receipt to its commit, takes less. */
const ON_THEIR_WAY_MS = 5 * 60_000;

/** The queues, and removing what has left them: one process of all does that. */
export async function openDatabase(
  postgres: Postgres,
  clock: Clock,
  logger: Logger,
): Promise<OpenDatabase> {
  const queues = await openQueues(databaseOf(postgres), clock, logger);
  let isThere = true;
  let isClosed = false;
  let removing = Promise.resolve();
  let cancel = clock.after(REMOVE_MS, remove);

  function remove(): void {
    removing = removeAll().then(
      () => {
        isThere = true;
      },
      (error: unknown) => {
        isThere = false;
        logger.debug({ error }, 'batches that nobody waits for could not be removed');
      },
    );
    void removing.then(() => {
      if (!isClosed) cancel = clock.after(REMOVE_MS, remove);
    });
  }

  async function removeAll(): Promise<void> {
    await queues.alone('remove', async () => {
      let after: string | undefined = '';
      while (after !== undefined && !isClosed) {
        after = await removeFreeBatches(postgres, after, clock.now() - ON_THEIR_WAY_MS);
      }
    });
  }

  return {
    queues,
    isThere: () => isThere,
    async close() {
      isClosed = true;
      cancel();
      await removing;
      await queues.close();
    },
  };
}

function databaseOf(postgres: Postgres): QueueDatabase {
  return {
    query: postgres.query,
    transaction: postgres.transaction,
    // Without a store nobody deletes a project.
    deletedOf: async () => new Set(),
    keep: insertBatches,
    read: (wanted) =>
      readBatches(
        postgres,
        wanted.map(({ id }) => id),
      ),
  };
}
