import { resolve } from 'node:path';
import type { Capability } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { DataDirectory } from '../../src/store/data-directory.ts';
import { lateCounters } from '../../src/store/late-counters.ts';
import { lateStore } from '../../src/store/late-store.ts';
import type { Bootstrap } from '../../src/tenancy/bootstrap.ts';
import type { SqliteConfig } from './config.ts';
import type { OpenStore } from './open-store.ts';
import { openStore } from './open-store.ts';

/**
 *   projects, keys ─┐
 *   queues ─────────┼─▶ writing thread ─▶ store.db (WAL, synced) ◀─ reading threads ◀─ leases, listings
 *   observations ───┘     one transaction a group
 */
export function createExtension(settings: Settings, config: SqliteConfig): Extension {
  let parts: OpenStore | undefined;
  // Offers exist before the start, because components look them up while they are created.
  const store = lateStore(() => {
    if (parts === undefined) throw new Error(`extension ${settings.id} is not started`);
    return parts.store;
  });
  const bootstrap: Bootstrap = {
    get first() {
      return parts?.first;
    },
  };
  const dataDirectory: DataDirectory = { path: resolve(config.directory) };
  const offers = new Map<string, unknown>([
    ['store', store],
    ['queue_storage', store],
    ['usage_counters', lateCounters(() => store.counters)],
    ['bootstrap', bootstrap],
    ['data_directory', dataDirectory],
  ]);

  return {
    async start() {
      parts = await openStore(settings, config);
      settings.host.service(HEALTH_REGISTRY).register(settings.id, parts.health);
    },
    async shutdown() {
      const closing = parts;
      parts = undefined;
      if (closing !== undefined) await closing.close();
    },
    provide: <T>(wanted: Capability<T>) => offers.get(wanted.name) as T | undefined,
  };
}
