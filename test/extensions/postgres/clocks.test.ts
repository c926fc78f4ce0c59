import type { Test } from 'tap';
import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import type { Clock } from '../../../src/component/component.ts';
import type { DurableQueue } from '../../../src/queue/queue.ts';
import { eventually } from '../../e2e/client.ts';
import { answered, aTenant, nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';

const server = await postgresDatabases(t);
const OPTIONS = { name: 'queue', branches: ['a'], maxBytes: 1e9 };

const shifted = (ms: number): Clock => ({ ...systemClock, now: () => systemClock.now() + ms });

/** A process whose clock is wrong, and one whose clock is right. */
async function two(t: Test, wrongBy: number) {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const [wrong, right] = [await place.open(shifted(wrongBy)), await place.open(systemClock)];
  const [first, second] = [await wrong.openQueue(OPTIONS), await right.openQueue(OPTIONS)];
  return { first, second, pool: place.pool };
}

for (const wrongBy of [90_000, -90_000]) {
  t.test(`a retry is on time if the clock of its process is ${wrongBy} ms off`, async (t) => {
    const { first, second } = await two(t, wrongBy);
    await first.append(nativeBatch(1));
    const [entry] = await first.lease('a', 1, 1e9);
    if (entry === undefined) throw new Error('no entry was leased');
    await first.nack('a', entry, 1000, 'later');
    second.onAvailable('a', () => {});
    const lease = async (): Promise<number> => {
      // An append announces the branch, as the regular look does.
      await second.append(nativeBatch(1));
      const entries = await second.lease('a', 10, 1e9);
      await second.ack('a', entries);
      return entries.filter(({ attempts }) => attempts === 1).length;
    };
    t.equal(await lease(), 0, 'it is not early');
    await eventually(lease, (found) => found === 1, 'the retry', 5_000);
  });

  t.test(
    `a batch waits from its append if the clock of the gateway is ${wrongBy} ms off`,
    async (t) => {
      const { first, second } = await two(t, wrongBy);
      const batch = nativeBatch(1, { receivedAt: Date.now() + wrongBy });
      await first.append(batch);
      t.same(await second.waitingFor(0, 10), [batch.id]);
      t.same(await second.waitingFor(60_000, 10), []);
      t.same(await first.waitingFor(0, 10), [batch.id]);
      t.same(await first.waitingFor(60_000, 10), []);
    },
  );
}

const DAY = 24 * 3_600_000;
const WINDOW = 600_000;
const tenant = aTenant();
const ANSWER = { status: 202, contentType: 'application/json', body: Buffer.from('{}') };
const requestHash = Buffer.alloc(32, 1);

/** Sends a request without a key. */
function send(queue: Pick<DurableQueue, 'append'>): Promise<void> {
  const given = { ...ANSWER, key: '\0a', requestHash, keptFor: WINDOW, isUnclaimed: true };
  return queue.append(nativeBatch(1, { tenant }), answered(given));
}

/** Sends a request with a key; resolves with the state of its claim. */
async function sendKeyed(queue: Pick<DurableQueue, 'append' | 'idempotency'>): Promise<string> {
  const claim = await queue.idempotency.claim(tenant, 'k', requestHash);
  if (claim.state !== 'new') return claim.state;
  await queue.append(nativeBatch(1, { tenant }), answered({ ...ANSWER, key: 'k', requestHash }));
  claim.release();
  return claim.state;
}

for (const wrongBy of [400 * DAY, -400 * DAY]) {
  t.test(
    `answers are kept for their time if the clock of a gateway is ${wrongBy} ms off`,
    async (t) => {
      const { first, second, pool } = await two(t, wrongBy);
      const wait = (ms: number) =>
        pool.query('UPDATE idempotency SET expires_at = expires_at - $1', [ms]);
      for (const [one, other] of [
        [first, second],
        [second, first],
      ] as const) {
        await send(one);
        t.equal(await sendKeyed(one), 'new');
        await wait(WINDOW - 60_000);
        await t.rejects(send(other), { name: 'RepeatedRequest' });
        t.equal(await sendKeyed(other), 'replay');
        await wait(60_000);
        await send(other);
        await t.rejects(send(one), { name: 'RepeatedRequest' });
        t.equal(await sendKeyed(other), 'replay');
        await wait(DAY);
        t.equal(await sendKeyed(other), 'new');
        await wait(DAY);
      }
    },
  );
}

t.test('a request is stored again if the clock of the database was set back', async (t) => {
  const { second, pool } = await two(t, 0);
  const later = (ms: number) =>
    pool.query('UPDATE idempotency SET expires_at = expires_at + $1', [ms]);
  await send(second);
  await later(3_600_000 - 60_000);
  await t.rejects(send(second), { name: 'RepeatedRequest' }, 'as after a failover');
  await later(120_000);
  await send(second);
  await t.rejects(send(second), { name: 'RepeatedRequest' });
});

t.test('an answer to a key does not count if the clock of the database was set back', async (t) => {
  const { second, pool } = await two(t, 0);
  const later = (ms: number) =>
    pool.query('UPDATE idempotency SET expires_at = expires_at + $1', [ms]);
  const repeat = async (keptFor: number) => {
    const claim = await second.idempotency.claim(tenant, 'k', requestHash, keptFor);
    if (claim.state === 'new') claim.release();
    return claim.state;
  };
  t.equal(await sendKeyed(second), 'new');
  await later(3_600_000 - 60_000);
  t.equal(await sendKeyed(second), 'replay', 'as after a failover');
  await later(120_000);
  t.equal(await repeat(2 * DAY), 'replay', 'answers that are kept for longer');
  t.equal(await sendKeyed(second), 'new');
  t.equal(await sendKeyed(second), 'replay');
});

t.test(
  'a claim of a process that lives counts whatever the clock of the database was',
  async (t) => {
    const { first, second, pool } = await two(t, 0);
    t.equal((await first.idempotency.claim(tenant, 'k', requestHash)).state, 'new');
    await pool.query('UPDATE idempotency SET expires_at = expires_at + $1', [400 * DAY]);
    t.equal((await second.idempotency.claim(tenant, 'k', requestHash)).state, 'in_progress');
  },
);

t.test('leases of a dead process end if the clock of the database was ahead', async (t) => {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const [dead, alive] = [await place.open(systemClock), await place.open(systemClock)];
  const [first, second] = [await dead.openQueue(OPTIONS), await alive.openQueue(OPTIONS)];
  await first.append(nativeBatch(1));
  const [entry] = await first.lease('a', 1, 1e9);
  t.equal((await first.idempotency.claim(tenant, 'k', requestHash)).state, 'new');
  dead.crash();
  const holders = 'UPDATE queue_holders SET expires_at = expires_at + $1';
  await place.pool.query(holders, [400 * DAY]);
  await alive.openQueue(OPTIONS);
  const claim = () => second.idempotency.claim(tenant, 'k', requestHash);
  t.equal((await claim()).state, 'in_progress', 'a process that lives has time to renew its row');
  await place.pool.query(holders, [-25_000]);
  await alive.openQueue(OPTIONS);
  await second.append(nativeBatch(1));
  t.same(
    (await second.lease('a', 1, 1e9)).map(({ batch }) => batch.id),
    [entry?.batch.id],
  );
  t.equal((await claim()).state, 'new');
});

t.test('a retry is due within an hour if the clock of the database was ahead', async (t) => {
  const { first, second, pool } = await two(t, 0);
  const dueAfter = (ms: number) =>
    pool.query(
      'UPDATE queue_entries SET due = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $1',
      [ms],
    );
  await first.append(nativeBatch(1));
  const [entry] = await first.lease('a', 1, 1e9);
  if (entry === undefined) throw new Error('no entry was leased');
  const lease = async () => {
    // An append announces the branch, as the regular look does.
    await second.append(nativeBatch(1));
    const entries = await second.lease('a', 10, 1e9);
    return entries.filter(({ attempts }) => attempts === 1).length;
  };
  await first.nack('a', entry, 2 * 3_600_000, 'later');
  t.equal(await lease(), 0, 'an hour is the longest wait');
  await dueAfter(3_600_000);
  t.equal(await lease(), 0);
  await dueAfter(3_660_000);
  t.equal(await lease(), 1);
});

t.test('a batch without a job is found if the clock of the database was ahead', async (t) => {
  const { first, second, pool } = await two(t, 0);
  const batch = nativeBatch(1);
  await first.append(batch);
  const enteredLater = (ms: number) =>
    pool.query('UPDATE queue_entries SET entered_at = entered_at + $1', [ms]);
  await enteredLater(50_000);
  t.same(await second.waitingFor(3000, 10), [], 'as after a failover');
  await enteredLater(30_000);
  t.same(await second.waitingFor(3000, 10), [batch.id]);
});
