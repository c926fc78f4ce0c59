import t, { type Test } from 'tap';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { ulid } from '../../../src/model/ulid.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import type { LedgerSums } from '../../../src/tenancy/shared-ledger.ts';
import { eventually } from '../../e2e/client.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

const server = await postgresDatabases(t);
const QUEUE = { name: 'q', branches: ['a'], maxBytes: 1e9 };

/** A store with a queue, and batches of its first project whose usage was reserved in counters outside. */
async function opened(t: Test) {
  const place = await postgresPlace(server);
  const open = await place.open();
  t.teardown(() => open.close());
  const { store, ledger, postgres } = open;
  const queue = await store.openQueue(QUEUE);
  const [project] = await store.projects.list();
  if (project === undefined) throw new Error('there is no project');
  const { organizationId } = project;
  const tenant = aTenant({ organizationId, projectId: project.id });
  const batch = (reserved: { epoch?: number } = {}): SealedBatch => ({
    ...nativeBatch(2),
    ...{ id: ulid(place.clock.now()), receivedAt: place.clock.now(), tenant },
    usage: { events: 2, bytes: 20, at: place.clock.now(), ...reserved },
  });
  const events = async (): Promise<number> =>
    (await store.counters.read(organizationId)).month.events;
  /** Begins a new epoch behind the newest. */
  const begin = async (): Promise<LedgerSums> => {
    const newest = await ledger.newestEpoch(organizationId);
    const sums = await ledger.beginEpoch(organizationId, place.clock.now(), newest);
    if (sums === undefined) throw new Error('another epoch was begun');
    return sums;
  };
  return { place, open, store, ledger, postgres, queue, organizationId, batch, events, begin };
}

t.test('refuses a batch reserved in lost counters, and keeps nothing of it', async (t) => {
  const { ledger, postgres, queue, organizationId, batch, events, begin, place } = await opened(t);
  const first = await begin();
  await queue.append(batch({ epoch: first.epoch }));
  const second = await begin();
  t.equal(second.epoch, first.epoch + 1);
  const none = await ledger.beginEpoch(organizationId, place.clock.now(), first.epoch);
  t.equal(none, undefined, 'a newer epoch has begun');
  t.equal(await ledger.newestEpoch(organizationId), second.epoch);
  t.same(
    second.projects.map((sums) => [sums.events, sums.bytes]),
    [[2, 20]],
  );
  const late = batch({ epoch: first.epoch });
  await t.rejects(queue.append(late), { name: 'RetryableError', code: 'quota_counters' });
  for (const [table, column] of [
    ['batches', 'id'],
    ['queue_entries', 'batch_id'],
    ['usage_ledger', 'batch_id'],
  ] as const) {
    const { rows } = await postgres.query(`SELECT 1 FROM ${table} WHERE ${column} = $1`, [late.id]);
    t.same(rows, [], table);
  }
  t.equal(await events(), 2);
  await queue.append(batch({ epoch: second.epoch }));
  t.equal(await events(), 4);
});

