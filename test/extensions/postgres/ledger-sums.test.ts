import t, { type Test } from 'tap';
import type { Postgres } from '../../../extensions/postgres/connection/pool.ts';
import { sumNew, sumUpStep } from '../../../extensions/postgres/tenancy/ledger-sums.ts';
import { rebuilding } from '../../../extensions/postgres/tenancy/rebuilding.ts';
import { recordUsage } from '../../../extensions/postgres/tenancy/usage.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import { aTenant } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

const server = await postgresDatabases(t);

async function opened(t: Test) {
  const place = await postgresPlace(server);
  const open = await place.open();
  t.teardown(() => open.close());
  const now = place.clock.now();
  const { postgres } = open;
  let batches = 0;
  /** Enters batches of 2 events and 20 bytes each, by turns of two projects. */
  const enter = (count: number, at = now) =>
    recordUsage(
      postgres,
      Array.from({ length: count }, () => ({
        batchId: `batch-${++batches}`,
        tenant: aTenant({ organizationId: 'org', projectId: `proj_${batches % 2}` }),
        usage: { events: 2, bytes: 20 },
        at,
      })),
    );
  return { ...open, now, enter };
}

/** The sums of the whole ledger, and the number of rows that are not part of the sums by hour. */
async function ledgerOf(postgres: Postgres) {
  const { rows } = await postgres.query(
    `SELECT sum(events)::bigint AS events, sum(bytes)::bigint AS bytes,
       (SELECT count(*) FROM usage_ledger WHERE events > 0 OR bytes > 0) AS unsummed FROM all_usage`,
  );
  return rows[0];
}

t.test('sums new usage up in steps, exactly, and keeps the rows', async (t) => {
  const { postgres, enter } = await opened(t);
  for (const [count, steps] of [
    [9, 'less than a multiple'],
    [10, 'a multiple'],
    [11, 'one more'],
  ] as const) {
    await enter(count);
    t.equal(await sumNew(postgres, 5), count, steps);
  }
  t.same(await ledgerOf(postgres), { events: 60, bytes: 600, unsummed: 0 });
  const { rows } = await postgres.query('SELECT count(*) AS rows FROM usage_ledger');
  t.same(rows, [{ rows: 30 }]);
  t.equal(await sumNew(postgres, 5), 0, 'nothing is new');
});

t.test('a batch that was summed up is not entered again', async (t) => {
  const { postgres, enter, ledger } = await opened(t);
  await enter(1);
  await sumNew(postgres);
  const tenant = aTenant({ organizationId: 'org', projectId: 'proj_1' });
  await recordUsage(postgres, [
    { batchId: 'batch-1', tenant, usage: { events: 2, bytes: 20 }, at: Date.now() },
  ]);
  t.same(await ledgerOf(postgres), { events: 2, bytes: 20, unsummed: 0 });
  t.same([...(await ledger.decide('org', ['batch-1', 'batch-x']))], ['batch-1']);
});

t.test('processes that sum up at the same time count nothing twice', async (t) => {
  const { postgres, enter } = await opened(t);
  await enter(600);
  const summed = await Promise.all([1, 2, 3, 4].map(() => sumNew(postgres, 7)));
  await sumNew(postgres);
  t.same(await ledgerOf(postgres), { events: 1200, bytes: 12_000, unsummed: 0 });
  t.ok(summed.reduce((sum, count) => sum + count, 0) <= 600);
});

t.test('deletes rows of past hours, whether they were summed up before or not', async (t) => {
  const { postgres, enter, now } = await opened(t);
  const old = now - 200 * HOUR_MS;
  await enter(3, old);
  await sumNew(postgres);
  await enter(2, old);
  t.notOk(await sumUpStep(postgres, now));
  t.same(await ledgerOf(postgres), { events: 10, bytes: 100, unsummed: 0 });
  const { rows } = await postgres.query('SELECT count(*) AS rows FROM usage_ledger');
  t.same(rows, [{ rows: 0 }]);
});

t.test('the statement of version 0.1.0 that deletes past rows keeps the sums', async (t) => {
  const { postgres, enter, now } = await opened(t);
  await enter(3, now - 200 * HOUR_MS);
  await sumNew(postgres);
  await enter(1, now - 200 * HOUR_MS);
  await postgres.query(
    `WITH over AS (DELETE FROM usage_ledger RETURNING organization, project, key, hour, events, bytes)
     INSERT INTO usage_hours AS u (organization, project, key, hour, events, bytes)
     SELECT organization, project, key, hour, sum(events), sum(bytes) FROM over
     WHERE organization IS NOT NULL GROUP BY organization, project, key, hour
     ON CONFLICT (organization, project, key, hour) DO UPDATE SET
       events = u.events + excluded.events, bytes = u.bytes + excluded.bytes`,
  );
  t.same(await ledgerOf(postgres), { events: 8, bytes: 80, unsummed: 0 });
});

t.test('a rebuild finds everything summed up, while no transaction accepts', async (t) => {
  const { postgres, pools, enter } = await opened(t);
  await enter(20);
  const found = await rebuilding(pools.rebuild)(async (client) => {
    const { rows } = await client.query(
      `SELECT (SELECT count(*) FROM usage_ledger WHERE events > 0) AS fresh,
         pg_try_advisory_xact_lock_shared(1) AS other,
         (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock') AS held`,
      [],
    );
    return rows[0];
  });
  t.match(found, { fresh: 0, other: true, held: 1 });
  t.same(await ledgerOf(postgres), { events: 40, bytes: 400, unsummed: 0 });
});

t.test('a complete sum waits for the rows of another process', async (t) => {
  const { postgres, pools, enter } = await opened(t);
  await enter(6);
  const sums = () =>
    postgres
      .query('SELECT sum(events)::bigint AS events FROM usage_hours')
      .then(({ rows }) => rows);
  const ended = Promise.withResolvers<void>();
  const locked = Promise.withResolvers<void>();
  const other = pools.housekeeping.transaction(async (client) => {
    await sumNew(client, 4);
    locked.resolve();
    await ended.promise;
  });
  await locked.promise;
  let isOver = false;
  const complete = sumNew(pools.rebuild, 4, true).then((count) => {
    isOver = true;
    return count;
  });
  t.same(await sums(), [{ events: null }]);
  t.notOk(isOver);
  ended.resolve();
  await other;
  t.equal(await complete, 0);
  t.same(await sums(), [{ events: 12 }]);
});

t.test('a rebuild waits longer after transactions that took longer than its wait', async (t) => {
  const { postgres, pools, enter } = await opened(t);
  const rebuild = rebuilding(pools.rebuild);
  const ended = Promise.withResolvers<void>();
  const accepting = postgres.transaction(async (client) => {
    await client.query('SELECT begin_accepting($1)', [['proj_1']]);
    await ended.promise;
  });
  await enter(3);
  await t.rejects(
    rebuild(async () => 'done'),
    { code: 'statement_timeout' },
  );
  t.match(await ledgerOf(postgres), { unsummed: 0 }, 'what it summed up stays');
  const second = rebuild(async (client) => {
    const { rows } = await client.query("SELECT current_setting('lock_timeout') AS wait", []);
    return rows[0];
  });
  ended.resolve();
  await accepting;
  t.same(await second, { wait: '2s' });
  const third = await rebuild(async (client) => {
    const { rows } = await client.query("SELECT current_setting('lock_timeout') AS wait", []);
    return rows[0];
  });
  t.same(third, { wait: '1s' });
});
