import { existsSync } from 'node:fs';
import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inSteps, type Steps } from '../../../src/component/background.ts';
import type { Clock, Logger } from '../../../src/component/component.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import { openDatabase } from '../../../src/sqlite/database.ts';
import type { AttachedFile } from '../../../src/sqlite/operation.ts';
import type { SearchTables } from '../../../src/store/search/indexer.ts';
import { indexChanges, indexTexts } from '../../../src/store/search/indexer.ts';
import type { SearchStatus, SearchStore } from '../../../src/store/search/status.ts';
import { SEARCH_OFF } from '../../../src/store/search/status.ts';
import { textCutter } from '../../../src/store/search/text-cutter.ts';
import type { TraceStore } from '../../../src/store/store.ts';
import { threadFile } from '../../../src/thread/thread.ts';
import type { SqliteConfig } from '../config.ts';
import type { StoreOperations } from '../operations.ts';
import type { Rounds } from '../traces/rounds.ts';
import { backgroundRounds } from '../traces/rounds.ts';
import { SEARCH_FILE } from './dialect.ts';
import type { IndexOperations } from './index-operations.ts';

/** The pause between two steps, for calls that a client waits for. */
const BETWEEN_MS = 10;
/** The time between two rounds, and between a write and the round that indexes it. */
const ROUND_MS = 500;
/** The interval of logging that the index cannot be read: each search fails. */
const LOG_MS = 60_000;
/** The file whose existence says that the index was found to be damaged. */
const DAMAGED = `${SEARCH_FILE}.damaged`;

type SearchConfig = Pick<SqliteConfig, 'directory' | 'min_free_bytes' | 'search'>;
type Parts = {
  readonly database: Database<StoreOperations>;
  readonly clock: Clock;
  readonly logger: Logger;
};

/** The files of an index of payload text. */
export type OpenIndex = {
  readonly bytes: number;
  readonly directory: string;
  readonly database: Database<IndexOperations>;
};

/**
 * Opens the index in a file of its own beside the store, whose writing thread it does not delay. Without payload search the file is
 * removed. An index of another size, or of a file that was damaged, begins again.
 */
export async function openIndex(
  { database, clock, logger }: Parts,
  config: SearchConfig,
): Promise<OpenIndex | undefined> {
  const bytes = config.search.payloads;
  if (bytes === undefined) {
    await database.write('texts.configure', [0, false]);
    await removeIndex(config.directory);
    return undefined;
  }
  const open = (): Promise<Database<IndexOperations>> =>
    openDatabase<typeof import('./index-operations.ts')>({
      directory: config.directory,
      name: SEARCH_FILE,
      createDirectory: false,
      minFreeBytes: config.min_free_bytes,
      reserveBytes: 0,
      operations: threadFile(import.meta.url, 'index-operations'),
      clock,
      logger,
    });
  const unusable = (err: unknown): undefined => {
    // A full disk says nothing about the index, which may take hours to make.
    if (err instanceof RetryableError && err.code === 'disk_full') throw err;
    logger.warn({ err }, 'Index of payload text could not be opened; it is made again');
    return undefined;
  };
  const known = await open().catch(unusable);
  const walk = await known?.read('index.walk', []).catch(unusable);
  const isSound = !existsSync(join(config.directory, DAMAGED)) && !database.isDamaged();
  const isUsable = isSound && known?.isDamaged() === false && walk?.bytes === bytes;
  if (known !== undefined && isUsable) {
    await database.write('texts.configure', [bytes, false]);
    return { bytes, directory: config.directory, database: known };
  }
  await known?.close();
  await removeIndex(config.directory);
  const index = await open();
  // First, so that writes note their changes from here on.
  await database.write('texts.configure', [bytes, true]);
  const { stored } = await database.search('texts.counts', []);
  await index.write('index.begin', [bytes, stored]);
  return { bytes, directory: config.directory, database: index };
}

/** Removes the index, also what was set aside of a damaged one; it is made again from the store. */
export async function removeIndex(directory: string): Promise<void> {
  const others = [DAMAGED, ...['.lock', '.pid', '.filled'].map((ending) => SEARCH_FILE + ending)];
  const files = (await readdir(directory)).filter(
    (name) => name.startsWith(`${SEARCH_FILE}.db`) || others.includes(name),
  );
  for (const name of files) await rm(join(directory, name), { force: true });
}

