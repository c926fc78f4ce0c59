import { resolve } from 'node:path';
import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { deferred } from '../../src/component/deferred.ts';
import { FIRST_TOKENS } from '../../src/component/first-tokens.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { registerDamage } from '../../src/sqlite/condition.ts';
import { DATA_DIRECTORY, type DataDirectory } from '../../src/store/data-directory.ts';
import { SALVAGE } from '../../src/store/salvage.ts';
import { searchDetails } from '../../src/store/search/status.ts';
import { STORE } from '../../src/store/store.ts';
import { BOOTSTRAP, type Bootstrap, type FirstProject } from '../../src/tenancy/bootstrap.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import type { SqliteConfig } from './config.ts';
import type { OpenSqliteStore } from './open-store.ts';
import { openSqliteStore, salvageSqliteStore } from './open-store.ts';

/**
 *   projects, keys ─┐
 *   queues ─────────┼─▶ writing thread ─▶ store.db (WAL, synced) ◀─ reading threads ◀─ leases, listings
 *   observations ───┘     one transaction a group
 */
export function createExtension(settings: Settings, config: SqliteConfig): Extension {
  let parts: OpenSqliteStore | undefined;
  let removeGauge: (() => void) | undefined;
  const owner = `extension ${settings.id}`;
  const store = deferred(owner, () => parts?.store);
  const counters = deferred(owner, () => parts?.store.counters);
  let first: FirstProject | undefined;
  const bootstrap: Bootstrap = {
    get first() {
      return first;
    },
  };
  const dataDirectory: DataDirectory = { path: resolve(config.directory) };

  return {
    async start() {
      const processEnd = settings.host.service(PROCESS_END);
      const opened = await openSqliteStore(
        { ...settings, firstTokens: settings.host.service(FIRST_TOKENS) },
        config,
        () => processEnd.end('removed_data'),
      );
      parts = opened;
      first = opened.first;
      removeGauge = registerDamage(settings.metrics, settings.id, opened.isDamaged);
      settings.host.service(HEALTH_REGISTRY).register(settings.id, () => healthOf(opened));
    },
    async shutdown() {
      const closing = parts;
      parts = undefined;
      removeGauge?.();
      if (closing !== undefined) await closing.close();
    },
    offers: [
      offer(STORE, store),
      offer(QUEUE_STORAGE, store),
      offer(USAGE_COUNTERS, counters),
      offer(BOOTSTRAP, bootstrap),
      offer(DATA_DIRECTORY, dataDirectory),
      offer(SALVAGE, () => salvageSqliteStore(config.directory, settings.logger)),
    ],
  };
}

function healthOf({ health, search }: OpenSqliteStore): ComponentHealth {
  const { details, ...rest } = health();
  return { ...rest, details: { ...details, ...searchDetails(search.progress()) } };
}
