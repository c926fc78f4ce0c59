import t from 'tap';
import { openQueues } from '../../../extensions/postgres/queue-storage.ts';
import type { Postgres } from '../../../src/postgres/pool.ts';
import { queueContract } from '../../contract/queue.ts';
import { fakeClock } from '../../helper/clock.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, migrated } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await postgresDatabases(t);

queueContract(t, async (t) => {
  const url = await server.database();
  const clock = fakeClock();
  const opened: Postgres[] = [];
  t.teardown(() => Promise.all(opened.map((postgres) => postgres.close())));
  return {
    clock,
    async open() {
      const postgres = await migrated(url);
      opened.push(postgres);
      const storage = await openQueues(databaseOf(postgres), clock, recordingLogger());
      return {
        storage,
        close: () => storage.close(),
        async crash() {
          storage.crash();
          // As when the time of the dead process is over.
          await postgres.query('UPDATE queue_holders SET expires_at = 0');
        },
      };
    },
  };
});
