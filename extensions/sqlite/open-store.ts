import type { Logger, Settings } from '../../src/component/component.ts';
import type { DatabaseHealth } from '../../src/sqlite/condition.ts';
import type { Database } from '../../src/sqlite/database.ts';
import { openDatabase } from '../../src/sqlite/database.ts';
import type { SqliteQueueStorage } from '../../src/sqlite/queue/storage.ts';
import { queueStorage } from '../../src/sqlite/queue/storage.ts';
import type { SalvagedDatabase } from '../../src/sqlite/salvage-directory.ts';
import { salvageDatabase } from '../../src/sqlite/salvage-directory.ts';
import { ChangeFeed } from '../../src/store/changes.ts';
import { ErasureBlocks } from '../../src/store/erasing/blocks.ts';
import { ErasedInFlight } from '../../src/store/erasing/in-flight.ts';
import { removalCounters } from '../../src/store/removals.ts';
import type { Store } from '../../src/store/store.ts';
import type { TermMetrics } from '../../src/store/term-metrics.ts';
import { termMetrics } from '../../src/store/term-metrics.ts';
import type { FirstProject } from '../../src/tenancy/bootstrap.ts';
import type { Tenancy, TenancySettings } from '../../src/tenancy/open.ts';
import { openTenancy } from '../../src/tenancy/open.ts';
import { WITHOUT_RETENTION } from '../../src/tenancy/retention.ts';
import type { VerifyProgress } from '../../src/tenancy/rows.ts';
import type { Difference } from '../../src/tenancy/usage.ts';
import { threadFile } from '../../src/thread/thread.ts';
import { sqliteAttachments } from './attachments/attachments.ts';
import { ClockWatch } from './clock-watch.ts';
import type { SqliteConfig } from './config.ts';
import type { SqliteErasures } from './erasing/erasing.ts';
import { sqliteErasures } from './erasing/erasing.ts';
import type { SqliteHousekeeping } from './housekeeping.ts';
import { sqliteHousekeeping } from './housekeeping.ts';
import type { StoreOperations } from './operations.ts';
import type { OpenIndex, SqliteSearch } from './search/search.ts';
import { indexFailures, openIndex, removeIndex, sqliteSearch } from './search/search.ts';
import { sqliteRows } from './tenancy/rows.ts';
import { sqliteUiSessions } from './tenancy/ui-sessions.ts';
import { sqliteBacklog } from './traces/backlog.ts';
import { sqliteCosts } from './traces/costs.ts';
import type { Posting } from './traces/posting-rounds.ts';
import { posting } from './traces/posting-rounds.ts';
import type { RollupFolding } from './traces/rollup-folding.ts';
import { rollupFolding } from './traces/rollup-folding.ts';
import { sqliteRollups } from './traces/rollups.ts';
import { sqliteScores } from './traces/scores.ts';
import type { Summarizing } from './traces/summarizing.ts';
import { summarizing } from './traces/summarizing.ts';
import { sqliteGroups } from './traces/trace-groups.ts';
import { sqliteRanks } from './traces/trace-ranks.ts';
import { sqliteTraces } from './traces/traces.ts';

export type OpenSqliteStore = {
  readonly store: Store;
  readonly first: FirstProject | undefined;
  /** Whether the disk has room, and how much; whether the file is in its place and sound. */
  health(): DatabaseHealth;
  /** The progress of the index of payload text; undefined without payload search. */
  readonly search: Pick<SqliteSearch, 'progress'>;
  /** Whether damage was found since the start, or at the start. */
  isDamaged(): boolean;
  close(): Promise<void>;
  /** Does all background work now. */
  finish(): Promise<void>;
  /** Ends as a crash would, without another write. */
  crash(): Promise<void>;
};

const FILES = 'store';
const OPERATIONS = threadFile(import.meta.url, 'operations');

/** Copies every readable row of a store into a new file, and keeps the former one. */
export async function salvageSqliteStore(
  directory: string,
  logger: Logger,
): Promise<SalvagedDatabase[]> {
  const salvaged = await salvageDatabase(
    { directory, name: FILES, operations: OPERATIONS },
    logger,
  );
  // The next start makes it again, of the rows that are left.
  await removeIndex(directory);
  return [salvaged];
}

/** Rejects with an `Error` that names the obstacle: the lock, the permissions, the file. */
export async function openSqliteStore(
  settings: Pick<Settings, 'metrics'> & TenancySettings,
  config: SqliteConfig,
  onRemoved: () => void = () => undefined,
): Promise<OpenSqliteStore> {
  const { clock, logger } = settings;
  const database = await openDatabase<typeof import('./operations.ts')>({
    directory: config.directory,
    name: FILES,
    createDirectory: true,
    minFreeBytes: config.min_free_bytes,
    reserveBytes: config.reserve_bytes,
    operations: OPERATIONS,
    onRemoved,
    onAttachedFailed: indexFailures({ clock, logger }, config),
    clock,
    logger,
  });
  let index: OpenIndex | undefined;
  try {
    index = await openIndex({ database, clock, logger }, config);
    const queues = await queueStorage(database, clock, logger, {
      removesProjects: false,
    });
    const { usage } = queues;
    const rows = sqliteRows(database, usage);
    const verify = (progress: VerifyProgress): Promise<Difference[]> => usage.verify(progress);
    const tenancy = await openTenancy(rows, settings, config, verify);
    await database.markFilled();
    const blocks = new ErasureBlocks(() => clock.now());
    await blocks.renew(() => database.read('erasing.blocks', [clock.now()]));
    const known = (await database.read('purge.knownTime', [])) ?? undefined;
    const clockWatch = new ClockWatch(clock, logger, known);
    return storeIn({ database, index, queues, tenancy, blocks, clockWatch }, settings, config);
  } catch (error) {
    await index?.database.close();
    await database.close();
    throw error;
  }
}

