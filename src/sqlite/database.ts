import type { Clock, Logger } from '../component/component.ts';
import type { DatabaseHealth } from './condition.ts';
import { FileCondition } from './condition.ts';
import type { OwnedDirectory } from './directory.ts';
import { markFilled, openDirectory } from './directory.ts';
import { keepShrinking, PROBE, READ_PROBE, SHRINK, TRUNCATE_LOG } from './maintenance.ts';
import type {
  AttachedFile,
  Call,
  NameIn,
  OperationModule,
  Operations,
  OperationsOf,
  OperationTable,
  ThreadAccess,
  ThreadData,
} from './operation.ts';
import { ReadingThread } from './reading-thread.ts';
import type { CallOptions, ThreadClient } from './thread-client.ts';
import { startThread } from './thread-client.ts';

/** A reader of the store, such as a live list, comes back within seconds. */
const IDLE_MS = 15_000;

export type DatabaseOptions = {
  readonly directory: string;
  /** The name of the file without `.db`; its lock and reserve are named after it too. */
  readonly name: string;
  /** Creates the directory if it does not exist. */
  readonly createDirectory: boolean;
  readonly minFreeBytes: number;
  /** Bytes kept for a full disk; 0 keeps none. */
  readonly reserveBytes: number;
  /** The file of operations that the threads load. */
  readonly operations: URL;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds after which a reading thread without work ends; `IDLE_MS` by default. */
  readonly idleMs?: number;
  /** Upper bound of the file in pages, for tests of a full disk. */
  readonly maxPages?: number;
  /** Counts the writes that the disk has completed; the kernel's count by default. */
  readonly completedWrites?: () => number | undefined;
  /** Called when a call failed because of an attached file. */
  readonly onAttachedFailed?: (file: AttachedFile, message: string) => void;
  /** Called once if the files were removed or replaced while they are open: the process must end. */
  readonly onRemoved?: () => void;
};

/** Calls an operation of a table: its name decides the type of the arguments and of the result. */
type Caller<Table extends OperationTable> = <Name extends NameIn<Table>>(
  name: Name,
  args: Parameters<Table[Name]>,
  options?: CallOptions,
) => Promise<ReturnType<Table[Name]>>;

/**
 * A SQLite file that this process owns. It has a thread that writes, a thread for short reads that a request waits
 * for, and a thread for long reads, which starts with the first of them. The threads of reads end when they are idle.
 */
export type Database<Known extends Operations> = {
  /**
   * Runs an operation in the transaction of the next group; resolves when the group is synced to disk. Rejects with
   * `RetryableError` (`disk_full`, `storage_failed`) or `PermanentError('storage_refused')`.
   */
  readonly write: Caller<Known['write']>;
  readonly read: Caller<Known['read']>;
  /** Like `read`, for operations that may take long: they delay other searches, and no read. */
  readonly search: Caller<Known['read']>;
  /**
   * Truncates the log, which holds pages as they were before a deletion. Resolves with whether it is empty. Rejects with `disk_full` while
   * the disk is so full that the log could not grow again.
   */
  truncateLog(): Promise<boolean>;
  /** The reason why the caller must not append now; undefined if it may. */
  shortage(): Error | undefined;
  /** Whether the disk has room, and how much; whether the file is in its place and sound. */
  health(): DatabaseHealth;
  /** Whether damage was found since the start, or at the start. */
  isDamaged(): boolean;
  /**
   * Records on disk that the file has its essential rows: from then on a start refuses the file if it has lost them.
   */
  markFilled(): Promise<void>;
  close(): Promise<void>;
  /** Ends the threads and releases the lock as a crash would. */
  crash(): Promise<void>;
};

/**
 * Opens a database with the operations of a file: `openDatabase<typeof import('./operations.ts')>`. Rejects with an
 * `Error` that names the obstacle: the lock, the permissions, the file.
 */
export async function openDatabase<Module extends OperationModule>(
  options: DatabaseOptions,
): Promise<Database<OperationsOf<Module>>> {
  const directory = await openDirectory(options);
  let writer: ThreadClient | undefined;
  try {
    const condition = new FileCondition(options, directory);
    const start = (access: ThreadAccess) =>
      startThread(threadData(options, directory, access), condition);
    writer = await start('write');
    condition.opened(writer.opening);
    const { clock, idleMs = IDLE_MS } = options;
    const startReading = () =>
      start('read').catch((error: unknown) => {
        condition.unreadable('read', error instanceof Error ? error.message : String(error));
        throw error;
      });
    const reader = new ReadingThread(startReading, clock, idleMs);
    const searcher = new ReadingThread(startReading, clock, idleMs);
    await reader.start();
    // The other threads may still have in memory what the disk has lost.
    const again = new ReadingThread(startReading, clock, idleMs);
    const threads = { writer, reader, searcher, again };
    const probes = {
      write: () => threads.writer.call([PROBE]),
      read: () => threads.reader.call([READ_PROBE]),
    };
    condition.watch(probes, (call) => threads.again.call(call));
    return database(options, directory, condition, threads);
  } catch (error) {
    await writer?.close();
    await directory.close();
    throw error;
  }
}

type Threads = {
  readonly writer: ThreadClient;
  readonly reader: ReadingThread;
  readonly searcher: ReadingThread;
  /** Repeats reads that found damage; it runs for these alone. */
  readonly again: ReadingThread;
};

function database<Known extends Operations>(
  options: DatabaseOptions,
  directory: OwnedDirectory,
  condition: FileCondition,
  { writer, reader, searcher, again }: Threads,
): Database<Known> {
  let closed: Promise<void> | undefined;
  const stopShrinking = keepShrinking(
    () => writer.call([SHRINK], { lazy: true }),
    options.clock,
    options.logger,
  );

  async function close(): Promise<void> {
    stopShrinking();
    await condition.close();
    // Readers first, so that the writer's last checkpoint reaches the end of the log.
    await reader.close();
    await searcher.close();
    await again.close();
    await writer.close();
    await directory.close();
  }

  async function crash(): Promise<void> {
    stopShrinking();
    const readers = [reader, searcher, again].map((thread) => thread.kill());
    await Promise.all([writer.kill(), ...readers, condition.close()]);
    await directory.abandon();
  }

  return {
    write: callerOf((call, callOptions) => writer.call(call, callOptions)),
    read: callerOf((call) => reader.call(call)),
    search: callerOf((call) => searcher.call(call)),
    truncateLog: async () => (await writer.call([TRUNCATE_LOG])) === true,
    shortage: () => condition.shortage() ?? directory.shortage(),
    health: () => condition.health(),
    isDamaged: () => condition.isDamaged,
    markFilled: () => markFilled(directory.filledFile, options.clock),
    close: () => (closed ??= close()),
    crash: () => (closed ??= crash()),
  };
}

/** The only place where an answer of a thread gets its type. */
function callerOf<Table extends OperationTable>(
  send: (call: Call, options?: CallOptions) => Promise<unknown>,
): Caller<Table> {
  return (name, args, options) =>
    send([name, ...args], options) as Promise<ReturnType<Table[typeof name]>>;
}

function threadData(
  options: DatabaseOptions,
  directory: OwnedDirectory,
  access: ThreadAccess,
): ThreadData {
  return {
    file: directory.databaseFile,
    filled: directory.filledFile,
    access,
    operations: options.operations.href,
    reserve: options.reserveBytes > 0 ? directory.reserveFile : undefined,
    reserveBytes: options.reserveBytes,
    maxPages: options.maxPages,
  };
}
