import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { config } from '../../extensions/sqlite/config.ts';
import type { OpenSqliteStore } from '../../extensions/sqlite/open-store.ts';
import { openSqliteStore } from '../../extensions/sqlite/open-store.ts';
import type { DirectoryStorageOptions } from '../../src/sqlite/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import type { QueuePlace } from '../contract/queue.ts';
import { nativeBatch } from './batches.ts';
import { fakeClock } from './clock.ts';
import { recordingLogger, recordingMetrics } from './settings.ts';
import { forgetSqliteTerms, sqliteTermTables } from './term-tables.ts';
import { copyMigratedStore } from './thread-bundle.ts';

/** Settings for tests of other things than the disk. */
export const SMALL = { min_free_bytes: 0, reserve_bytes: 0 };

/** A store in SQLite that can be closed, crashed and opened again. */
export function sqlitePlace(t: Test) {
  const directory = t.testdir({});
  copyMigratedStore(directory);
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  return {
    directory,
    clock,
    logger,
    metrics,
    open: (written: object = {}): Promise<OpenSqliteStore> =>
      openSqliteStore(
        { clock, logger, metrics },
        config.parse({ directory, ...SMALL, ...written }),
      ),
    termTables: async () => sqliteTermTables(join(directory, 'store.db')),
    forgetTerms: async () => forgetSqliteTerms(join(directory, 'store.db')),
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

/**
 * Queues of the first of two workers, which takes over a directory where a process alone left something in
 * another queue.
 */
export async function joinedQueues(t: Test): Promise<QueuePlace> {
  const directory = t.testdir({});
  const clock = fakeClock();
  const logger = recordingLogger();
  const parts = { createDirectory: true, minFreeBytes: 0, reserveBytes: 0, clock, logger };
  left ??= leaveSomething(mkdtempSync(join(tmpdir(), 'tracectl-left-')), parts);
  cpSync(await left, directory, { recursive: true });
  const worker = { index: 1, count: 2 };
  return {
    clock,
    open: async () => {
      const storage = await openDirectoryStorage({ ...parts, directory, worker });
      return { storage, close: storage.close, crash: storage.crash };
    },
  };
}

/** Made once, because opening a directory takes longer than copying it. */
let left: Promise<string> | undefined;

async function leaveSomething(
  directory: string,
  parts: Omit<DirectoryStorageOptions, 'directory'>,
): Promise<string> {
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const alone = await openDirectoryStorage({ ...parts, directory });
  const other = await alone.openQueue({ name: 'other', branches: ['c'], maxBytes: 1e9 });
  await other.append(nativeBatch(1));
  await alone.close();
  return directory;
}
