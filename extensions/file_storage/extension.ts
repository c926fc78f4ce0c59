import type { Capability } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { QueueStorage } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import type { DirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import { lateCounters } from '../../src/store/late-counters.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import type { FileStorageConfig } from './config.ts';

/** Offers queues in a directory of their own, and counters over what they accepted; see src/sqlite/queue/directory-storage.ts. */
export function createExtension(settings: Settings, config: FileStorageConfig): Extension {
  const { clock, logger } = settings;
  let open: DirectoryStorage | undefined;
  // The offer exists before the start, because components look it up while they are created.
  const storage: QueueStorage = {
    async openQueue(options) {
      if (open === undefined) throw new Error(`extension ${settings.id} is not started`);
      return open.openQueue(options);
    },
  };
  const counters = lateCounters(() => {
    if (open === undefined) throw new Error(`extension ${settings.id} is not started`);
    return open.usage;
  });
  const offers = new Map<string, unknown>([
    [QUEUE_STORAGE.name, storage],
    [USAGE_COUNTERS.name, counters],
  ]);
  return {
    async start() {
      open = await openDirectoryStorage({
        directory: config.directory,
        createDirectory: config.create_directory,
        minFreeBytes: config.min_free_bytes,
        reserveBytes: config.reserve_bytes,
        worker: settings.worker,
        clock,
        logger,
      });
      settings.host.service(HEALTH_REGISTRY).register(settings.id, open.health);
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      await closing?.close();
    },
    provide: <T>(wanted: Capability<T>) => offers.get(wanted.name) as T | undefined,
  };
}
