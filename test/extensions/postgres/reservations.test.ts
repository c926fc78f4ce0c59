import t, { type Test } from 'tap';
import { lockForAccept } from '../../../extensions/postgres/batches/accept-lock.ts';
import { storeDelivered } from '../../../extensions/postgres/batches/accepting.ts';
import type {
  Postgres,
  PostgresTransaction,
} from '../../../extensions/postgres/connection/pool.ts';
import type { PostgresClient } from '../../../extensions/postgres/connection/statement.ts';
import { postgresCounters } from '../../../extensions/postgres/tenancy/counters.ts';
import { windowDifferences } from '../../../extensions/postgres/tenancy/verify.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import type { Reservation } from '../../../src/tenancy/contract.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { fakeClock } from '../../helper/clock.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);
const UNLIMITED = { eventsPerMonth: null, bytesPerHour: null };

/** A store whose counters hold reservations of 3 events, with the functions of the transactions that meet. */
async function opened(t: Test) {
  const place = await postgresPlace(server);
  const open = await place.open();
  t.teardown(() => open.close());
  const { store, pools } = open;
  const [project] = await store.projects.list();
  if (project === undefined) throw new Error('there is no project');
  const tenant = aTenant({ organizationId: project.organizationId, projectId: project.id });
  const reserve = async (): Promise<Reservation> => {
    const { id: batchId } = nativeBatch(3);
    const usage = { events: 3, bytes: 30 };
    const reservation = { batchId, tenant, usage, at: place.clock.now() };
    const { admitted } = await store.counters.reserve(reservation, UNLIMITED);
    if (!admitted) throw new Error('the reservation was refused');
    return reservation;
  };
  const giveBack = (client: PostgresClient, ...given: Reservation[]) =>
    client.query('SELECT give_back_usage($1)', [given.map(({ batchId }) => batchId)]);
  /** Resolves when a statement waits for another transaction. */
  const someWait = async (): Promise<void> => {
    const text = 'SELECT 1 FROM pg_locks WHERE NOT granted';
    await until(async () => (await pools.read.query(text)).rows.length > 0);
  };
  const counted = async () => (await store.counters.read(project.organizationId)).month.events;
  return {
    ...open,
    clock: place.clock,
    logger: place.logger,
    tenant,
    reserve,
    giveBack,
    someWait,
    counted,
  };
}

t.test('a reservation is given back beside one that is made, without a deadlock', async (t) => {
  const { postgres, pools, store, reserve, giveBack, someWait, counted } = await opened(t);
  const failed = await reserve();
  // The window of the organization lies behind those of projects, and Postgres reads so small a table from its beginning.
  await postgres.query("UPDATE usage_windows SET events = events WHERE project = ''");
  await postgres.query('ANALYZE usage_windows');
  const lock = 'SELECT FROM usage_windows WHERE project';
  let given: Promise<unknown> = Promise.resolve();
  await postgres.transaction(async (client) => {
    await client.query(`${lock} = '' FOR UPDATE`, []);
    given = giveBack(pools.write, failed);
    await someWait();
    await client.query(`${lock} <> '' FOR UPDATE`, []);
  });
  await given;
  t.equal(await counted(), 0);
  t.same(await store.usage.verify(), []);
});

t.test('a batch without a reservation is accepted beside one that is made', async (t) => {
  const { postgres, store, tenant, reserve, someWait, counted } = await opened(t);
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  await reserve();
  // The window of the organization lies behind those of projects, and Postgres reads so small a table from its beginning.
  await postgres.query("UPDATE usage_windows SET events = events WHERE project = ''");
  await postgres.query('ANALYZE usage_windows');
  const lock = 'SELECT FROM usage_windows WHERE project';
  let appended: Promise<unknown> = Promise.resolve();
  await postgres.transaction(async (client) => {
    await client.query(`${lock} = '' FOR UPDATE`, []);
    appended = queue.append(nativeBatch(1, { tenant, usage: { events: 1, bytes: 10 } }));
    await someWait();
    await client.query(`${lock} <> '' FOR UPDATE`, []);
  });
  await appended;
  await reserve();
  t.equal(await counted(), 7);
});