/** Keeps for the next start that it has to make the index again. On a full disk the next call or start finds the damage. */
async function markDamaged(directory: string): Promise<void> {
  await writeFile(join(directory, DAMAGED), '', { mode: 0o600 }).catch(() => undefined);
}

/** Returns the listener of searches that the index failed. */
export function indexFailures(
  { clock, logger }: Pick<Parts, 'clock' | 'logger'>,
  { directory }: Pick<SearchConfig, 'directory'>,
): (attached: AttachedFile, message: string) => void {
  let loggedAt: number | undefined;
  return ({ file, isDamaged }, err) => {
    const now = clock.uptime();
    if (loggedAt !== undefined && now - loggedAt < LOG_MS) return;
    loggedAt = now;
    logger.error(
      { file, err },
      'Index of payload text cannot be read; searches for text fail until a restart makes it again',
    );
    if (isDamaged) void markDamaged(directory);
  };
}

export type SqliteSearch = SearchStore & {
  /** Call after observations were written or removed. */
  wake(): void;
  /** The progress, for health; undefined without payload search. */
  progress(): SearchStatus | undefined;
  /** Removes what the index has of removed observations from its files. */
  purge(): Steps;
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): Promise<void>;
};

const NO_SEARCH: SqliteSearch = {
  status: async () => SEARCH_OFF,
  progress: () => undefined,
  wake() {},
  async *purge() {},
  async finish() {},
  async close() {},
  async crash() {},
};

export function sqliteSearch(
  { database, clock, logger }: Parts,
  index: OpenIndex | undefined,
  traces: Pick<TraceStore, 'getBatches' | 'batchStamps'>,
): SqliteSearch {
  if (index === undefined) return NO_SEARCH;
  const tables = searchTables(database, index);
  const cutter = textCutter(traces);
  const alone = oneByOne();
  // Until the first step.
  let last: SearchStatus = { ...SEARCH_OFF, state: 'indexing', payloadBytes: index.bytes };

  async function status(): Promise<SearchStatus> {
    const walk = await index?.database.read('index.walk', []);
    const { waiting } = await database.search('texts.counts', []);
    last = {
      state: walk?.place === null ? 'ready' : 'indexing',
      payloadBytes: tables.bytes,
      indexed: walk?.indexed ?? 0,
      stored: walk?.stored ?? 0,
      waiting,
    };
    return last;
  }

  const steps = inSteps(async function* () {
    for await (const _ of indexTexts(tables, cutter)) {
      await status();
      yield;
    }
    await status();
  });
  const rounds: Rounds = backgroundRounds(
    {
      ...{ clock, logger, betweenMs: BETWEEN_MS },
      failure: 'Payload text could not be indexed; retrying',
      step: () => alone(() => orMarked(index, steps)),
    },
    () => ROUND_MS,
  );

  return {
    status,
    progress: () => last,
    wake: () => rounds.wake(),
    async *purge() {
      const newest = await database.search('texts.newestChange', []);
      while (await database.search('texts.isWaiting', [newest])) {
        await alone(() => indexChanges(tables, cutter));
        yield;
      }
      for (let isFirst = true; await index.database.write('index.merge', [isFirst]); ) {
        isFirst = false;
        yield;
      }
      while (!(await index.database.truncateLog())) yield;
    },
    finish: () => rounds.finish(),
    async close() {
      await rounds.close();
      await cutter.close();
      await index.database.close();
    },
    async crash() {
      rounds.crash();
      await cutter.close();
      await index.database.crash();
    },
  };
}

/** Rejects as the step does. If the step met damage in the index, the next start makes it again. */
async function orMarked<Result>(
  { database, directory }: OpenIndex,
  step: () => Promise<Result>,
): Promise<Result> {
  try {
    return await step();
  } catch (error) {
    if (database.isDamaged()) await markDamaged(directory);
    throw error;
  }
}

function searchTables(
  database: Database<StoreOperations>,
  { bytes, database: index }: OpenIndex,
): SearchTables {
  return {
    bytes,
    changes: () => database.search('texts.changes', []),
    place: async () => (await index.read('index.walk', []))?.place ?? null,
    stored: (before) => database.search('texts.stored', [before]),
    async save(step, changes) {
      await index.write('index.save', [step]);
      // Only then: an index that lost a step would never get it.
      if (changes.length > 0) await database.write('texts.indexed', [changes]);
    },
  };
}

/** A step of two callers at once could save an older text over a newer one. */
function oneByOne(): <Result>(work: () => Promise<Result>) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}
