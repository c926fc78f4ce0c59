import type { Capability, Extension, Settings } from '../../src/component/component.ts';
import type { DirectoryStorage } from '../../src/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../src/queue/directory-storage.ts';
import type { QueueStorage } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import type { FileStorageConfig } from './config.ts';

/** Offers queues in a directory of their own; see src/queue/directory-storage.ts. */
export function fileStorageExtension(settings: Settings, config: FileStorageConfig): Extension {
  const { clock, logger } = settings;
  let open: DirectoryStorage | undefined;
  // The offer exists before the start, because components look it up while they are created.
  const storage: QueueStorage = {
    async openQueue(options) {
      if (open === undefined) throw new Error(`extension ${settings.id} is not started`);
      return open.openQueue(options);
    },
  };
  return {
    async start() {
      open = await openDirectoryStorage({
        directory: config.directory,
        createDirectory: config.create_directory,
        minFreeBytes: config.min_free_bytes,
        reserveBytes: config.reserve_bytes,
        clock,
        logger,
      });
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      await closing?.close();
    },
    provide: <T>(wanted: Capability<T>) =>
      wanted.name === QUEUE_STORAGE.name ? (storage as T) : undefined,
  };
}
