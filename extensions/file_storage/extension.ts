import type { Capability, Extension, Settings } from '../../src/component/component.ts';
import type { QueueStorage } from '../../src/queue/queue.ts';
import { queueOperations, queueStorage } from '../../src/queue/storage.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { FileStorageConfig } from './config.ts';

type Open = QueueStorage & { close(): Promise<void> };

/** Queues in a directory of their own: a body is deleted when the last branch has acknowledged it. */
export function fileStorageExtension(settings: Settings, config: FileStorageConfig): Extension {
  let open: Open | undefined;
  // The offer exists before the start, because components look it up while they are created.
  const storage: QueueStorage = {
    async openQueue(options) {
      if (open === undefined) throw new Error(`extension ${settings.id} is not started`);
      return open.openQueue(options);
    },
  };
  return {
    async start() {
      open = await openStorage(settings, config);
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      await closing?.close();
    },
    provide: <T>(wanted: Capability<T>) =>
      wanted.name === 'queue_storage' ? (storage as T) : undefined,
  };
}

async function openStorage({ clock, logger }: Settings, config: FileStorageConfig): Promise<Open> {
  const database = await openDatabase({
    directory: config.directory,
    name: 'queue',
    createDirectory: config.create_directory,
    minFreeBytes: config.min_free_bytes,
    reserveBytes: config.reserve_bytes,
    modules: [queueOperations({ keepsBodies: false })],
    clock,
    logger,
  });
  const queues = queueStorage(database, clock, logger);
  return {
    openQueue: queues.openQueue,
    async close() {
      queues.close();
      await database.close();
    },
  };
}
