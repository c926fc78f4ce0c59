import type { Clock, Logger } from '../component/component.ts';
import type { DataDirectory, DiskHealth } from './directory.ts';
import { openDirectory } from './directory.ts';
import type { Access, OperationSource } from './operation.ts';
import { keepShrinking, SHRINK } from './shrinking.ts';
import type { CallOptions, ThreadClient } from './thread-client.ts';
import { startThread } from './thread-client.ts';

export type DatabaseOptions = {
  readonly directory: string;
  /** The file is `<name>.db`; its lock and reserve are named after it too. */
  readonly name: string;
  /** Makes the directory where it is missing. */
  readonly createDirectory: boolean;
  readonly minFreeBytes: number;
  /** Bytes kept for a full disk; 0 keeps none. */
  readonly reserveBytes: number;
  readonly modules: readonly OperationSource[];
  readonly clock: Clock;
  readonly logger: Logger;
  /** Upper bound of the file in pages, for tests of a full disk. */
  readonly maxPages?: number;
};

/**
 * One SQLite file owned by this process: a thread that writes, a thread for short readings that somebody
 * waits for, and one for long readings that is started when the first is asked for.
 */
export type Database = {
  /**
   * Runs one operation in the next group's transaction; resolved means synced to disk. Rejects with
   * `RetryableError` (`disk_full`, `storage_failed`) or `PermanentError('storage_refused')`.
   */
  write(name: string, args: readonly unknown[], options?: CallOptions): Promise<unknown>;
  read(name: string, args: readonly unknown[]): Promise<unknown>;
  /** Like `read`, for what may take long: it holds up nobody but its like. */
  search(name: string, args: readonly unknown[]): Promise<unknown>;
  /** Why nothing should be appended now; undefined when all is well. */
  shortage(): Error | undefined;
  /** Whether the disk has room, and how much. */
  health(): DiskHealth;
  close(): Promise<void>;
  /** Ends the threads and gives up the lock as a crash would. */
  crash(): Promise<void>;
};

/** Rejects with an `Error` that says what is in the way: the lock, the rights, the file. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  const directory = await openDirectory(options);
  let writer: ThreadClient | undefined;
  try {
    writer = await startThread(threadData(options, directory, 'write'), directory.reserveWasUsed);
    const reader = await startThread(threadData(options, directory, 'read'));
    reportDamage(options.logger, directory, writer.corrupt);
    return database(options, directory, writer, reader);
  } catch (error) {
    await writer?.close();
    await directory.close();
    throw error;
  }
}

function database(
  options: DatabaseOptions,
  directory: DataDirectory,
  writer: ThreadClient,
  reader: ThreadClient,
): Database {
  let searcher: Promise<ThreadClient> | undefined;
  let closed: Promise<void> | undefined;
  const stopShrinking = keepShrinking(
    () => writer.call([SHRINK], { lazy: true }),
    options.clock,
    options.logger,
  );

  async function search(name: string, args: readonly unknown[]): Promise<unknown> {
    searcher ??= startSearcher();
    return (await searcher).call([name, ...args]);
  }

  function startSearcher(): Promise<ThreadClient> {
    const starting = startThread(threadData(options, directory, 'read'));
    starting.catch(() => {
      if (searcher === starting) searcher = undefined;
    });
    return starting;
  }

  async function close(): Promise<void> {
    stopShrinking();
    // Readers first, so that the writer's last checkpoint reaches the end of the log.
    await reader.close();
    await searcher?.then(
      (thread) => thread.close(),
      () => undefined,
    );
    await writer.close();
    await directory.close();
  }

  /** One that could not start has told whoever asked it. */
  async function killSearcher(): Promise<void> {
    await searcher?.then(
      (thread) => thread.kill(),
      () => undefined,
    );
  }

  async function crash(): Promise<void> {
    stopShrinking();
    await Promise.all([writer.kill(), reader.kill(), killSearcher()]);
    await directory.close();
  }

  return {
    write: (name, args, callOptions) => writer.call([name, ...args], callOptions),
    read: (name, args) => reader.call([name, ...args]),
    search,
    shortage: directory.shortage,
    health: directory.health,
    close: () => (closed ??= close()),
    crash: () => (closed ??= crash()),
  };
}

function threadData(options: DatabaseOptions, directory: DataDirectory, access: Access) {
  return {
    file: directory.databaseFile,
    access,
    modules: options.modules,
    reserve: options.reserveBytes > 0 ? directory.reserveFile : undefined,
    maxPages: options.maxPages,
  };
}

function reportDamage(logger: Logger, directory: DataDirectory, corrupt: string | undefined): void {
  if (corrupt === undefined) return;
  logger.error(
    { file: directory.databaseFile, kept: corrupt },
    'the database was damaged: it was set aside, and what could be read was copied into a new one',
  );
}
