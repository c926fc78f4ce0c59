import type { Test } from 'tap';
import { config } from '../../extensions/postgres/config.ts';
import { migrate } from '../../extensions/postgres/connection/migrate.ts';
import type { Postgres } from '../../extensions/postgres/connection/pool.ts';
import { openPostgres } from '../../extensions/postgres/connection/pool.ts';
import { MIGRATIONS } from '../../extensions/postgres/migrations/index.ts';
import { type OpenPostgresStore, openPostgresStore } from '../../extensions/postgres/open-store.ts';
import { fakeClock } from './clock.ts';
import type { PostgresDatabases } from './postgres-server.ts';
import { recordingLogger, recordingMetrics } from './settings.ts';

export type OpenPostgresPlace = OpenPostgresStore & { readonly postgres: Postgres };

/** A store in a database of its own. A test opens it, closes or crashes it, and opens it again, also in parallel. */
export async function postgresPlace(_t: Test, server: PostgresDatabases, written: object = {}) {
  const url = await server.database();
  const clock = fakeClock();
  const logger = recordingLogger();
  const metrics = recordingMetrics();
  const parsed = config.parse({ url, ...written });
  const connection = {
    ...{ url, maxConnections: 6, connectTimeout: 5000, queryTimeout: 5000 },
    ...{ tls: undefined, clock, logger },
  };
  return {
    url,
    clock,
    logger,
    metrics,
    async open(): Promise<OpenPostgresPlace> {
      const postgres = await openPostgres(connection);
      await migrate(postgres, MIGRATIONS);
      const store = await openPostgresStore(
        postgres,
        connection,
        { clock, logger, metrics },
        parsed,
      );
      return {
        ...store,
        postgres,
        async close() {
          await store.close();
          await postgres.close();
        },
        async crash() {
          await store.crash();
          await postgres.close();
        },
      };
    },
  };
}