t.test('a window that is added beside a batch without a reservation is rebuilt', async (t) => {
  const { postgres, pools, store, tenant, reserve, someWait, counted } = await opened(t);
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  await reserve();
  let appended: Promise<unknown> = Promise.resolve();
  await postgres.transaction(async (client) => {
    await client.query(
      `SELECT reserve_usage('b', organization, 'added', 'key', month, hour, 3, 30, null, null, null, null, 1)
       FROM usage_windows WHERE project = ''`,
      [],
    );
    const usage = { events: 1, bytes: 10 };
    const other = { ...tenant, projectId: 'added' };
    appended = queue.append(nativeBatch(1, { tenant: other, usage }));
    await someWait();
  });
  await appended;
  await reserve();
  t.equal(await counted(), 10);
  t.same(await windowDifferences(pools.verify, () => {}), []);
});

t.test('a reservation is given back beside the transaction that accepts its batch', async (t) => {
  const { postgres, pools, store, reserve, giveBack, someWait, counted } = await opened(t);
  const late = await reserve();
  let given: Promise<unknown> = Promise.resolve();
  await postgres.transaction(async (client) => {
    await client.query(
      `INSERT INTO usage_ledger (batch_id, organization, project, key, hour, events, bytes)
       SELECT batch_id, organization, project, key, hour, events, bytes FROM usage_reservations`,
      [],
    );
    given = giveBack(pools.write, late);
    await someWait();
    await client.query('DELETE FROM usage_reservations', []);
  });
  await given;
  t.equal(await counted(), 3, 'the batch is accepted');
  t.same(await store.usage.verify(), []);
});

t.test('windows that are rebuilt beside a reservation that is given back are exact', async (t) => {
  const { postgres, store, reserve, giveBack, someWait, counted } = await opened(t);
  const failed = await reserve();
  await reserve();
  // As a batch without a reservation does.
  await postgres.query('DELETE FROM usage_windows');
  let reserved: Promise<unknown> = Promise.resolve();
  await postgres.transaction(async (client) => {
    await giveBack(client, failed);
    let isOver = false;
    reserved = reserve().finally(() => {
      isOver = true;
    });
    await Promise.race([someWait(), until(() => isOver)]);
  });
  await reserved;
  t.equal(await counted(), 6);
  t.same(await store.usage.verify(), []);
});

/** Stores a batch that another storage made durable, as a worker does with a delivery of a gateway. */
async function deliver(postgres: Postgres, batch: SealedBatch): Promise<void> {
  await postgres.transaction(async (client) => {
    await client.together([lockForAccept([batch.tenant.projectId])]);
    await storeDelivered(client, [batch], ({ receivedAt }) => receivedAt);
  });
}

const HOUR = 3_600_000;
/** A clock that is this far ahead is in another year. */
const AHEAD = 400 * 24 * HOUR;

t.test('a process whose clock is far ahead opens no window', async (t) => {
  const { clock, store, pools, reserve, counted } = await opened(t);
  const present = Date.now();
  clock.set(present + AHEAD);
  await reserve();
  const { rows } = await pools.read.query('SELECT hour FROM usage_reservations');
  t.ok(Number(rows[0]?.hour) * HOUR <= Date.now(), 'it counts in the hour of the database');
  clock.set(present);
  await reserve();
  t.equal(await counted(), 6);
  t.same(await store.usage.verify(), []);
});

t.test('usage of a process whose clock is far ahead counts in the present hour', async (t) => {
  const { clock, postgres, store, tenant, reserve, counted } = await opened(t);
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const present = Date.now();
  const batchOf = (events: number) => ({
    ...nativeBatch(events, { tenant, usage: { events, bytes: 10 * events } }),
    receivedAt: clock.now(),
  });
  clock.set(present + AHEAD);
  await queue.append(batchOf(1));
  await deliver(postgres, batchOf(2));
  clock.set(present);
  await queue.append(batchOf(4));
  await reserve();
  t.equal(await counted(), 10);
  t.same(await store.usage.verify(), []);
});

