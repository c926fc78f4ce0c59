import type { Clock, Logger, Worker } from '../../component/component.ts';
import { ONLY_WORKER } from '../../component/component.ts';
import type { QueueStorage } from '../../queue/queue.ts';
import { threadFile } from '../../thread/thread.ts';
import type { DatabaseHealth } from '../condition.ts';
import { openDatabase } from '../database.ts';
import { ensureDirectory } from '../directory-guard.ts';
import type { SalvagedDatabase } from '../salvage-directory.ts';
import { salvageDatabase } from '../salvage-directory.ts';
import { joinQueues } from './joined-queue.ts';
import type { SqliteQueueStorage } from './storage.ts';
import { queueStorage } from './storage.ts';
import type { UsageLedger } from './usage-ledger.ts';
import { QUEUE_FILES, queueDirectories, workerDirectories } from './worker-directories.ts';

const READER_IDLE_MS = 5_000;

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
  /** Called if the files of a directory were removed or replaced while they are open: the process must end. */
  readonly onRemoved?: () => void;
};

export type DirectoryStorage = QueueStorage & {
  /** Counters over the ledger of the batches that this directory accepted. */
  readonly usage: UsageLedger;
  /** Whether the disk has room, and how much; whether the file is in its place and sound. */
  health(): DatabaseHealth;
  /** Whether damage was found since the start, or at the start. */
  isDamaged(): boolean;
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
  await ensureDirectory(directory, createDirectory, logger);
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

/** Salvages the queues of a directory, with those of its workers, as far as they are readable. */
export async function salvageDirectory(
  directory: string,
  logger: Logger,
): Promise<SalvagedDatabase[]> {
  const operations = threadFile(import.meta.url, 'directory-operations');
  const salvaged: SalvagedDatabase[] = [];
  for (const each of await queueDirectories(directory)) {
    salvaged.push(
      await salvageDatabase({ directory: each, name: QUEUE_FILES, operations }, logger),
    );
  }
  return salvaged;
}

async function openOne(options: DirectoryStorageOptions): Promise<DirectoryStorage> {
  const database = await openDatabase<typeof import('./directory-operations.ts')>({
    ...options,
    name: QUEUE_FILES,
    // Bodies are read back only when deliveries lag.
    idleMs: READER_IDLE_MS,
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
    isDamaged: database.isDamaged,
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
    isDamaged: () => all.some((storage) => storage.isDamaged()),
    tidy: () => each((storage) => storage.tidy()),
    close: () => each((storage) => storage.close()),
    crash: () => each((storage) => storage.crash()),
  };
}
