import type { Test } from 'tap';
import { config } from '../../extensions/sqlite/config.ts';
import type { OpenStore } from '../../extensions/sqlite/open-store.ts';
import { openStore } from '../../extensions/sqlite/open-store.ts';
import { openDirectoryStorage } from '../../src/queue/directory-storage.ts';
import type { QueuePlace } from '../contract/queue.ts';
import { fakeClock } from './clock.ts';
import { recordingLogger, recordingMetrics } from './settings.ts';

/** The least that a test of something else needs on its disk. */
export const SMALL = { min_free_bytes: 0, reserve_bytes: 0 };

/** A store in SQLite that can be closed, broken off and opened again. */
export function sqlitePlace(t: Test) {
  const directory = t.testdir({});
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  return {
    directory,
    clock,
    logger,
    metrics,
    open: (): Promise<OpenStore> =>
      openStore({ clock, logger, metrics }, config.parse({ directory, ...SMALL })),
  };
}

/** The queues of such a store. */
export async function storeQueues(t: Test): Promise<QueuePlace> {
  const place = sqlitePlace(t);
  return {
    clock: place.clock,
    open: async () => {
      const { store, close, crash } = await place.open();
      return { storage: store, close, crash };
    },
  };
}

/** Queues in a directory of their own. */
export async function directoryQueues(t: Test): Promise<QueuePlace> {
  const directory = t.testdir({});
  const clock = fakeClock();
  const logger = recordingLogger();
  const options = { directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 };
  return {
    clock,
    open: async () => {
      const storage = await openDirectoryStorage({ ...options, clock, logger });
      return { storage, close: storage.close, crash: storage.crash };
    },
  };
}
