import pg from 'pg';
import type { Test } from 'tap';
import t from 'tap';
import { openPools } from '../../../extensions/postgres/connection/pools.ts';
import { openQueues } from '../../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { QueueEntry } from '../../../src/queue/queue.ts';
import type { SharedQueue } from '../../../src/queue/shared-queue.ts';
import { eventually } from '../../e2e/client.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import type { PostgresServer } from '../../helper/postgres-server.ts';
import { postgresServer } from '../../helper/postgres-server.ts';
import { databaseOf } from '../../helper/queue-database.ts';
import { relay } from '../../helper/relay.ts';
import { recordingLogger } from '../../helper/settings.ts';

const OPTIONS = { name: 'queue', branches: ['a'], maxBytes: 1e9 };
const ANY_SIZE = 1e9;
const BAD = { code: 'bad', message: 'bad' };

/** A queue on a primary behind one address, and a standby that follows until it is cut off. */
async function pair(t: Test) {
  const primary = await postgresServer(t);
  const database = new URL(await migratedDatabase(primary)).pathname.slice(1);
  const link = await relay(t, primary.port);
  const standby = await primary.standby('standby', link.port);
  const front = await relay(t, primary.port);
  const pools = await openPools({
    url: `postgres://test@127.0.0.1:${front.port}/${database}`,
    ...{ tls: undefined, clock: systemClock, logger: recordingLogger() },
    ...{ maxConnections: 4, readConnections: 2, connectTimeout: 5_000 },
    timeouts: {
      ...{ accept: 5_000, write: 5_000, read: 5_000 },
      ...{ verify: 5_000, rebuild: 5_000, housekeeping: 5_000 },
    },
  });
  t.teardown(() => pools.close());
  const queues = await openQueues(databaseOf(pools.write), systemClock, recordingLogger());
  t.teardown(() => queues.crash());
  const ask = (server: PostgresServer, text: string) => answerOf(server.urlOf(database), text);
  return {
    queue: await queues.openQueue(OPTIONS),
    /** All that the primary has committed reaches the standby, and nothing from then on. */
    async cutOff() {
      const [end] = await ask(primary, 'SELECT pg_current_wal_insert_lsn()::text AS lsn');
      await ask(primary, 'SELECT pg_switch_wal()');
      await eventually(
        () => ask(standby, `SELECT pg_last_wal_replay_lsn() >= '${end?.lsn}' AS has`),
        ([found]) => found?.has === true,
        'a standby that has followed',
      );
      await link.refuse();
    },
    async failOver() {
      await primary.kill();
      await ask(standby, 'SELECT pg_promote()');
      front.pointAt(standby.port);
    },
    /** Ids of the batches that wait on the new primary, and of its dead letters. */
    async kept() {
      const waiting = await ask(standby, 'SELECT batch_id FROM queue_entries ORDER BY seq');
      const dead = await ask(standby, 'SELECT batch_id FROM queue_dead_letters ORDER BY seq');
      return {
        waiting: waiting.map((row) => row.batch_id),
        dead: dead.map((row) => row.batch_id),
      };
    },
  };
}

async function answerOf(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

/** The next entry, once the queue may lease again. */
async function leased(queue: SharedQueue): Promise<QueueEntry> {
  const [entry] = await eventually(
    () => queue.lease('a', 1, ANY_SIZE).catch(() => []),
    (entries) => entries.length > 0,
    'an entry',
    30_000,
  );
  if (entry === undefined) throw new Error('no entry was leased');
  return entry;
}

t.test('repeats deliveries whose writes a failover may have lost', async (t) => {
  const { queue, cutOff, failOver, kept } = await pair(t);
  const [delivered, refused] = [nativeBatch(1), nativeBatch(1)];
  for (const batch of [delivered, refused]) await queue.append(batch);
  const [first, second] = await queue.lease('a', 2, ANY_SIZE);
  if (first === undefined || second === undefined) throw new Error('no entries were leased');
  await cutOff();
  // Here both deliveries write observations that the standby does not get.
  await failOver();
  await Promise.all([queue.ack('a', [first]), queue.deadLetter('a', second, BAD)]);
  t.same(await kept(), { waiting: [delivered.id, refused.id], dead: [] });
  const again = await leased(queue);
  t.equal(again.batch.id, delivered.id);
  await queue.ack('a', [again]);
  t.same((await kept()).waiting, [refused.id], 'a delivery to the new primary ends');
});

t.test('takes no batch for one of the former primary with the same number', async (t) => {
  const { queue, cutOff, failOver, kept } = await pair(t);
  await cutOff();
  // A crash skips up to 32 numbers of a sequence.
  for (let i = 0; i < 40; i++) await queue.append(nativeBatch(1));
  const lost = await queue.lease('a', 100, ANY_SIZE);
  await failOver();
  const batch = nativeBatch(1);
  await eventually(
    () =>
      queue.append(batch).then(
        () => true,
        () => false,
      ),
    (isAppended) => isAppended,
    'an append to the new primary',
  );
  const entry = await leased(queue);
  t.equal(entry.batch.id, batch.id);
  t.ok(
    lost.some(({ seq }) => seq === entry.seq),
    'the number is used again',
  );
  await queue.ack('a', lost);
  t.same((await kept()).waiting, [batch.id]);
  t.equal(await queue.isHeld?.('a', entry), true);
});
