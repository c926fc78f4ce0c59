import type { Capability, Extension, Settings } from '../../src/component/component.ts';
import type { SqliteQueueStorage } from '../../src/queue/storage.ts';
import { queueOperations, queueStorage } from '../../src/queue/storage.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { OperationSource } from '../../src/sqlite/operation.ts';
import type { Bootstrap, FirstProject } from '../../src/store/bootstrap.ts';
import type { Store } from '../../src/store/store.ts';
import type { SqliteConfig } from './config.ts';
import { ensureFirstProject } from './first-project.ts';
import type { SqliteKeys } from './keys.ts';
import { sqliteKeys } from './keys.ts';
import { sqliteProjects } from './projects.ts';
import { sqliteTraces } from './traces.ts';

/**
 *   projects, keys ─┐
 *   queues ─────────┼─▶ writing thread ─▶ store.db (WAL, synced) ◀─ reading threads ◀─ leases, listings
 *   observations ───┘     one transaction a group
 */
export function sqliteExtension(settings: Settings, config: SqliteConfig): Extension {
  let parts: Parts | undefined;
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
  const offers = new Map<string, unknown>([
    ['store', store],
    ['queue_storage', store],
    ['bootstrap', bootstrap],
  ]);

  return {
    async start() {
      parts = await openStore(settings, config);
    },
    async shutdown() {
      const closing = parts;
      parts = undefined;
      if (closing !== undefined) await closing.close();
    },
    provide: <T>(wanted: Capability<T>) => offers.get(wanted.name) as T | undefined,
  };
}

type Parts = {
  readonly store: Store;
  readonly first: FirstProject | undefined;
  close(): Promise<void>;
};

async function openStore(settings: Settings, config: SqliteConfig): Promise<Parts> {
  const { clock, logger } = settings;
  const database = await openDatabase({
    directory: config.directory,
    name: 'store',
    createDirectory: true,
    minFreeBytes: config.min_free_bytes,
    reserveBytes: config.reserve_bytes,
    modules: [
      queueOperations({ keepsBodies: true }),
      moduleAt('./operations'),
      moduleAt('./trace-operations'),
    ],
    clock,
    logger,
  });
  try {
    const keys = sqliteKeys(database, clock, logger);
    const queues = queueStorage(database, clock, logger);
    const store: Store = {
      projects: sqliteProjects(database, clock),
      keys,
      traces: sqliteTraces(database),
      openQueue: queues.openQueue,
    };
    const first = await ensureFirstProject(database, clock);
    return { store, first, close: () => closeAll(database, keys, queues) };
  } catch (error) {
    await database.close();
    throw error;
  }
}

function moduleAt(path: string): OperationSource {
  const here = import.meta.url;
  return { url: new URL(path + (here.endsWith('.ts') ? '.ts' : '.js'), here).href, options: {} };
}

async function closeAll(
  database: Database,
  keys: SqliteKeys,
  queues: SqliteQueueStorage,
): Promise<void> {
  queues.close();
  await keys.close();
  await database.close();
}

function lateStore(store: () => Store): Store {
  return {
    get projects() {
      return store().projects;
    },
    get keys() {
      return store().keys;
    },
    get traces() {
      return store().traces;
    },
    openQueue: (options) => store().openQueue(options),
  };
}
