import { readFile } from 'node:fs/promises';
import type { ConnectionOptions as TlsOptions } from 'node:tls';
import type { Capability, Extension, Settings } from '../../src/component/component.ts';
import { assertMigrated, migrate } from '../../src/postgres/migrate.ts';
import type { Postgres } from '../../src/postgres/pool.ts';
import { openPostgres } from '../../src/postgres/pool.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import type { SharedQueueStorage } from '../../src/queue/shared-queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { HEALTH_REGISTRY } from '../../src/telemetry/health.ts';
import type { PostgresConfig } from './config.ts';
import { MIGRATIONS } from './migrations/index.ts';
import type { OpenDatabase } from './open.ts';
import { openDatabase } from './open.ts';

/**
 *   start ──▶ pool ──▶ tables up to date ──▶ queues, offered as `queue_storage` and `shared_queues`
 *
 * A Postgres that goes away is waited for; one that is away at the start refuses the start.
 */
export function postgresExtension(settings: Settings, config: PostgresConfig): Extension {
  const { id, clock, logger, host, metrics } = settings;
  let postgres: Postgres | undefined;
  let open: OpenDatabase | undefined;
  let closers: (() => void)[] = [];
  const queues = (): SharedQueueStorage => {
    if (open === undefined) throw new Error(`extension ${id} is not started`);
    return open.queues;
  };
  // The offer exists before the start, because components look it up while they are created.
  const offer: SharedQueueStorage = {
    openQueue: async (options) => queues().openQueue(options),
    alone: async (name, work) => queues().alone(name, work),
  };

  return {
    async start() {
      const { url, max_connections: maxConnections, connect_timeout, query_timeout } = config;
      const timeouts = { connectTimeout: connect_timeout, queryTimeout: query_timeout };
      const tls = await tlsOptions(config.tls);
      const pool = await openPostgres({ url, maxConnections, ...timeouts, tls, logger });
      postgres = pool;
      await prepare(pool, settings, config);
      open = await openDatabase(pool, clock, logger);
      const opened = open;
      closers = [
        host.service(HEALTH_REGISTRY).register(id, () => ({
          healthy: opened.isThere(),
          ...(opened.isThere() ? {} : { message: 'Postgres cannot be reached.' }),
          details: { connections: pool.usage().open, waiting: pool.usage().waiting },
        })),
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
    provide: <T>(wanted: Capability<T>) =>
      wanted.name === QUEUE_STORAGE.name || wanted.name === SHARED_QUEUES.name
        ? (offer as T)
        : undefined,
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

async function tlsOptions(tls: PostgresConfig['tls']): Promise<TlsOptions | undefined> {
  if (tls === undefined) return undefined;
  const [ca, cert, key] = await Promise.all(
    [tls.ca_file, tls.cert_file, tls.key_file].map((file) =>
      file === undefined ? undefined : readFile(file),
    ),
  );
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(tls.server_name_override === undefined ? {} : { servername: tls.server_name_override }),
    rejectUnauthorized: !tls.insecure_skip_verify,
  };
}
