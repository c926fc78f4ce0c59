import type { Clock, Settings } from '../../src/component/component.ts';
import type { SqliteQueueStorage } from '../../src/queue/storage.ts';
import { queueOperations, queueStorage } from '../../src/queue/storage.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { DiskHealth } from '../../src/sqlite/directory.ts';
import type { OperationSource } from '../../src/sqlite/operation.ts';
import type { FirstProject } from '../../src/store/bootstrap.ts';
import type { Store } from '../../src/store/store.ts';
import { sqliteAudit } from './audit.ts';
import type { SqliteConfig } from './config.ts';
import { ensureFirstProject } from './first-project.ts';
import { housekeeping } from './housekeeping.ts';
import { sqliteKeys } from './keys.ts';
import type { OrganizationRow, ProjectRow } from './operations.ts';
import { organizationOf, sqliteOrganization } from './organization.ts';
import { sqliteProjects } from './projects.ts';
import { sqliteRejections } from './rejections.ts';
import { Retention } from './retention.ts';
import { sqliteTraces } from './traces.ts';
import { sqliteUsage } from './usage.ts';

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
    const first = await ensureFirstProject(database, clock, config);
    const queues = await queueStorage(database, clock, logger, {
      removesProjects: false,
    });
    return await storeIn(database, queues, first, settings, config);
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function storeIn(
  database: Database,
  queues: SqliteQueueStorage,
  first: FirstProject | undefined,
  { clock, logger, metrics }: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  config: SqliteConfig,
): Promise<OpenStore> {
  const retention = await loadRetention(database, clock, config);
  const keys = sqliteKeys(database, clock, logger);
  const rejections = sqliteRejections(database, clock, logger, config.rejections);
  const projects = sqliteProjects({ database, clock, config, retention });
  const rejectionsMaxAge = config.rejections.max_age;
  const keeper = housekeeping({
    database,
    queues,
    retention,
    clock,
    logger,
    metrics,
    rejectionsMaxAge,
  });
  projects.onDelete(() => {
    keys.forgetAll();
    keeper.wake();
  });
  const store: Store = {
    projects,
    keys,
    traces: sqliteTraces(database, queues, retention),
    organization: sqliteOrganization(database, clock, config, retention),
    usage: sqliteUsage(database, queues.usage, rejections.flush),
    counters: queues.usage,
    rejections,
    audit: sqliteAudit(database),
    openQueue: queues.openQueue,
  };
  return {
    store,
    first,
    health: database.health,
    async finish() {
      await queues.tidy();
      await keeper.finish();
    },
    async close() {
      await keeper.close();
      await queues.close();
      await keys.close();
      await rejections.close();
      await database.close();
    },
    async crash() {
      keeper.crash();
      queues.crash();
      rejections.crash();
      await database.crash();
    },
  };
}

async function loadRetention(
  database: Database,
  clock: Clock,
  config: SqliteConfig,
): Promise<Retention> {
  const retention = new Retention(clock);
  const row = (await database.read('organization.get', [])) as OrganizationRow;
  retention.onPlan(organizationOf(row, config).limits);
  for (const [id, , , , days] of (await database.read('projects.list', [])) as ProjectRow[]) {
    retention.setOwn(id, days);
  }
  for (const id of (await database.read('removal.open', [])) as string[]) retention.markDeleted(id);
  return retention;
}

function moduleAt(path: string): OperationSource {
  const here = import.meta.url;
  return { url: new URL(path + (here.endsWith('.ts') ? '.ts' : '.js'), here).href, options: {} };
}
