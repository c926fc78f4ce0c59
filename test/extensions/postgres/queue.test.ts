import t from 'tap';
import type { Postgres } from '../../../extensions/postgres/connection/pool.ts';
import { openQueues } from '../../../extensions/postgres/queue/storage.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { queueContract } from '../../contract/queue.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, migrated, withClock } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';

const server = await postgresDatabases(t);

queueContract(t, async (t) => {
  const url = await migratedDatabase(server);
  const clock = fakeClock();
  const opened: Postgres[] = [];
  t.teardown(() => Promise.all(opened.map((postgres) => postgres.close())));
  return {
    clock,
    async open() {
      const postgres = await migrated(url);
      opened.push(postgres);
      const database = withClock(databaseOf(postgres), clock);
      const storage = await openQueues(database, clock, recordingLogger());
      return {
        storage,
        close: () => storage.close(),
        async crash() {
          storage.crash();
          // As when the leases of the dead process have expired.
          await postgres.query('UPDATE queue_holders SET expires_at = 0');
        },
      };
    },
  };
});

t.test(
  'lets an append overtake a slow one, and stores no batch whose client was answered',
  async (t) => {
    const postgres = await migrated(await migratedDatabase(server));
    t.teardown(() => postgres.close());
    const clock = fakeClock();
    const database = databaseOf(postgres);
    const gates: (() => void)[] = [];
    const begun = async (count: number): Promise<void> => {
      while (gates.length < count) await new Promise((resolve) => setImmediate(resolve));
    };
    const transactionWithDeadline: typeof database.transactionWithDeadline = async (work) => {
      await new Promise<void>((resolve) => gates.push(resolve));
      return database.transactionWithDeadline(work);
    };
    const storage = await openQueues(
      { ...database, transactionWithDeadline },
      clock,
      recordingLogger(),
    );
    t.teardown(() => storage.crash());
    const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    const [slow, quick, given, late] = [1, 1, 1, 1].map((events) => nativeBatch(events));
    if (!slow || !quick || !given || !late) throw new Error('four batches were made');
    const kept = async (): Promise<string[]> => {
      const { rows } = await postgres.query('SELECT id FROM batches ORDER BY id');
      return rows.map(({ id }) => String(id));
    };

    const first = queue.append(slow);
    await begun(1);
    const second = queue.append(quick);
    clock.advance(99);
    t.equal(gates.length, 1, 'it waits for the next group');
    clock.advance(1);
    await begun(2);
    gates[1]?.();
    await second;
    t.same(await kept(), [quick.id]);

    const deadline = new AbortController();
    const third = queue.append(given, requestContext({ signal: deadline.signal }));
    await begun(3);
    deadline.abort();
    gates[2]?.();
    await t.rejects(third, { name: 'RetryableError', code: 'too_late' });
    const passed = requestContext({ signal: AbortSignal.abort() });
    await t.rejects(queue.append(late, passed), { code: 'too_late' });
    t.equal(gates.length, 3, 'no transaction was begun for it');
    gates[0]?.();
    await first;
    t.same(await kept(), [slow.id, quick.id].sort());
    t.equal(queue.stats().bytes, slow.body.byteLength + quick.body.byteLength);
  },
);
