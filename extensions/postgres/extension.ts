import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { deferred } from '../../src/component/deferred.ts';
import { FIRST_TOKENS } from '../../src/component/first-tokens.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { searchDetails } from '../../src/store/search/status.ts';
import { STORE } from '../../src/store/store.ts';
import { BOOTSTRAP, type Bootstrap, type FirstProject } from '../../src/tenancy/bootstrap.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { SHARED_LEDGER } from '../../src/tenancy/shared-ledger.ts';
import { readClientTls } from '../../src/tls/client.ts';
import type { PostgresConfig } from './config.ts';
import { checkEncoding } from './connection/encoding.ts';
import { sqlStateOf, startError } from './connection/errors.ts';
import { assertMigrated, migrate } from './connection/migrate.ts';
import type { ConnectionSettings } from './connection/pool.ts';
import { openPostgres } from './connection/pool.ts';
import type { PostgresPools } from './connection/pools.ts';
import { openPools } from './connection/pools.ts';
import { NO_STANDBY } from './connection/standby-wait.ts';
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
  let postgres: PostgresPools | undefined;
  let open: OpenPostgresStore | undefined;
  let closers: (() => void)[] = [];
  const owner = `extension ${id}`;
  const store = deferred(owner, () => open?.store);
  const queues = deferred(owner, () => open?.queues);
  const counters = deferred(owner, () => open?.store.counters);
  const ledger = deferred(owner, () => open?.ledger);
  let first: FirstProject | undefined;
  const bootstrap: Bootstrap = {
    get first() {
      return first;
    },
  };

  async function begin(): Promise<void> {
    const connection = await connectionOf(settings, config);
    await prepare(connection, settings, config);
    const { max_connections: maxConnections, read_connections: readConnections } = config;
    const timeouts = timeoutsOf(config);
    const pools = await openPools({ ...connection, maxConnections, readConnections, timeouts });
    postgres = pools;
    const queryTimeout = timeouts.accept;
    const opened = await openPostgresStore(
      pools,
      { ...connection, queryTimeout },
      { ...settings, firstTokens: host.service(FIRST_TOKENS) },
      config,
    );
    open = opened;
    first = opened.first;
    // Stays until the end of the shutdown, whose log names what it waits for.
    host.service(HEALTH_REGISTRY).register(id, () => healthOf(pools, opened));
    closers = [
      metrics.gauge('tracectl_postgres_connections', 'Open connections to Postgres.', () => [
        { value: pools.usage().open, labels: { extension: id } },
      ]),
    ];
  }

  return {
    start: () =>
      begin().catch(async (error: unknown) => {
        throw startError((await standbyError(error, settings, config)) ?? error);
      }),
    async shutdown() {
      for (const close of closers) close();
      closers = [];
      const [closing, pools] = [open, postgres];
      open = undefined;
      postgres = undefined;
      // An outage must not fail the shutdown.
      await closing?.close().catch((error: unknown) => {
        logger.warn({ err: error }, 'Leases could not be released; they expire');
      });
      await pools?.close();
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
 * rejects writes, or another session blocks them, that concerns every replica: the process stays ready and answers 503
 * until a write succeeds.
 */
function healthOf(pools: PostgresPools, { search, trouble }: OpenPostgresStore): ComponentHealth {
  const { open, waiting } = pools.usage();
  const outage = pools.outage();
  const message = outage?.message ?? pools.blockedBy() ?? trouble();
  return {
    healthy: message === undefined,
    ...(outage?.isAway === true && outage.lasts >= AWAY_MS ? { ready: false } : {}),
    ...(message === undefined ? {} : { message }),
    details: { connections: open, waiting, ...searchDetails(search.progress()) },
  };
}

async function connectionOf(
  { logger, clock }: Settings,
  { url, connect_timeout: connectTimeout, tls }: PostgresConfig,
): Promise<ConnectionSettings> {
  return { url, connectTimeout, tls: tls && (await readClientTls(tls)), clock, logger };
}

/** A start whose commit waits for a synchronous standby ends without an answer, as if the server were away. */
async function standbyError(
  error: unknown,
  settings: Settings,
  config: PostgresConfig,
): Promise<unknown> {
  const isUnanswered =
    error instanceof RetryableError &&
    error.cause instanceof Error &&
    sqlStateOf(error.cause) === '';
  if (!isUnanswered) return undefined;
  const connection = await connectionOf(settings, config);
  const { accept: queryTimeout } = timeoutsOf(config);
  const standbyWait = { ms: queryTimeout / 2, sessions: 1 };
  const postgres = await openPostgres({
    ...connection,
    maxConnections: 1,
    ...{ queryTimeout, standbyWait },
  });
  try {
    await postgres.query('SELECT 1');
    return undefined;
  } catch (found) {
    const cause = found instanceof RetryableError ? found.cause : undefined;
    return cause instanceof Error && sqlStateOf(cause) === NO_STANDBY ? found : undefined;
  } finally {
    await postgres.close();
  }
}

function timeoutsOf({ timeouts, query_timeout }: PostgresConfig): PostgresConfig['timeouts'] {
  return { ...timeouts, accept: query_timeout ?? timeouts.accept };
}

/** A migration may write every row of a table, and of processes that start together all but one wait for it. */
const MIGRATION_MS = 3_600_000;
/** Tables that are up to date, or new, take less. */
const LONG_MS = 10_000;
const LONG_ADVICE =
  'Large tables take minutes. It also waits for a process that does the same, and for an absent synchronous standby: see pg_stat_activity';

async function prepare(
  connection: ConnectionSettings,
  { logger, clock }: Settings,
  { migrate: mode }: PostgresConfig,
): Promise<void> {
  const queryTimeout = MIGRATION_MS;
  const postgres = await openPostgres({ ...connection, maxConnections: 1, queryTimeout });
  const endsLong = clock.after(LONG_MS, () => {
    logger.warn({ advice: LONG_ADVICE }, 'Tables in Postgres are not up to date yet');
  });
  try {
    await checkEncoding(postgres, logger);
    if (mode === 'off') return await assertMigrated(postgres, MIGRATIONS);
    const applied = await migrate(postgres, MIGRATIONS);
    if (applied.length > 0) logger.info({ applied }, 'Tables in Postgres brought up to date');
  } finally {
    endsLong();
    await postgres.close();
  }
}
