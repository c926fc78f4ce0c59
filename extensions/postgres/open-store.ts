import type { Clock, Settings } from '../../src/component/component.ts';
import { ErasureBlocks } from '../../src/store/erasing/blocks.ts';
import type { Store } from '../../src/store/store.ts';
import { termMetrics } from '../../src/store/term-metrics.ts';
import type { FirstProject } from '../../src/tenancy/bootstrap.ts';
import type { Tenancy, TenancyConfig, TenancySettings } from '../../src/tenancy/open.ts';
import { openTenancy } from '../../src/tenancy/open.ts';
import { WITHOUT_RETENTION } from '../../src/tenancy/retention.ts';
import type { SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import { postgresAttachments } from './attachments/attachments.ts';
import { ensurePartitions } from './batches/partitions.ts';
import type { PostgresConfig } from './config.ts';
import type { NoticeSettings } from './connection/listener.ts';
import type { Postgres } from './connection/pool.ts';
import type { PostgresPools } from './connection/pools.ts';
import { storeDatabase } from './database.ts';
import { postgresErasures } from './erasing/erasing.ts';
import { postgresHousekeeping } from './housekeeping.ts';
import { notices } from './notices.ts';
import type { PostgresQueues } from './queue/storage.ts';
import { openQueues } from './queue/storage.ts';
import { postgresTextDialect } from './search/dialect.ts';
import type { PostgresSearch } from './search/search.ts';
import { postgresSearch } from './search/search.ts';
import { postgresCounters } from './tenancy/counters.ts';
import { ledgerSums } from './tenancy/ledger-sums.ts';
import { postgresRows } from './tenancy/rows.ts';
import { sharedLedger } from './tenancy/shared-ledger.ts';
import { postgresUiSessions } from './tenancy/ui-sessions.ts';
import { usageTimes } from './tenancy/usage.ts';
import { traceKeeper } from './trace-keeper.ts';
import { TraceNotices } from './trace-notices.ts';
import { postgresBacklog } from './traces/backlog.ts';
import { postgresCosts } from './traces/costs.ts';
import { postgresDialect } from './traces/dialect.ts';
import { ensureTracePartitions, partitionDays } from './traces/partitions.ts';
import { tracesWithoutTerms } from './traces/postings.ts';
import { postgresRollups } from './traces/rollups.ts';
import { postgresScores } from './traces/scores.ts';
import { postgresGroups } from './traces/trace-groups.ts';
import { postgresRanks } from './traces/trace-ranks.ts';
import type { Reading } from './traces/traces.ts';
import { postgresTraces } from './traces/traces.ts';

export type OpenPostgresStore = {
  readonly store: Store;
  readonly queues: PostgresQueues;
  /** The progress of the index of payload text; undefined without payload search. */
  readonly search: Pick<PostgresSearch, 'progress'>;
  readonly ledger: SharedLedger;
  readonly first: FirstProject | undefined;
  /** Why no data expires, as a sentence for people; undefined while it does. */
  trouble(): string | undefined;
  close(): Promise<void>;
  /** Does the pending background work now instead of step by step. */
  finish(): Promise<void>;
  /** Ends as a crash would, without another write. */
  crash(): Promise<void>;
};

/** Opens the store in tables that are up to date. `connection`: how notices of other processes are heard. */
export async function openPostgresStore(
  pools: PostgresPools,
  connection: NoticeSettings,
  settings: Pick<Settings, 'metrics'> & TenancySettings,
  config: TenancyConfig &
    Pick<PostgresConfig, 'group_timeout' | 'stale_after' | 'trace_partitions' | 'search'>,
): Promise<OpenPostgresStore> {
  const { clock, logger, metrics } = settings;
  const groups = { ms: config.group_timeout, clock, logger };
  const terms = termMetrics(metrics, () => tracesWithoutTerms(pools.housekeeping));
  const { changes, traceNotices } = sharedChanges(pools, settings);
  const database = storeDatabase(pools, usageTimes(pools.accept, clock), terms, traceNotices);
  const counters = postgresCounters(pools, clock, logger);
  const rows = postgresRows(pools, changes.notify);
  const opening = Promise.withResolvers<Tenancy>();
  const listening = await changes.listen(connection, clock, opening.promise, traceNotices);
  opening.resolve(openTenancy(rows, settings, config, counters.verify));
  const tenancy = await opening.promise.catch(async (error: unknown) => {
    terms.close();
    await listening.close();
    throw error;
  });
  const { retention, projects, keys, organization, usage, rejections, audit } = tenancy;
  // Before the first batch: a row of today in the default partition prevents the partition of today.
  await createFirst(pools.housekeeping, clock.now(), config, tenancy).catch((error: unknown) => {
    logger.warn({ err: error }, 'Partition of today could not be created yet');
  });
  const queues = await openQueues(database, clock, logger, groups.ms);
  const keeper = postgresHousekeeping({
    ...{ postgres: pools.housekeeping, queues, counters, retention, clock, logger, metrics },
    rejectionsMaxAge: config.rejections.max_age,
    tracePartitions: config.trace_partitions,
  });
  const sums = ledgerSums(pools.housekeeping, clock, logger);
  const traceWork = traceKeeper(pools.housekeeping, { clock, logger }, terms, traceNotices);
  projects.onDelete(() => keeper.wake());
  const reading = readingOf(pools, clock, config);
  const blocks = new ErasureBlocks(() => clock.now());
  const traces = postgresTraces(database, retention, groups, reading, blocks);
  const search = postgresSearch({ pools, traces, clock, logger }, config.search.payloads);
  const erasures = await postgresErasures({
    ...{ pools, queues, projects, blocks, clock, logger, metrics, changes: traceNotices },
    traces: postgresTraces(database, WITHOUT_RETENTION, groups, reading, blocks),
  });
  const store: Store = {
    ...{ projects, keys, organization, usage, counters, rejections, audit, traces },
    groups: postgresGroups(pools.read, retention, reading),
    backlog: postgresBacklog(pools.read),
    changes: traceNotices,
    ranks: postgresRanks(retention, reading),
    scores: postgresScores(database, retention, pools.read),
    attachments: postgresAttachments(database, retention, pools.read),
    erasures: erasures.store,
    rollups: postgresRollups(pools.read, reading, retention),
    uiSessions: postgresUiSessions(pools, clock),
    costs: postgresCosts(pools.housekeeping, database.prices),
    openQueue: queues.openQueue,
    search,
  };
  return {
    ...{ store, queues, search, first: tenancy.first, trouble: keeper.trouble },
    ledger: sharedLedger(pools, clock),
    async finish() {
      for (const each of [sums, erasures, keeper, traceWork, search]) await each.finish();
    },
    async close() {
      terms.close();
      await listening.close();
      const parts = [erasures, search, keeper, traceWork, sums, counters, tenancy, queues];
      for (const each of parts) await each.close();
    },
    async crash() {
      terms.close();
      keeper.crash();
      erasures.crash();
      traceWork.crash();
      search.crash();
      sums.stop();
      tenancy.crash();
      queues.crash();
      await listening.close();
    },
  };
}

function readingOf(
  { read }: PostgresPools,
  clock: Clock,
  { stale_after: staleAfter, search }: Pick<PostgresConfig, 'stale_after' | 'search'>,
): Reading {
  const now = (): number => clock.now();
  const dialect = search.payloads === undefined ? postgresDialect : postgresTextDialect;
  return { client: read, dialect, staleBefore: () => now() - staleAfter, now };
}

/** The notices of this process, and of the traces that it writes. */
function sharedChanges(pools: PostgresPools, settings: Pick<Settings, 'clock' | 'logger'>) {
  const changes = notices();
  const traceNotices = new TraceNotices(
    (kind, text) => changes.notify(pools.housekeeping, kind, text),
    settings,
  );
  return { changes, traceNotices };
}

/** Creates the partitions of today. */
async function createFirst(
  database: Postgres,
  now: number,
  { trace_partitions: configured }: Pick<PostgresConfig, 'trace_partitions'>,
  { retention }: Tenancy,
): Promise<void> {
  await ensurePartitions(database, now, 0);
  const days = await partitionDays(database, configured, (id) => retention.daysOf(id));
  await ensureTracePartitions(database, now, days, 0);
}
