import t from 'tap';
import { openQueues } from '../../../extensions/postgres/queue-storage.ts';
import { postgresTraces } from '../../../extensions/postgres/traces.ts';
import type { Postgres } from '../../../src/postgres/pool.ts';
import type { Store } from '../../../src/store/store.ts';
import { traceContract } from '../../contract/store.ts';
import { fakeClock } from '../../helper/clock.ts';
import { postgresServer } from '../../helper/postgres-server.ts';
import { databaseOf, migrated } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await postgresServer(t);
const FOREVER = { since: () => Number.MIN_SAFE_INTEGER };

traceContract(t, async (t) => {
  const url = await server.database();
  const clock = fakeClock();
  const opened: Postgres[] = [];
  t.teardown(() => Promise.all(opened.map((postgres) => postgres.close())));
  return {
    clock,
    async open() {
      const postgres = await migrated(url);
      opened.push(postgres);
      const database = databaseOf(postgres);
      const queues = await openQueues(database, clock, recordingLogger());
      const store = {
        traces: postgresTraces(database, FOREVER),
        openQueue: queues.openQueue,
        // Usage has a half of the store to itself.
        usage: { verify: async () => [] },
      } as unknown as Store;
      return { store, close: () => queues.close(), crash: async () => queues.crash() };
    },
  };
});
