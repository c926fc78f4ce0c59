import type { Settings } from '../../src/component/component.ts';
import type { Store } from '../../src/store/store.ts';
import type { FirstProject } from '../../src/tenancy/bootstrap.ts';
import type { Tenancy, TenancyConfig } from '../../src/tenancy/open.ts';
import { openTenancy } from '../../src/tenancy/open.ts';
import type { SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import { beginAccepting } from './batches/accept-lock.ts';
import { acceptBatches, keepDelivered } from './batches/accepting.ts';
import { readBatches } from './batches/batches.ts';
import { ensurePartitions } from './batches/partitions.ts';
import type { Postgres, PostgresSettings } from './connection/pool.ts';
import type { QueueDatabase } from './database.ts';
import { housekeeping } from './housekeeping.ts';
import { notices } from './notices.ts';
import type { PostgresQueues } from './queue/storage.ts';
import { openQueues } from './queue/storage.ts';
import { postgresCounters } from './tenancy/counters.ts';
import { postgresRows } from './tenancy/rows.ts';
import { sharedLedger } from './tenancy/shared-ledger.ts';
import { usageTimes } from './tenancy/usage-times.ts';
import { postgresTraces } from './traces/traces.ts';

export type OpenStore = {
  readonly store: Store;
  readonly queues: PostgresQueues;
  readonly ledger: SharedLedger;
  readonly first: FirstProject | undefined;
  close(): Promise<void>;
  /** Does at once what is done in small steps else: removes, sums up. */
  finish(): Promise<void>;
  /** Ends as a crash would: nothing more is written. */
  crash(): Promise<void>;
};

/** The store in tables that are up to date. `connection`: how notices of other processes are heard. */
export async function openStore(
  postgres: Postgres,
  connection: PostgresSettings,
  settings: Pick<Settings, 'clock' | 'logger' | 'metrics'>,
  config: TenancyConfig,
): Promise<OpenStore> {
  const { clock, logger, metrics } = settings;
  const usageTime = usageTimes(postgres, clock);
  const accepting = databaseOf(postgres, async (client, batches) => {
    await usageTime.load(batches);
    return acceptBatches(client, batches, usageTime.of);
  });
  const delivered = databaseOf(postgres, async (client, batches) => {
    await usageTime.load(batches);
    await keepDelivered(client, batches, usageTime.of);
    return new Set();
  });
  const counters = postgresCounters(postgres, clock, logger);
  const told = notices();
  const rows = postgresRows(postgres, told.notify);
  const opening = Promise.withResolvers<Tenancy>();
  const listening = await told.listen(connection, clock, opening.promise);
  opening.resolve(openTenancy(rows, settings, config, counters.verify));
  const tenancy = await opening.promise.catch(async (error: unknown) => {
    await listening.close();
    throw error;
  });
  const { retention, projects, keys, organization, usage, rejections, audit } = tenancy;
  // Before the first batch comes: what stands in the default partition keeps its day from being made.
  await ensurePartitions(postgres, clock.now(), 0).catch((error: unknown) => {
    logger.warn({ error }, 'the partition of today could not be made yet');
  });
  const queues = await openQueues(accepting, clock, logger);
  const keeper = housekeeping({
    ...{ postgres, queues, counters, retention, clock, logger, metrics },
    rejectionsMaxAge: config.rejections.max_age,
  });
  projects.onDelete(() => keeper.wake());
  const store: Store = {
    ...{ projects, keys, organization, usage, counters, rejections, audit },
    traces: postgresTraces(delivered, retention),
    openQueue: queues.openQueue,
  };
  return {
    store,
    queues,
    ledger: sharedLedger(postgres, clock),
    first: tenancy.first,
    finish: () => keeper.finish(),
    async close() {
      await listening.close();
      await keeper.close();
      await counters.close();
      await tenancy.close();
      await queues.close();
    },
    async crash() {
      keeper.crash();
      tenancy.crash();
      queues.crash();
      await listening.close();
    },
  };
}

function databaseOf(postgres: Postgres, keep: QueueDatabase['keep']): QueueDatabase {
  return {
    query: postgres.query,
    transaction: postgres.transaction,
    promptly: postgres.promptly,
    deletedAmong: beginAccepting,
    keep,
    read: (wanted) =>
      readBatches(
        postgres,
        wanted.map(({ id }) => id),
      ),
  };
}
