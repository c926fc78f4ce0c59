import type { Capability } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { SharedQueueStorage } from '../../src/queue/shared-queue.ts';
import { lateCounters } from '../../src/store/late-counters.ts';
import { lateStore } from '../../src/store/late-store.ts';
import type { Bootstrap } from '../../src/tenancy/bootstrap.ts';
import type { SharedLedger } from '../../src/tenancy/shared-ledger.ts';
import { readClientTls } from '../../src/tls/client.ts';
import type { PostgresConfig } from './config.ts';
import { assertMigrated, migrate } from './connection/migrate.ts';
import type { Postgres, PostgresSettings } from './connection/pool.ts';
import { openPostgres } from './connection/pool.ts';
import { MIGRATIONS } from './migrations/index.ts';
import type { OpenStore } from './open-store.ts';
import { openStore } from './open-store.ts';

/**
 *   start ──▶ pool ──▶ tables up to date ──▶ store, its queues, counters and ledger
 *
 * A Postgres that goes away is waited for; one that is away at the start refuses the start.
 */
export function createExtension(settings: Settings, config: PostgresConfig): Extension {
  const { id, host, metrics, logger } = settings;
  let postgres: Postgres | undefined;
  let open: OpenStore | undefined;
  let closers: (() => void)[] = [];
  const offers = offersOf(() => {
    if (open === undefined) throw new Error(`extension ${id} is not started`);
    return open;
  });
  // What the start made for itself is asked for whether it has started or not.
  const bootstrap: Bootstrap = {
    get first() {
      return open?.first;
    },
  };
  offers.set('bootstrap', bootstrap);

  return {
    async start() {
      const connection = await connectionOf(settings, config);
      const pool = await openPostgres(connection);
      postgres = pool;
      await prepare(pool, settings, config);
      const opened = await openStore(pool, connection, settings, config);
      open = opened;
      closers = [
        host.service(HEALTH_REGISTRY).register(id, () => healthOf(pool)),
        metrics.gauge('tracectl_postgres_connections', 'Open connections to Postgres.', () => [
          { value: pool.usage().open, labels: { extension: id } },
        ]),
      ];
    },
    async shutdown() {
      for (const close of closers) close();
      closers = [];
      const [closing, pool] = [open, postgres];
      open = undefined;
      postgres = undefined;
      // A database that is away has nothing to be told.
      await closing?.close().catch((error: unknown) => {
        logger.warn({ error }, 'what was leased is given back when its time is over');
      });
      await pool?.close();
    },
    provide: <T>(wanted: Capability<T>) => offers.get(wanted.name) as T | undefined,
  };
}

/** One statement that fails does not take a process out of rotation. */
const PATIENCE_MS = 1000;

/**
 * Who cannot reach Postgres is not ready: other replicas may reach it. One that is there and refuses refuses
 * all of them; what is sent then is answered with 503, and the first that is taken again shows that it is over.
 */
function healthOf(pool: Postgres): ComponentHealth {
  const { open, waiting } = pool.usage();
  const outage = pool.outage();
  return {
    healthy: outage === undefined,
    ...(outage?.isAway === true && outage.lasts >= PATIENCE_MS ? { ready: false } : {}),
    ...(outage === undefined ? {} : { message: outage.message }),
    details: { connections: open, waiting },
  };
}

/** Offers exist before the start, because components look them up while they are created. */
function offersOf(open: () => OpenStore): Map<string, unknown> {
  const store = lateStore(() => open().store);
  const queues: SharedQueueStorage = {
    openQueue: async (options) => open().queues.openQueue(options),
    withAdvisoryLock: async (name, work) => open().queues.withAdvisoryLock(name, work),
  };
  const ledger: SharedLedger = {
    newestEpoch: async (organizationId) => open().ledger.newestEpoch(organizationId),
    beginEpoch: async (...values) => open().ledger.beginEpoch(...values),
    decide: async (...values) => open().ledger.decide(...values),
    record: async (entries) => open().ledger.record(entries),
  };
  return new Map<string, unknown>([
    ['store', store],
    ['queue_storage', queues],
    ['shared_queues', queues],
    ['usage_counters', lateCounters(() => store.counters)],
    ['shared_ledger', ledger],
  ]);
}

async function connectionOf(
  { logger, clock }: Settings,
  { url, max_connections: maxConnections, connect_timeout, query_timeout, tls }: PostgresConfig,
): Promise<PostgresSettings> {
  const timeouts = { connectTimeout: connect_timeout, queryTimeout: query_timeout };
  return {
    url,
    maxConnections,
    ...timeouts,
    tls: tls && (await readClientTls(tls)),
    clock,
    logger,
  };
}

async function prepare(
  postgres: Postgres,
  { logger }: Settings,
  { migrate: mode }: PostgresConfig,
): Promise<void> {
  if (mode === 'off') return assertMigrated(postgres, MIGRATIONS);
  const applied = await migrate(postgres, MIGRATIONS);
  if (applied.length > 0)
    logger.info({ applied }, 'the tables in Postgres were brought up to date');
}
