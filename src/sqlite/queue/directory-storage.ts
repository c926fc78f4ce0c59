import type { Clock, Logger, Worker } from '../../component/component.ts';
import { ONLY_WORKER } from '../../component/component.ts';
import type { QueueStorage } from '../../queue/queue.ts';
import { threadFile } from '../../thread/thread.ts';
import { openDatabase } from '../database.ts';
import type { DiskHealth } from '../directory.ts';
import { ensureDirectory } from '../directory.ts';
import { joinQueues } from './joined-queue.ts';
import type { SqliteQueueStorage } from './storage.ts';
import { queueStorage } from './storage.ts';
import type { UsageLedger } from './usage-ledger.ts';
import { QUEUE_FILES, workerDirectories } from './worker-directories.ts';

export type DirectoryStorageOptions = {
  readonly directory: string;
  readonly createDirectory: boolean;
  readonly minFreeBytes: number;
  readonly reserveBytes: number;
  /** Upper bound of the file in pages, for tests of a full disk. */
  readonly maxPages?: number;
  /** This process, among the workers that share the directory; the only one by default. */
  readonly worker?: Worker;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type DirectoryStorage = QueueStorage & {
  /** Counters over the ledger of the batches that this directory accepted. */
  readonly usage: UsageLedger;
  /** Whether the disk has room, and how much. */
  health(): DiskHealth;
  /** Does all background work now. */
  tidy(): Promise<void>;
  close(): Promise<void>;
  /** Ends as a crash would, without another write. */
  crash(): Promise<void>;
};

/**
 * Queues in a directory of their own: a body is deleted when the last branch has acknowledged it. Entries in the
 * directories of former workers are delivered from there.
 */
export async function openDirectoryStorage(
  options: DirectoryStorageOptions,
): Promise<DirectoryStorage> {
  const { directory, createDirectory, logger, worker = ONLY_WORKER } = options;
  await ensureDirectory(directory, createDirectory);
  const { own: ownDirectory, leftovers } = await workerDirectories(directory, worker);
  const own = await openOne({ ...options, directory: ownDirectory, createDirectory: true });
  const others: DirectoryStorage[] = [];
  try {
    for (const leftover of leftovers) {
      logger.info({ directory: leftover }, 'Queues of a former worker taken over');
      others.push(await openOne({ ...options, directory: leftover }));
    }
  } catch (error) {
    await Promise.all([own, ...others].map((each) => each.close()));
    throw error;
  }
  return others.length === 0 ? own : joined(own, others);
}

async function openOne(options: DirectoryStorageOptions): Promise<DirectoryStorage> {
  const database = await openDatabase<typeof import('./directory-operations.ts')>({
    ...options,
    name: QUEUE_FILES,
    operations: threadFile(import.meta.url, 'directory-operations'),
  });
  let queues: SqliteQueueStorage;
  try {
    queues = await queueStorage(database, options.clock, options.logger, { removesProjects: true });
  } catch (error) {
    await database.close();
    throw error;
  }
  return {
    openQueue: queues.openQueue,
    usage: queues.usage,
    tidy: queues.tidy,
    health: database.health,
    async close() {
      await queues.close();
      await database.close();
    },
    async crash() {
      queues.crash();
      await database.crash();
    },
  };
}

function joined(own: DirectoryStorage, others: readonly DirectoryStorage[]): DirectoryStorage {
  const all = [own, ...others];
  const each = async (work: (storage: DirectoryStorage) => Promise<void>) => {
    await Promise.all(all.map(work));
  };
  return {
    async openQueue(options) {
      const queue = await own.openQueue(options);
      return joinQueues(queue, await Promise.all(others.map((other) => other.openQueue(options))));
    },
    usage: own.usage,
    health: own.health,
    tidy: () => each((storage) => storage.tidy()),
    close: () => each((storage) => storage.close()),
    crash: () => each((storage) => storage.crash()),
  };
}
