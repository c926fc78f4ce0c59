import { config } from '../../extensions/postgres/config.ts';
import { migrate } from '../../extensions/postgres/connection/migrate.ts';
import type { Postgres } from '../../extensions/postgres/connection/pool.ts';
import type { PostgresPools } from '../../extensions/postgres/connection/pools.ts';
import { openPools } from '../../extensions/postgres/connection/pools.ts';
import { MIGRATIONS } from '../../extensions/postgres/migrations/index.ts';
import { type OpenPostgresStore, openPostgresStore } from '../../extensions/postgres/open-store.ts';
import { fakeClock } from './clock.ts';
import { migratedDatabase } from './migrated-database.ts';
import type { PostgresDatabases } from './postgres-server.ts';
import { recordingLogger, recordingMetrics } from './settings.ts';
import { forgetPostgresTerms, postgresTermTables } from './term-tables.ts';

export type OpenPostgresPlace = OpenPostgresStore & {
  readonly postgres: Postgres;
  readonly pools: PostgresPools;
};

/** A store in a database of its own. A test opens it, closes or crashes it, and opens it again, also in parallel. */
export async function postgresPlace(server: PostgresDatabases, written: object = {}) {
  const url = await migratedDatabase(server);
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  const connection = {
    ...{ url, connectTimeout: 5000, queryTimeout: 5000 },
    ...{ tls: undefined, clock, logger },
  };
  const timeouts = {
    ...{ accept: 5000, write: 5000, read: 5000 },
    ...{ verify: 5000, rebuild: 5000, housekeeping: 5000 },
  };
  return {
    url,
    clock,
    logger,
    metrics,
    termTables: () => postgresTermTables(url),
    forgetTerms: () => forgetPostgresTerms(url),
    async open(more: object = {}): Promise<OpenPostgresPlace> {
      const limits = { maxConnections: 6, readConnections: 2, timeouts };
      const pools = await openPools({ ...connection, ...limits });
      const postgres = pools.accept;
      await migrate(postgres, MIGRATIONS);
      const parsed = config.parse({ url, ...written, ...more });
      const store = await openPostgresStore(pools, connection, { clock, logger, metrics }, parsed);
      return {
        ...store,
        postgres,
        pools,
        async close() {
          await store.close();
          await pools.close();
        },
        async crash() {
          await store.crash();
          await pools.close();
        },
      };
    },
  };
}
