import type { Test } from 'tap';
import t from 'tap';
import type { PostgresQueues } from '../../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { QueueEntry } from '../../../src/queue/queue.ts';
import type { SharedQueue } from '../../../src/queue/shared-queue.ts';
import { eventually } from '../../e2e/client.ts';
import { answered, aTenant, nativeBatch } from '../../helper/batches.ts';
import type { FakeClock } from '../../helper/clock.ts';
import { fakeClock } from '../../helper/clock.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import type { QueuePlace } from '../../helper/queue-database.ts';
import { queueDatabase } from '../../helper/queue-database.ts';

const server = await postgresDatabases(t);
const OPTIONS = { name: 'queue', branches: ['a'], maxBytes: 1e9 };
const ANY_SIZE = 1e9;
const BAD = { code: 'bad', message: 'bad' };

/** A process whose clock and timers move only when a test moves them, and one that runs. */
async function two(t: Test) {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const clock = fakeClock(Date.now());
  const [frozen, running] = [await place.open(clock), await place.open(systemClock)];
  const [first, second] = [await frozen.openQueue(OPTIONS), await running.openQueue(OPTIONS)];
  return { place, clock, running, first, second };
}

/** The row of the frozen process expires, and the other one releases its leases. */
async function expire(place: QueuePlace, running: PostgresQueues, clock: FakeClock) {
  clock.set(clock.now() + 25_000);
  await place.pool.query(
    `UPDATE queue_holders SET expires_at = 0
     WHERE id IN (SELECT holder FROM queue_entries UNION SELECT holder FROM idempotency)`,
  );
  await running.openQueue(OPTIONS);
}

async function leased(queue: SharedQueue): Promise<QueueEntry> {
  const [entry] = await queue.lease('a', 1, ANY_SIZE);
  if (entry === undefined) throw new Error('no entry was leased');
  return entry;
}

t.test('a process that thaws notices before a delivery that it lost the lease', async (t) => {
  const { place, clock, running, first, second } = await two(t);
  await first.append(nativeBatch(1));
  const entry = await leased(first);
  t.equal(await first.isHeld?.('a', entry), true);
  await expire(place, running, clock);
  const other = await leased(second);
  t.equal(other.batch.id, entry.batch.id);
  t.equal(await first.isHeld?.('a', entry), false);
  t.equal(first.stats().branches[0]?.leased, 0);
  await first.append(nativeBatch(1));
  const next = await leased(first);
  t.equal(await first.isHeld?.('a', next), true, 'it leases and delivers again');
  await first.ack('a', [next]);
  t.equal(await second.isHeld?.('a', other), true);
});

t.test('a process that was frozen for less than its lease goes on with it', async (t) => {
  const { clock, first } = await two(t);
  await first.append(nativeBatch(1));
  const entry = await leased(first);
  clock.set(clock.now() + 15_000);
  t.equal(await first.isHeld?.('a', entry), true);
});

t.test('asks the database if the last renewal is 10 s ago', async (t) => {
  const { place, clock, first } = await two(t);
  await first.append(nativeBatch(1));
  const entry = await leased(first);
  place.fail(true);
  clock.set(clock.now() + 9_999);
  t.equal(await first.isHeld?.('a', entry), true);
  clock.set(clock.now() + 1);
  await t.rejects(async () => void (await first.isHeld?.('a', entry)), { code: 'storage_failed' });
  place.fail(false);
  t.equal(await first.isHeld?.('a', entry), true);
});

t.test('a process that thaws ends no lease of another one', async (t) => {
  const { place, clock, running, first, second } = await two(t);
  for (let i = 0; i < 3; i++) await first.append(nativeBatch(1));
  const [done, bad, failed] = await first.lease('a', 3, ANY_SIZE);
  if (done === undefined || bad === undefined || failed === undefined) throw new Error('none');
  await expire(place, running, clock);
  t.equal((await second.lease('a', 3, ANY_SIZE)).length, 3);
  await first.ack('a', [done]);
  await first.deadLetter('a', bad, BAD);
  await first.nack('a', failed, 0, 'failed');
  const { rows } = await place.pool.query('SELECT holder, attempts FROM queue_entries');
  t.equal(rows.length, 3);
  t.equal(new Set(rows.map(({ holder }) => holder)).size, 1);
  t.ok(rows.every(({ attempts }) => attempts === 0));
  t.same(await second.deadLetters(), []);
});

t.test('a request whose claim was taken over is not stored', async (t) => {
  for (const isAnswered of [false, true]) {
    const { place, clock, running, first, second } = await two(t);
    const requestHash = Buffer.alloc(32, 1);
    const tenant = aTenant();
    const request = () =>
      answered({ key: 'k', requestHash, status: 200, contentType: '', body: Buffer.alloc(0) });
    t.match(await first.idempotency.claim(tenant, 'k', requestHash), { state: 'new' });
    await expire(place, running, clock);
    t.match(await second.idempotency.claim(tenant, 'k', requestHash), { state: 'new' });
    if (isAnswered) await second.append(nativeBatch(1), request());
    await t.rejects(first.append(nativeBatch(1), request()), { code: 'too_late' });
    if (!isAnswered) await second.append(nativeBatch(1), request());
    const { rows } = await place.pool.query('SELECT id FROM batches');
    t.equal(rows.length, 1);
  }
});

t.test('after an outage of the database every process may renew its leases', async (t) => {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const clock = fakeClock(Date.now());
  const first = await (await place.open(clock)).openQueue(OPTIONS);
  const second = await (await place.open(fakeClock())).openQueue(OPTIONS);
  await first.append(nativeBatch(1));
  const entry = await leased(second);
  const holders = async (): Promise<number> =>
    (await place.pool.query('SELECT FROM queue_holders WHERE expires_at > 0')).rows.length;
  const beat = async (): Promise<void> => {
    // Everything that the timers began has ended when each of them waits again.
    const waiting = clock.pending();
    clock.advance(5_000);
    await eventually(
      async () => clock.pending(),
      (pending) => pending === waiting,
      'the end of the beat',
    );
  };
  clock.set(clock.now() + 20_000 - 5_000);
  await place.pool.query('UPDATE queue_holders SET expires_at = 0');
  await beat();
  t.equal(await holders(), 1, 'the other process has not renewed yet');
  const held = 'SELECT FROM queue_entries WHERE holder IS NOT NULL';
  t.equal((await place.pool.query(held)).rows.length, 1);
  await beat();
  t.equal((await place.pool.query(held)).rows.length, 1, '5 s later');
  await eventually(
    async () => {
      clock.advance(5_000);
      return place.pool.query(held);
    },
    ({ rows }) => rows.length === 0,
    'the end of the leases of a process that stays away',
  );
  t.ok(entry);
});
