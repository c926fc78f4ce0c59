import pg from 'pg';
import t from 'tap';
import { queue as migration } from '../../../extensions/postgres/migrations/0003-queue.ts';
import { openQueues } from '../../../extensions/postgres/queue-storage.ts';
import { queueContract } from '../../contract/queue.ts';
import { fakeClock } from '../../helper/clock.ts';
import { databaseOf, KEPT, queueServer } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await queueServer(t);

queueContract(t, async (t) => {
  const url = await server.database();
  const clock = fakeClock();
  const pools = new Set<pg.Pool>();
  t.teardown(() => Promise.all([...pools].map((pool) => pool.end())));
  return {
    clock,
    async open() {
      const pool = new pg.Pool({ connectionString: url, max: 4 });
      if (pools.size === 0) await pool.query(`${migration.sql} ${KEPT}`);
      pools.add(pool);
      const database = databaseOf(pool, new Set(), () => false);
      const storage = await openQueues(database, clock, recordingLogger());
      return {
        storage,
        close: () => storage.close(),
        async crash() {
          storage.crash();
          // As when the time of the dead process is over.
          await pool.query('UPDATE queue_holders SET expires_at = 0');
        },
      };
    },
  };
});