type OpenParts = {
  readonly database: Database<StoreOperations>;
  readonly index: OpenIndex | undefined;
  readonly queues: SqliteQueueStorage;
  readonly tenancy: Tenancy;
  readonly blocks: ErasureBlocks;
  readonly clockWatch: ClockWatch;
};

function storeIn(
  { database, index, queues, tenancy, blocks, clockWatch }: OpenParts,
  { clock, logger, metrics }: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  config: SqliteConfig,
): OpenSqliteStore {
  const { retention, projects, keys, organization, usage, rejections, audit } = tenancy;
  const removed = removalCounters(metrics);
  const inFlight = new ErasedInFlight();
  const keeper = sqliteHousekeeping({
    database,
    queues,
    retention,
    clock,
    clockWatch,
    logger,
    removed,
    texts: { purge: () => search.purge() },
    rejectionsMaxAge: config.rejections.max_age,
  });
  const terms = termMetrics(metrics, () => database.search('traces.withoutTerms', []));
  const rollups = rollupFolding(database, clock, logger);
  const postings = posting(database, clock, logger);
  const changes = new ChangeFeed();
  const summaries = summarizing(database, terms, rollups, changes, clock, logger);
  projects.onDelete(() => keeper.wake());
  const staleBefore = (): number => clock.now() - config.stale_after;
  const traceParts = {
    ...{ database, queues, summaries, terms, rollups, postings },
    ...{ inFlight, blocks, changes, staleBefore },
    texts: { wake: () => search.wake() },
  };
  const traces = sqliteTraces({ ...traceParts, retention });
  const search = sqliteSearch({ database, clock, logger }, index, traces);
  const erasures = sqliteErasures({
    ...{
      database,
      queues,
      inFlight,
      blocks,
      removed,
      projects,
      changes,
      clock,
      clockWatch,
      logger,
    },
    traces: sqliteTraces({ ...traceParts, retention: WITHOUT_RETENTION }),
    texts: search,
  });
  const store: Store = {
    ...{ projects, keys, traces, organization, usage, rejections, audit, changes },
    groups: sqliteGroups(database, retention, staleBefore),
    ranks: sqliteRanks(database, retention, staleBefore),
    scores: sqliteScores(database, retention),
    attachments: sqliteAttachments(database, retention),
    rollups: sqliteRollups(database, retention, staleBefore),
    counters: queues.usage,
    costs: sqliteCosts(database, summaries, rollups),
    backlog: sqliteBacklog(database),
    erasures: erasures.store,
    uiSessions: sqliteUiSessions(database, clock),
    search,
    openQueue: queues.openQueue,
  };
  return {
    store,
    first: tenancy.first,
    health: () => healthOf(database.health(), clockWatch),
    search,
    isDamaged: database.isDamaged,
    ...lifecycleOf(database, queues, tenancy, {
      ...{ terms, summaries, erasures, search, rollups, postings, keeper },
    }),
  };
}

/** The trouble of the files precedes that of the clock, and a note on the files or the clock that asks for nothing comes last. */
function healthOf(files: DatabaseHealth, { trouble }: ClockWatch): DatabaseHealth {
  if (trouble === undefined || !files.healthy || !files.ready) return files;
  if (files.message !== undefined && trouble.healthy) return files;
  return { ...files, ...trouble };
}

type Workers = {
  readonly terms: TermMetrics;
  readonly summaries: Summarizing;
  readonly erasures: SqliteErasures;
  readonly search: SqliteSearch;
  readonly rollups: RollupFolding;
  readonly postings: Posting;
  readonly keeper: SqliteHousekeeping;
};

function lifecycleOf(
  database: Database<StoreOperations>,
  queues: SqliteQueueStorage,
  tenancy: Tenancy,
  { terms, summaries, erasures, search, rollups, postings, keeper }: Workers,
): Pick<OpenSqliteStore, 'finish' | 'close' | 'crash'> {
  return {
    async finish() {
      await queues.tidy();
      await erasures.finish();
      await keeper.finish();
      await summaries.finish();
      await rollups.finish();
      await postings.finish();
      await search.finish();
    },
    async close() {
      terms.close();
      await summaries.close();
      await erasures.close();
      await search.close();
      await rollups.close();
      await postings.close();
      await keeper.close();
      await queues.close();
      await tenancy.close();
      await database.close();
    },
    async crash() {
      terms.close();
      summaries.crash();
      erasures.crash();
      rollups.crash();
      postings.crash();
      keeper.crash();
      queues.crash();
      tenancy.crash();
      await search.crash();
      await database.crash();
    },
  };
}
