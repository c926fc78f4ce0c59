import pg from 'pg';
import t from 'tap';
import { systemClock } from '../../../src/component/clock.ts';
import { eventually } from '../../e2e/client.ts';
import { answered, aTenant, nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { queueDatabase } from '../../helper/queue-database.ts';

const server = await postgresDatabases(t);
const ANY_SIZE = 1e9;
type Test = Parameters<typeof queueDatabase>[0];

/** Two processes on one database. */
async function two(t: Test, options = { name: 'queue', branches: ['a'], maxBytes: 1e9 }) {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const [one, other] = [await place.open(systemClock), await place.open(systemClock)];
  return {
    place,
    one,
    other,
    first: await one.openQueue(options),
    second: await other.openQueue(options),
  };
}

t.test('leases each entry to one process, and leaves none out', async (t) => {
  const { first, second } = await two(t);
  const batches = Array.from({ length: 40 }, () => nativeBatch(1));
  await Promise.all(batches.map((batch) => first.append(batch)));
  const leases = await Promise.all(
    [first, second, first, second].map((queue) => queue.lease('a', 10, ANY_SIZE)),
  );
  // Each process skipped the rows that the other had locked.
  leases.push(await first.lease('a', 100, ANY_SIZE), await second.lease('a', 100, ANY_SIZE));
  const ids = leases.flat().map(({ batch }) => batch.id);
  t.equal(new Set(ids).size, ids.length);
  t.equal(ids.length, 40);
});

t.test('opens a queue whose branches another process is just adding', async (t) => {
  const place = await queueDatabase(t, await migratedDatabase(server));
  const own = await place.open(systemClock);
  const other = await place.pool.connect();
  await other.query('BEGIN');
  await other.query(`INSERT INTO queue_branches (queue, branch) VALUES ('queue', 'a')`);
  const opening = own.openQueue({ name: 'queue', branches: ['a', 'b'], maxBytes: 1e9 });
  const waits = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await eventually(
    async () => (await place.pool.query(waits)).rows,
    (waiting) => waiting.length > 0,
    'a process that waits for the other one',
  );
  await other.query('COMMIT');
  other.release();
  const queue = await opening;
  const batch = nativeBatch(1);
  await queue.append(batch);
  for (const branch of ['a', 'b']) {
    const leased = await queue.lease(branch, 10, ANY_SIZE);
    t.same(
      leased.map((entry) => entry.batch.id),
      [batch.id],
    );
  }
});

t.test('isolates a batch that Postgres rejects from the others of its group', async (t) => {
  const { place, first } = await two(t);
  await place.pool.query(`ALTER TABLE queue_entries ADD CHECK (project <> 'poison')`);
  const tenants = ['fine', 'poison', 'fine'].map((projectId) => aTenant({ projectId }));
  const batches = tenants.map((tenant) => nativeBatch(1, { tenant }));
  const settled = await Promise.allSettled(batches.map((batch) => first.append(batch)));
  t.same(
    settled.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  t.match(settled[1], { reason: { code: 'storage_refused' } });
  const waiting = await first.lease('a', 10, ANY_SIZE);
  t.same(
    waiting.map(({ batch }) => batch.id),
    [batches[0]?.id, batches[2]?.id],
    'only the accepted batches wait',
  );
  const { rows } = await place.pool.query('SELECT count(*) AS count FROM batches');
  t.equal(Number(rows[0].count), 2, 'nothing of the rejected one is left');
});

t.test('repeats an append that Postgres rolls back because of a deadlock', async (t) => {
  const { place, first } = await two(t);
  const other = await place.pool.connect();
  t.teardown(() => other.release(true));
  // The append is the one that Postgres rolls back.
  await other.query("BEGIN; SET LOCAL deadlock_timeout = '1h'; LOCK TABLE queue_entries");
  const appending = first.append(nativeBatch(1));
  const waits = 'SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass';
  await eventually(
    () => place.pool.query(waits, ['queue_entries']),
    (found) => found.rows.length > 0,
    'an append that waits',
  );
  await other.query('LOCK TABLE batches');
  await other.query('COMMIT');
  await appending;
  const count =
    'SELECT (SELECT count(*) FROM batches)::int AS b, count(*)::int AS q FROM queue_entries';
  t.same((await place.pool.query(count)).rows, [{ b: 1, q: 1 }]);
});

t.test('grants the claim of an Idempotency-Key once, whichever process is asked', async (t) => {
  const { place, one, first, second } = await two(t);
  const tenant = aTenant();
  const hash = Buffer.alloc(32, 1);
  const claims = await Promise.all(
    [first, second].map((queue) => queue.idempotency.claim(tenant, 'k', hash)),
  );
  t.same(claims.map(({ state }) => state).sort(), ['in_progress', 'new']);
  const other = await second.idempotency.claim(tenant, 'k', Buffer.alloc(32, 2));
  t.not(other.state, 'new');
  // The claim of a dead process counts as none.
  const dead = claims[0]?.state === 'new' ? first : second;
  const alive = dead === first ? second : first;
  one.crash();
  await place.pool.query('DELETE FROM queue_holders WHERE id IN (SELECT holder FROM idempotency)');
  t.equal((await alive.idempotency.claim(tenant, 'k', hash)).state, 'new');
});

t.test('moves a batch from one queue into the branches of another once', async (t) => {
  const { one, other, first } = await two(t, { name: 'in', branches: ['jobs'], maxBytes: 1e9 });
  const options = { name: 'in/work', branches: ['x', 'y'], maxBytes: 1e9 };
  const [left, right] = [await one.openQueue(options), await other.openQueue(options)];
  const batch = nativeBatch(2);
  await first.append(batch);
  t.same(await first.waitingFor(0, 10), [batch.id]);
  const taken = await Promise.all(
    [left, right, right].map((queue) => queue.take('in', batch.id, ['x'])),
  );
  t.same(taken.map(({ size }) => size).sort(), [0, 0, 1], 'by one of the callers');
  t.same(await first.waitingFor(0, 10), []);
  const [waiting] = [
    ...(await left.lease('y', 10, ANY_SIZE)),
    ...(await right.lease('y', 10, ANY_SIZE)),
  ];
  t.equal(waiting?.batch.id, batch.id, 'the branch without a lease has it too');
});

t.test('releases a taken batch that could not be read in all branches', async (t) => {
  const { place, one, first } = await two(t, { name: 'in', branches: ['jobs'], maxBytes: 1e9 });
  const queue = await one.openQueue({ name: 'in/work', branches: ['x', 'y'], maxBytes: 1e9 });
  const batch = nativeBatch(2);
  await first.append(batch);
  place.failReads(true);
  await t.rejects(queue.take('in', batch.id, ['x', 'y']), { code: 'storage_failed' });
  place.failReads(false);
  for (const branch of ['x', 'y']) {
    const entries = await eventually(
      () => queue.lease(branch, 10, ANY_SIZE),
      (leased) => leased.length > 0,
      `an entry of ${branch}`,
      // Well before the search for orphaned leases.
      3000,
    );
    t.same(
      entries.map((entry) => entry.batch.id),
      [batch.id],
    );
  }
});

t.test('runs work under a lease in one process at a time', async (t) => {
  const { one, other } = await two(t);
  let runs = 0;
  let end = (): void => {};
  const first = one.withLease('work', () => {
    runs++;
    return new Promise<void>((resolve) => {
      end = resolve;
    });
  });
  while (runs === 0) await new Promise((resolve) => setImmediate(resolve));
  t.equal(await other.withLease('work', async () => void runs++), false);
  end();
  t.equal(await first, true);
  t.equal(await other.withLease('work', async () => void runs++), true);
  t.equal(runs, 2);
});

t.test('removes all entries of a deleted project, and refuses further ones', async (t) => {
  const { place, one, first } = await two(t);
  const tenant = aTenant({ projectId: 'proj_gone' });
  const kept = { status: 202, contentType: 'text/plain', body: Buffer.from('ok') };
  const request = answered({ ...kept, key: 'k', requestHash: Buffer.alloc(32) });
  const gone = () => nativeBatch(1, { tenant });
  await first.append(gone(), request);
  await Promise.all([first.append(gone()), first.append(gone()), first.append(nativeBatch(1))]);
  const [dead] = await first.lease('a', 1, ANY_SIZE);
  if (dead !== undefined) await first.deadLetter('a', dead, { code: 'bad', message: '\0' });
  const drops: unknown[] = [];
  first.onDrop((drop) => drops.push(drop));
  place.deleted.add('proj_gone');
  for await (const _ of one.remove(place.pool, 'proj_gone'));
  for (const table of ['queue_entries', 'queue_dead_letters', 'idempotency']) {
    const { rows } = await place.pool.query(`SELECT * FROM ${table} WHERE project = 'proj_gone'`);
    t.same(rows, [], table);
  }
  t.equal(drops.length, 3);
  await t.rejects(first.append(gone()), { code: 'unauthorized' });
  t.equal((await first.lease('a', 10, ANY_SIZE)).length, 1, 'entries of other projects stay');
});

t.test(
  'rejects appends while the store is away, and writes outcomes of deliveries afterwards',
  async (t) => {
    const { place, first } = await two(t);
    await first.append(nativeBatch(1));
    const entries = await first.lease('a', 10, ANY_SIZE);
    place.fail(true);
    await t.rejects(first.append(nativeBatch(1)), { code: 'storage_failed' });
    const acknowledged = first.ack('a', entries);
    place.fail(false);
    await acknowledged;
    const { rows } = await place.pool.query('SELECT * FROM queue_entries');
    t.same(rows, []);
  },
);

t.test('refuses an unclaimed request whose key another process has claimed', async (t) => {
  const url = await migratedDatabase(server);
  const place = await queueDatabase(t, url);
  const options = { name: 'queue', branches: ['a'], maxBytes: 1e9 };
  const first = await (await place.open(systemClock)).openQueue(options);
  const second = await (await place.open(systemClock)).openQueue(options);
  const requestHash = Buffer.alloc(16);
  const answer = { status: 202, contentType: 'application/json', body: Buffer.from('{}') };
  const unclaimed = () =>
    answered({ ...answer, key: '\0a', requestHash, keptFor: 600_000, isUnclaimed: true });
  const batch = nativeBatch(1);
  const claim = await first.idempotency.claim(batch.tenant, '\0a', requestHash);
  t.equal(claim.state, 'new');
  const [refused, other] = await Promise.allSettled([
    second.append(batch, unclaimed()),
    second.append(nativeBatch(1)),
  ]);
  t.match(refused, { status: 'rejected', reason: { name: 'Refusal', status: 503 } });
  t.equal(other.status, 'fulfilled', 'others of its group are stored');
  t.equal(second.stats().branches[0]?.entries, 1);

  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query("UPDATE idempotency SET holder = 'gone'");
  await client.end();
  await second.append(batch, unclaimed());
  await t.rejects(second.append(nativeBatch(1), unclaimed()), { name: 'RepeatedRequest', answer });
});
