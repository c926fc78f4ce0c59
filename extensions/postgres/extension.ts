import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { deferred } from '../../src/component/deferred.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { STORE } from '../../src/store/store.ts';
import { BOOTSTRAP, type Bootstrap } from '../../src/tenancy/bootstrap.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { SHARED_LEDGER } from '../../src/tenancy/shared-ledger.ts';
import { readClientTls } from '../../src/tls/client.ts';
import type { PostgresConfig } from './config.ts';
import { assertMigrated, migrate } from './connection/migrate.ts';
import type { Postgres, PostgresSettings } from './connection/pool.ts';
import { openPostgres } from './connection/pool.ts';
import { MIGRATIONS } from './migrations/index.ts';
import type { OpenPostgresStore } from './open-store.ts';
import { openPostgresStore } from './open-store.ts';

/**
 *   start ──▶ pool ──▶ tables up to date ──▶ store, its queues, counters and ledger
 *
 * The start needs Postgres. Once started, the extension survives outages: calls fail until it is back.
 */
export function createExtension(settings: Settings, config: PostgresConfig): Extension {
  const { id, host, metrics, logger } = settings;
  let postgres: Postgres | undefined;
  let open: OpenPostgresStore | undefined;
  let closers: (() => void)[] = [];
  const owner = `extension ${id}`;
  const store = deferred(owner, () => open?.store);
  const queues = deferred(owner, () => open?.queues);
  const counters = deferred(owner, () => open?.store.counters);
  const ledger = deferred(owner, () => open?.ledger);
  const bootstrap: Bootstrap = {
    get first() {
      return open?.first;
    },
  };

  return {
    async start() {
      const connection = await connectionOf(settings, config);
      const pool = await openPostgres(connection);
      postgres = pool;
      await prepare(pool, settings, config);
      const opened = await openPostgresStore(pool, connection, settings, config);
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
      // An outage must not fail the shutdown.
      await closing?.close().catch((error: unknown) => {
        logger.warn({ err: error }, 'Leases could not be released; they expire');
      });
      await pool?.close();
    },
    offers: [
      offer(STORE, store),
      offer(QUEUE_STORAGE, queues),
      offer(SHARED_QUEUES, queues),
      offer(USAGE_COUNTERS, counters),
      offer(SHARED_LEDGER, ledger),
      offer(BOOTSTRAP, bootstrap),
    ],
  };
}

/** How long Postgres must be away before the process leaves the rotation: one failed statement is not enough. */
const AWAY_MS = 1000;

/**
 * A process that cannot reach Postgres is not ready, because other replicas may reach it. If Postgres answers and
 * rejects writes, it rejects those of every replica: the process stays ready and answers 503 until a write succeeds.
 */
function healthOf(pool: Postgres): ComponentHealth {
  const { open, waiting } = pool.usage();
  const outage = pool.outage();
  return {
    healthy: outage === undefined,
    ...(outage?.isAway === true && outage.lasts >= AWAY_MS ? { ready: false } : {}),
    ...(outage === undefined ? {} : { message: outage.message }),
    details: { connections: open, waiting },
  };
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
  if (applied.length > 0) logger.info({ applied }, 'Tables in Postgres brought up to date');
}