t.test('refuses only the batches of a group that were reserved in lost counters', async (t) => {
  const { queue, batch, events, begin } = await opened(t);
  const { epoch } = await begin();
  const epochs = [epoch, epoch - 1, epoch, epoch - 1, epoch];
  const appended = await Promise.allSettled(
    epochs.map((each) => queue.append(batch({ epoch: each }))),
  );
  t.same(
    appended.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
  t.equal(await events(), 6);
  t.equal(queue.stats().branches[0]?.entries, 3);
});

t.test('begins an epoch after transactions that accept, and sums up their entries', async (t) => {
  const { postgres, organizationId, batch, begin, place } = await opened(t);
  const { tenant, id } = batch();
  let isBegun = false;
  const accepting = postgres.transaction(async (client) => {
    await client.query('SELECT begin_accepting($1)', [[tenant.projectId]]);
    const begun = begin().then((sums) => {
      isBegun = true;
      return sums;
    });
    await eventually(
      async () => (await postgres.query(`SELECT 1 FROM pg_locks WHERE NOT granted`)).rows.length,
      (waiting) => waiting > 0,
      'the new epoch to wait',
    );
    await client.query(
      `INSERT INTO usage_ledger (batch_id, organization, project, key, hour, events, bytes)
       VALUES ($1, $2, $3, 'k', $4, 7, 70)`,
      [id, organizationId, tenant.projectId, Math.floor(place.clock.now() / HOUR_MS)],
    );
    t.notOk(isBegun);
    return { begun };
  });
  const { begun } = await accepting;
  t.same(
    (await begun).projects.map(({ events }) => events),
    [7],
  );
});

t.test('refuses a batch that was decided to be lost', async (t) => {
  const { ledger, queue, organizationId, batch, events, begin, place } = await opened(t);
  const { epoch } = await begin();
  const [kept, lost] = [batch({ epoch }), batch({ epoch })];
  await queue.append(kept);
  t.same([...(await ledger.decide(organizationId, [kept.id, lost.id]))], [kept.id]);
  await t.rejects(queue.append(lost), { code: 'quota_counters' });
  t.equal(await events(), 2);
  t.same([...(await ledger.decide(organizationId, [kept.id, lost.id]))], [kept.id], 'again');
  // Another store made it durable without the ledger: it counts, once.
  const { tenant } = lost;
  const usage = { events: 2, bytes: 20 };
  const entry = { batchId: lost.id, tenant, usage, at: place.clock.now() };
  await ledger.record([entry]);
  await ledger.record([entry]);
  t.equal(await events(), 4);
});

t.test('gives back overdue reservations of a dead process', async (t) => {
  const { store, open, postgres, organizationId, batch, place } = await opened(t);
  const limits = { eventsPerMonth: 5, bytesPerHour: null };
  const reserve = async (usage: { events: number; bytes: number }) => {
    const { id: batchId, tenant } = batch();
    const reservation = { batchId, tenant, usage, at: place.clock.now() };
    return (await store.counters.reserve(reservation, limits)).admitted;
  };
  t.ok(await reserve({ events: 4, bytes: 1 }));
  t.notOk(await reserve({ events: 2, bytes: 1 }), 'the reservation counts');
  place.clock.set(place.clock.now() + 11 * 60_000);
  await open.finish();
  t.notOk(await reserve({ events: 2, bytes: 1 }), 'a clock that is ahead ends no lease');
  await postgres.query('UPDATE usage_reservations SET expires_at = 0');
  await open.finish();
  t.ok(await reserve({ events: 5, bytes: 1 }), 'it is given back');
  t.same(await store.usage.verify(), []);
  t.equal((await store.counters.read(organizationId)).month.events, 5);
});

t.test(
  'gives back reservations that were made while the clock of the database was ahead',
  async (t) => {
    const { store, open, postgres, organizationId, batch, place } = await opened(t);
    const usage = { events: 4, bytes: 1 };
    const { id: batchId, tenant } = batch();
    const reservation = { batchId, tenant, usage, at: place.clock.now() };
    await store.counters.reserve(reservation, { eventsPerMonth: null, bytesPerHour: null });
    const counted = async () => (await store.counters.read(organizationId)).month.events;
    const later = (ms: number) =>
      postgres.query('UPDATE usage_reservations SET expires_at = expires_at + $1', [ms]);
    await later(9 * 60_000);
    await open.finish();
    t.equal(await counted(), 4, 'as after a failover');
    await later(400 * 24 * 3_600_000);
    await open.finish();
    t.equal(await counted(), 0);
    t.same(await store.usage.verify(), []);
  },
);

t.test('shows changes of one process to the others, even if the notice is lost', async (t) => {
  const place = await postgresPlace(server);
  const [one, other] = [await place.open(), await place.open()];
  t.teardown(() => Promise.all([one.close(), other.close()]));
  const by = { actor: 'test', address: null };
  const sees = (name: string) =>
    eventually(
      async () => {
        // A cut connection is replaced some time after it is noticed.
        place.clock.set(place.clock.now() + 1500);
        return (await other.store.organization.get()).name;
      },
      (seen) => seen === name,
      `the name ${name} in the other process`,
    );
  await one.store.organization.update({ name: 'heard' }, by);
  await sees('heard');
  const cut = await one.postgres.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE application_name = 'tracectl notices' AND datname = current_database()`,
  );
  t.equal(cut.rows.length, 2);
  await one.store.organization.update({ name: 'unheard' }, by);
  await sees('unheard');
});

t.test('tells of a recorded batch whether the sums of the newest epoch lack it', async (t) => {
  const { ledger, batch, begin, events } = await opened(t);
  const entryOf = ({ id: batchId, tenant, usage, receivedAt: at }: SealedBatch) => {
    return { batchId, tenant, usage, at };
  };
  const [before, after] = [entryOf(batch()), entryOf(batch())];
  const first = await begin();
  t.same(await ledger.record([before]), new Map([[before.batchId, first.epoch]]));
  const second = await begin();
  t.same(
    second.projects.map((sums) => sums.events),
    [2],
  );
  const lacking = new Map([[after.batchId, second.epoch]]);
  t.same(await ledger.record([before, after]), lacking);
  t.same(await ledger.record([before, after]), lacking, 'again');
  t.equal(await events(), 4);
});
