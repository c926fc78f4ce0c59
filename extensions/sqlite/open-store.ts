import type { Settings } from '../../src/component/component.ts';
import type { SqliteQueueStorage } from '../../src/queue/storage.ts';
import { queueOperations, queueStorage } from '../../src/queue/storage.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { OperationSource } from '../../src/sqlite/operation.ts';
import type { FirstProject } from '../../src/store/bootstrap.ts';
import type { Store } from '../../src/store/store.ts';
import type { SqliteConfig } from './config.ts';
import { ensureFirstProject } from './first-project.ts';
import type { SqliteKeys } from './keys.ts';
import { sqliteKeys } from './keys.ts';
import { sqliteProjects } from './projects.ts';
import { sqliteTraces } from './traces.ts';

export type OpenStore = {
  readonly store: Store;
  readonly first: FirstProject | undefined;
  close(): Promise<void>;
  /** Ends as a crash would: nothing more is written. */
  crash(): Promise<void>;
};

/** Rejects with an `Error` that says what is in the way: the lock, the rights, the file. */
export async function openStore(
  settings: Pick<Settings, 'clock' | 'logger'>,
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
    return {
      store,
      first,
      close: () => closeAll(database, keys, queues),
      async crash() {
        queues.close();
        await database.crash();
      },
    };
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
