import { randomBytes } from 'node:crypto';
import { chownSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { PostgresServer } from '../helper/postgres-server.ts';
import type { Relay } from '../helper/relay.ts';
import { relay } from '../helper/relay.ts';
import { fill, smallDisk } from '../helper/small-disk.ts';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import type { Cluster, ClusterOptions } from './cluster.ts';
import { sql, startCluster } from './cluster.ts';
import type { Daemon } from './daemon.ts';
import { compare, type Entry, startLoad } from './journal.ts';
import { treeAt } from './shipped.ts';

/** Runs the shipped gateway and worker while Postgres and Redis fail in different ways. */

t.setTimeout(300_000);
t.jobs = 1;

const BATCH = '/api/v1/observations/batch';
/** Limit of the contract for an answer of 503. */
const SOON_MS = 2000;

let sent = 0;

type Setup = {
  readonly cluster: Cluster;
  readonly gateway: Daemon;
  readonly worker: Daemon;
  readonly postgresRelay: Relay;
  readonly redisRelay: Relay;
};

/** Servers behind one address each, which can fail over and misbehave. */
async function setup(t: Test, options: ClusterOptions = {}): Promise<Setup> {
  const relays = new Map<string, Relay>();
  const cluster = await startCluster(t, {
    ...{ gateways: 1, workers: 1 },
    // A short retry interval, because the test waits for the delivery.
    worker(config) {
      treeAt(config, 'receivers', 'bullmq').max_interval = '1s';
    },
    ...options,
    async through(server, port) {
      const made = await relay(t, port);
      relays.set(server, made);
      return made.port;
    },
  });
  const [gateway, worker] = [cluster.gateways[0], cluster.workers[0]];
  const [postgresRelay, redisRelay] = [relays.get('postgres'), relays.get('redis')];
  if (!gateway || !worker || !postgresRelay || !redisRelay) throw new Error('something is missing');
  return { cluster, gateway, worker, postgresRelay, redisRelay };
}

/** A request with its own trace and a payload that fills the disk. */
async function post(
  { cluster }: Setup,
  bytes = 10,
  count = 1,
): Promise<{ readonly answer: Answer; readonly trace: string }> {
  const trace = `trace-${++sent}`;
  const known = { operation: 'finish', kind: 'span', status: 'ok' };
  const events = Array.from({ length: count }, (_, i) => {
    // Random text, which a database cannot compress.
    const inputs = randomBytes(bytes).toString('base64');
    return { id: `event-${sent}-${i}`, trace_id: trace, ...known, inputs };
  });
  const { base, key } = cluster.target();
  const answer = await send(base, {
    method: 'POST',
    path: BATCH,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  return { answer, trace };
}

/** Sends twenty requests at once, each of which must be refused in time. Returns their traces. */
async function refusedSoon(t: Test, setup: Setup, what: string, bytes = 10): Promise<string[]> {
  const all = await Promise.all(Array.from({ length: 20 }, () => post(setup, bytes)));
  const slowest = Math.max(...all.map(({ answer }) => answer.ms));
  t.same([...new Set(all.map(({ answer }) => answer.status))], [503], what);
  t.ok(
    all.every(({ answer }) => /^\d+$/.test(String(answer.headers['retry-after']))),
    'it says when to try again',
  );
  t.ok(slowest < SOON_MS, `${what}: answered within ${Math.round(slowest)} ms`);
  return all.map(({ trace }) => trace);
}

async function works(setup: Setup, bytes = 10): Promise<void> {
  await eventually(
    () => post(setup, bytes),
    ({ answer }) => answer.status === 202,
    'an answer, without a restart',
    20_000,
  );
}

/** The report of a component in `/readyz?verbose`. */
async function healthOf(daemon: Daemon, id: string): Promise<Record<string, unknown>> {
  const report = json(await send(daemon.health, { path: '/readyz?verbose' }));
  const found = list(record(report).components).map(record);
  return found.find((one) => one.id === id) ?? {};
}

/** Gateway and worker report the failure, and stay alive. */
async function told(t: Test, { gateway, worker }: Setup, id: string, message: RegExp) {
  for (const [name, daemon] of Object.entries({ gateway, worker })) {
    await eventually(
      () => healthOf(daemon, id),
      (health) => health.healthy === false && message.test(String(health.message)),
      `a ${name} that says ${message.source} of ${id}`,
      15_000,
    );
    t.equal((await send(daemon.health, { path: '/livez' })).status, 200);
  }
}

async function wellAgain({ gateway, worker }: Setup, id: string): Promise<void> {
  for (const daemon of [gateway, worker]) {
    await eventually(
      () => healthOf(daemon, id),
      ({ healthy }) => healthy !== false,
      `${id} that is well again`,
      20_000,
    );
    await eventually(
      () => send(daemon.health, { path: '/readyz' }),
      ({ status }) => status === 200,
      'a daemon that is ready again',
    );
  }
}

/** Every accepted request, and no other, is stored once and counted once. */
async function isExact(t: Test, { cluster, gateway }: Setup, database: string): Promise<void> {
  const one = async (text: string) => Number((await sql(database, text))[0]?.count);
  const stored = await one('SELECT count(*) AS count FROM observations');
  t.equal(await one('SELECT sum(events) AS count FROM all_usage'), stored, 'usage is exact');
  t.equal(await one('SELECT count(*) AS count FROM queue_dead_letters'), 0, 'no dead letter');
  const verified = await gateway.cli('usage', 'verify');
  t.equal(verified.code, 0, verified.stdout + verified.stderr);
  t.ok(cluster.gateways.every((daemon) => daemon.running()));
}

async function isNowhere(t: Test, database: string, traces: readonly string[]): Promise<void> {
  const names = traces.map((trace) => `'${trace}'`).join(', ');
  const [row] = await sql(
    database,
    `SELECT count(*) AS count FROM batches b, unnest(ARRAY[${names}]) AS g (trace)
     WHERE position(convert_to('"' || trace || '"', 'UTF8') IN b.body) > 0`,
  );
  t.equal(Number(row?.count), 0, 'nothing of what was refused is there');
}

/** A database of a role that is not a superuser, so that the role can be locked out. */
async function ownDatabase(postgres: PostgresServer, disk: string | undefined): Promise<string> {
  const url = new URL(await postgres.database());
  const admin = url.href;
  if (disk !== undefined) {
    const [row] = await sql(admin, 'SHOW data_directory');
    const { uid, gid } = statSync(String(row?.data_directory));
    chownSync(disk, uid, gid);
    await sql(admin, `CREATE TABLESPACE small LOCATION '${disk}'`);
  }
  await sql(admin, 'CREATE ROLE app LOGIN');
  const where = disk === undefined ? '' : 'TABLESPACE small';
  await sql(admin, `CREATE DATABASE traces OWNER app ${where}`);
  url.username = 'app';
  url.pathname = '/traces';
  return url.href;
}

t.test('survives unreachable, silent, slow, full and refusing servers', async (t) => {
  const disk = smallDisk(t, '64m');
  const place = await setup(t, { database: (postgres) => ownDatabase(postgres, disk) });
  const { cluster, postgresRelay, redisRelay } = place;
  const { redis, postgres } = cluster;
  const database = cluster.database.replace('//app@', '//test@');
  await works(place);

  await t.test('a silent or killed Redis', async (t) => {
    redis.freeze();
    await refusedSoon(t, place, 'Redis says nothing');
    redis.thaw();
    await works(place);
    await redis.kill();
    await refusedSoon(t, place, 'Redis is gone');
    await told(t, place, 'redis', /cannot be reached/);
    await redis.start();
    await works(place);
    await wellAgain(place, 'redis');
  });

  await t.test('a silent or killed Postgres', async (t) => {
    postgres.freeze();
    await refusedSoon(t, place, 'Postgres says nothing');
    await told(t, place, 'postgres', /cannot be reached/);
    postgres.thaw();
    await works(place);
    await postgres.kill();
    await refusedSoon(t, place, 'Postgres is gone');
    await told(t, place, 'postgres', /cannot be reached/);
    await postgres.start();
    await works(place);
    await wellAgain(place, 'postgres');
  });

  await t.test('a slow Postgres serves, and a very slow one leads to 503 in time', async (t) => {
    postgresRelay.delay(150);
    const all = await Promise.all(Array.from({ length: 20 }, () => post(place)));
    const taken = all.filter(({ answer }) => answer.status === 202);
    t.ok(taken.length > 0, `${taken.length} of 20 were taken`);
    t.ok(all.every(({ answer }) => answer.ms < SOON_MS));
    await works(place);
    for (const ms of [700, 3000]) {
      postgresRelay.delay(ms);
      for (let i = 0; i < 2; i++) await refusedSoon(t, place, `each answer comes ${ms} ms late`);
    }
    await told(t, place, 'postgres', /cannot be reached/);
    postgresRelay.delay(0);
    await works(place);
    await wellAgain(place, 'postgres');
    // A background call may wait for a connection for a moment.
    await eventually(
      () => healthOf(place.gateway, 'postgres'),
      ({ details }) => record(details).waiting === 0,
      'a Postgres that no call waits for',
      20_000,
    );
  });

  await t.test('a slow Redis serves, and a very slow one leads to 503 in time', async (t) => {
    redisRelay.delay(100);
    await works(place);
    for (const ms of [900, 3000]) {
      redisRelay.delay(ms);
      for (let i = 0; i < 2; i++) await refusedSoon(t, place, `each answer comes ${ms} ms late`);
    }
    redisRelay.delay(0);
    await works(place);
    await wellAgain(place, 'redis');
  });

  await t.test('dead connections are dropped together', async (t) => {
    await Promise.all(Array.from({ length: 40 }, () => post(place)));
    postgresRelay.swallow(true);
    await refusedSoon(t, place, 'nothing comes through');
    postgresRelay.swallow(false);
    const begun = Date.now();
    await works(place);
    t.ok(Date.now() - begun < 3000, 'soon after it is there again');
  });

  await t.test('a locked-out role, and a connection limit', async (t) => {
    for (const [keepOut, letIn, message] of [
      ['ALTER ROLE app NOLOGIN', 'ALTER ROLE app LOGIN', /rejected the role \(28/],
      [
        'ALTER ROLE app CONNECTION LIMIT 0',
        'ALTER ROLE app CONNECTION LIMIT -1',
        /no connection left \(53300/,
      ],
    ] as const) {
      await sql(database, keepOut);
      await sql(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'",
      );
      await refusedSoon(t, place, keepOut);
      await told(t, place, 'postgres', message);
      await eventually(
        () => send(place.gateway.health, { path: '/readyz' }),
        ({ status }) => status === 503,
        'a gateway that is not ready',
      );
      await sql(database, letIn);
      await works(place);
      await wellAgain(place, 'postgres');
    }
  });

  await t.test('a Postgres with a full disk', async (t) => {
    if (disk === undefined) {
      t.comment('no file system of a fixed size can be mounted here');
      return;
    }
    // The worker's writes fail too.
    process.kill(place.worker.pid(), 'SIGSTOP');
    for (let i = 0; i < 20; i++) {
      t.equal((await post(place, 10, 200)).answer.status, 202);
    }
    fill(join(disk, 'ballast'));
    process.kill(place.worker.pid(), 'SIGCONT');
    const refused = await refusedSoon(t, place, 'the disk is full', 100_000);
    await told(t, place, 'postgres', /disk of Postgres is full \(53100/);
    t.equal((await send(place.gateway.health, { path: '/readyz' })).status, 200);
    rmSync(join(disk, 'ballast'));
    await works(place, 100_000);
    await isNowhere(t, database, refused);
    await wellAgain(place, 'postgres');
    await cluster.drained();
    await isExact(t, place, database);
  });

  await t.test('a full Redis', async (t) => {
    await redis.config('maxmemory', '1mb');
    const refused = await refusedSoon(t, place, 'Redis is full');
    await told(t, { ...place, worker: place.gateway }, 'redis', /full/);
    await redis.config('maxmemory', '0');
    await works(place);
    await isNowhere(t, database, refused);
    await wellAgain(place, 'redis');
  });

  await t.test('a Redis that became a replica, or wants a password', async (t) => {
    await redis.client.replicaof('127.0.0.1', 1);
    await refusedSoon(t, place, 'Redis is a replica');
    await told(t, { ...place, worker: place.gateway }, 'redis', /replica/);
    await redis.client.replicaof('NO', 'ONE');
    await works(place);
    await wellAgain(place, 'redis');
    await redis.config('requirepass', 'another');
    await redis.client.call('CLIENT', 'KILL', 'TYPE', 'normal');
    await refusedSoon(t, place, 'Redis wants a password');
    await told(t, place, 'redis', /cannot be reached/);
    await redis.config('requirepass', '');
    await works(place);
    await wellAgain(place, 'redis');
    await cluster.drained();
    await isExact(t, place, database);
  });
});

t.test('Postgres fails over under load: nothing answered is lost, nothing restarts', async (t) => {
  const standbys: PostgresServer[] = [];
  const place = await setup(t, {
    gateways: 2,
    async database(postgres) {
      const url = await postgres.database();
      standbys.push(await followed(postgres, 'second'));
      return url;
    },
  });
  const { cluster, postgresRelay } = place;
  const { postgres: first } = cluster;
  const [second] = standbys;
  if (second === undefined) throw new Error('there is no standby');
  const journal: Entry[] = [];
  const load = startLoad(cluster.target, journal, { clients: 4, open: [503] });
  const answers = (more: number): Promise<number> => {
    const count = async () => journal.filter(({ state }) => state === 'acknowledged').length;
    const before = journal.filter(({ state }) => state === 'acknowledged').length;
    return eventually(count, (now) => now > before + more, 'answers, without a restart', 20_000);
  };
  await answers(50);

  // The old one goes on to answer those that are connected, and takes nothing.
  await sql(adminOf(first), 'ALTER SYSTEM SET default_transaction_read_only = on');
  await sql(adminOf(first), 'SELECT pg_reload_conf()');
  await eventually(
    () => sql(adminOf(first), 'SHOW default_transaction_read_only'),
    ([row]) => row?.default_transaction_read_only === 'on',
    'the read-only mode',
  );
  await sql(adminOf(second), 'SELECT pg_promote()');
  postgresRelay.pointAt(second.port);
  await answers(50);
  await eventually(
    () =>
      sql(
        adminOf(second),
        `SELECT 1 FROM pg_stat_activity WHERE application_name = 'tracectl notices'`,
      ),
    (rows) => rows.length === 3,
    'notices heard from the new one',
    15_000,
  );

  const third = await followed(second, 'third');
  await answers(50);
  await second.kill();
  await sql(adminOf(third), 'SELECT pg_promote()');
  postgresRelay.pointAt(third.port);
  await answers(50);
  await load.stop();
  await cluster.drained();
  const { problems } = await compare(cluster.target, journal);
  t.same(problems, [], 'what was answered is there once and as sent, what was refused is not');
  const url = new URL(cluster.database);
  url.port = `${third.port}`;
  await isExact(t, place, url.href);
});

/** Another server that has all that this one has answered. */
async function followed(postgres: PostgresServer, name: string): Promise<PostgresServer> {
  const standby = await postgres.standby(name);
  await sql(adminOf(postgres), `ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await sql(adminOf(postgres), 'SELECT pg_reload_conf()');
  await eventually(
    () => sql(adminOf(postgres), "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"),
    (rows) => rows.length > 0,
    'a standby that follows',
  );
  return standby;
}

function adminOf({ port }: PostgresServer): string {
  return `postgres://test@127.0.0.1:${port}/postgres`;
}
