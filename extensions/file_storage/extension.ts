import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { deferred } from '../../src/component/deferred.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import type { QueueStorage } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { registerDamage } from '../../src/sqlite/condition.ts';
import type { DirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import {
  openDirectoryStorage,
  salvageDirectory,
} from '../../src/sqlite/queue/directory-storage.ts';
import { SALVAGE } from '../../src/store/salvage.ts';
import { USAGE_COUNTERS, type UsageCounters } from '../../src/tenancy/contract.ts';
import type { FileStorageConfig } from './config.ts';

/** Offers queues in a directory of their own, and counters over what they accepted; see src/sqlite/queue/directory-storage.ts. */
export function createExtension(settings: Settings, config: FileStorageConfig): Extension {
  const { clock, logger } = settings;
  let open: DirectoryStorage | undefined;
  let removeGauge: (() => void) | undefined;
  const owner = `extension ${settings.id}`;
  const storage = deferred<QueueStorage>(owner, () => open);
  const counters = deferred<UsageCounters>(owner, () => open?.usage);

  return {
    async start() {
      const processEnd = settings.host.service(PROCESS_END);
      open = await openDirectoryStorage({
        directory: config.directory,
        createDirectory: config.create_directory,
        minFreeBytes: config.min_free_bytes,
        reserveBytes: config.reserve_bytes,
        worker: settings.worker,
        clock,
        logger,
        onRemoved: () => processEnd.end('removed_data'),
      });
      const { isDamaged } = open;
      removeGauge = registerDamage(settings.metrics, settings.id, isDamaged);
      settings.host.service(HEALTH_REGISTRY).register(settings.id, open.health);
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      removeGauge?.();
      await closing?.close();
    },
    offers: [
      offer(QUEUE_STORAGE, storage),
      offer(USAGE_COUNTERS, counters),
      offer(SALVAGE, () => salvageDirectory(config.directory, logger)),
    ],
  };
}
