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
