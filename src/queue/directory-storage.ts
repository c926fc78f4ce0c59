import type { Clock, Logger } from '../component/component.ts';
import { openDatabase } from '../sqlite/database.ts';
import type { DiskHealth } from '../sqlite/directory.ts';
import type { QueueStorage } from './queue.ts';
import { queueOperations, queueStorage } from './storage.ts';
import type { UsageLedger } from './usage-ledger.ts';

export type DirectoryStorageOptions = {
  readonly directory: string;
  readonly createDirectory: boolean;
  readonly minFreeBytes: number;
  readonly reserveBytes: number;
  /** Upper bound of the file in pages, for tests of a full disk. */
  readonly maxPages?: number;
  readonly clock: Clock;
  readonly logger: Logger;
};

export type DirectoryStorage = QueueStorage & {
  /** Counters over the ledger of what was accepted here. */
  readonly usage: UsageLedger;
  /** Whether the disk has room for more. */
  health(): DiskHealth;
  /** Does now what is done in small steps else: forgets, sums up, removes. */
  tidy(): Promise<void>;
  close(): Promise<void>;
  /** Ends as a crash would: nothing more is written. */
  crash(): Promise<void>;
};

/** Queues in a directory of their own: a body is deleted when the last branch has acknowledged it. */
export async function openDirectoryStorage(
  options: DirectoryStorageOptions,
): Promise<DirectoryStorage> {
  const modules = [queueOperations({ keepsBodies: false })];
  const database = await openDatabase({ ...options, name: 'queue', modules });
  const queues = await queueStorage(database, options.clock, options.logger, {
    removesProjects: true,
  });
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