t.test('windows of an hour that the database has not reached are rebuilt', async (t) => {
  const { postgres, pools, reserve, counted } = await opened(t);
  await reserve();
  await postgres.query(
    `INSERT INTO usage_hours SELECT organization, project, key, hour + 24 * 400, 1, 1
     FROM usage_reservations`,
  );
  await postgres.query(
    'UPDATE usage_windows SET month = month + 24 * 400, hour = hour + 24 * 400, events = 0',
  );
  await reserve();
  t.equal(await counted(), 6);
  t.same(await windowDifferences(pools.verify, () => {}), []);
});

t.test('windows that are rebuilt beside a reservation that is entered are exact', async (t) => {
  const { logger, postgres, pools, tenant, reserve } = await opened(t);
  const durable = await reserve();
  await postgres.query('DELETE FROM usage_windows');
  const isEntered = async () =>
    (await pools.read.query('SELECT FROM usage_reservations')).rows.length === 0;
  const isHeldOff = async () => {
    const text = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    return (await pools.read.query(text)).rows.length > 0;
  };
  /** The ledger is summed up, and the windows are not: enters the reservation, as far as that is possible. */
  const enterBetween = (client: PostgresTransaction): PostgresTransaction => ({
    ...client,
    async query(text, values) {
      if (text.includes('INSERT INTO usage_windows')) {
        counters.settle(durable, true);
        clock.advance(50);
        await until(async () => (await isHeldOff()) || (await isEntered()));
      }
      return client.query(text, values);
    },
  });
  const rebuild: Postgres = {
    ...pools.rebuild,
    transaction: (work) => pools.rebuild.transaction((client) => work(enterBetween(client))),
  };
  // The store sums the ledger up by its own clock.
  const clock = fakeClock();
  const counters = postgresCounters({ ...pools, rebuild }, clock, logger);
  t.teardown(() => counters.close());
  const limits = { eventsPerMonth: 3, bytesPerHour: null };
  const verdict = await counters.peek(tenant, limits, clock.now());
  t.match(verdict, { admitted: false, code: 'monthly_limit' });
  await until(isEntered);
  t.same(await windowDifferences(pools.verify, () => {}), []);
});

t.test('a delivered batch without a reservation counts toward the windows', async (t) => {
  const { clock, postgres, pools, tenant, reserve, counted } = await opened(t);
  await reserve();
  const usage = { events: 5, bytes: 50 };
  await deliver(postgres, { ...nativeBatch(5, { tenant, usage }), receivedAt: clock.now() });
  await reserve();
  t.equal(await counted(), 11);
  t.same(await windowDifferences(pools.verify, () => {}), []);
});

t.test('a delivered batch whose reservation is not settled yet counts once', async (t) => {
  const { clock, postgres, pools, store, tenant, reserve, giveBack, counted } = await opened(t);
  const open = await reserve();
  const { batchId, usage } = open;
  const batch = { ...nativeBatch(3, { tenant, usage }), id: batchId, receivedAt: clock.now() };
  await deliver(postgres, batch);
  t.equal(await counted(), 3);
  await postgres.query('DELETE FROM usage_windows');
  await reserve();
  store.counters.settle(open, true);
  t.equal(await counted(), 6);
  await giveBack(pools.write, open);
  t.equal(await counted(), 6);
  t.same(await windowDifferences(pools.verify, () => {}), []);
});

t.test('a reservation is given back once', async (t) => {
  const { pools, store, reserve, giveBack, counted } = await opened(t);
  const [first, second] = [await reserve(), await reserve()];
  await giveBack(pools.write, first);
  await giveBack(pools.write, first);
  t.equal(await counted(), 3);
  await giveBack(pools.write, first, second);
  t.equal(await counted(), 0);
  t.same(await store.usage.verify(), []);
});
