import type { Settings } from '../../src/component/component.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { DiskHealth } from '../../src/sqlite/directory.ts';
import type { OperationSource } from '../../src/sqlite/operation.ts';
import type { SqliteQueueStorage } from '../../src/sqlite/queue/storage.ts';
import { queueOperations, queueStorage } from '../../src/sqlite/queue/storage.ts';
import type { Store } from '../../src/store/store.ts';
import type { FirstProject } from '../../src/tenancy/bootstrap.ts';
import type { Tenancy } from '../../src/tenancy/open.ts';
import { openTenancy } from '../../src/tenancy/open.ts';
import type { Difference } from '../../src/tenancy/usage.ts';
import type { SqliteConfig } from './config.ts';
import { housekeeping } from './housekeeping.ts';
import { sqliteRows } from './rows.ts';
import { sqliteTraces } from './traces.ts';

export type OpenStore = {
  readonly store: Store;
  readonly first: FirstProject | undefined;
  /** Whether the disk has room for more. */
  health(): DiskHealth;
  close(): Promise<void>;
  /** Does at once what is done in small steps else: removes, sums up. */
  finish(): Promise<void>;
  /** Ends as a crash would: nothing more is written. */
  crash(): Promise<void>;
};

/** Rejects with an `Error` that says what is in the way: the lock, the rights, the file. */
export async function openStore(
  settings: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  config: SqliteConfig,
): Promise<OpenStore> {
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
      moduleAt('./log-operations'),
      moduleAt('./purge-operations'),
    ],
    clock,
    logger,
  });
  try {
    const queues = await queueStorage(database, clock, logger, {
      removesProjects: false,
    });
    const verify = (): Promise<Difference[]> => queues.usage.verify();
    const tenancy = await openTenancy(sqliteRows(database), settings, config, verify);
    return storeIn(database, queues, tenancy, settings, config);
  } catch (error) {
    await database.close();
    throw error;
  }
}

function storeIn(
  database: Database,
  queues: SqliteQueueStorage,
  tenancy: Tenancy,
  { clock, logger, metrics }: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  config: SqliteConfig,
): OpenStore {
  const { retention, projects, keys, organization, usage, rejections, audit } = tenancy;
  const keeper = housekeeping({
    database,
    queues,
    retention,
    clock,
    logger,
    metrics,
    rejectionsMaxAge: config.rejections.max_age,
  });
  projects.onDelete(() => keeper.wake());
  const store: Store = {
    projects,
    keys,
    traces: sqliteTraces(database, queues, retention),
    organization,
    usage,
    counters: queues.usage,
    rejections,
    audit,
    openQueue: queues.openQueue,
  };
  return {
    store,
    first: tenancy.first,
    health: database.health,
    async finish() {
      await queues.tidy();
      await keeper.finish();
    },
    async close() {
      await keeper.close();
      await queues.close();
      await tenancy.close();
      await database.close();
    },
    async crash() {
      keeper.crash();
      queues.crash();
      tenancy.crash();
      await database.crash();
    },
  };
}

function moduleAt(path: string): OperationSource {
  const here = import.meta.url;
  return { url: new URL(path + (here.endsWith('.ts') ? '.ts' : '.js'), here).href, options: {} };
}
