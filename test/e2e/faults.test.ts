import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import t, { type Test } from 'tap';
import type { PostgresServer } from '../helper/postgres-server.ts';
import type { Relay } from '../helper/relay.ts';
import { relay } from '../helper/relay.ts';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import type { Cluster, ClusterOptions } from './cluster.ts';
import { startCluster } from './cluster.ts';
import type { Daemon } from './daemon.ts';
import { compare, type Entry, startLoad } from './journal.ts';

/** A gateway and a worker as they are shipped, while Postgres and Redis fail in every way but one at a time. */

t.setTimeout(300_000);
t.jobs = 1;

const BATCH = '/api/v1/observations/batch';
/** What the contract promises. */
const SOON_MS = 2000;

let sent = 0;

type Setup = {
  readonly cluster: Cluster;
  readonly gateway: Daemon;
  readonly worker: Daemon;
  readonly postgresRelay: Relay;
  readonly redisRelay: Relay;
};

/** Servers behind one address each, which can move and misbehave. */
async function setup(t: Test, options: ClusterOptions = {}): Promise<Setup> {
  const relays = new Map<string, Relay>();
  const cluster = await startCluster(t, {
    ...{ gateways: 1, workers: 1 },
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

/** A request with a trace of its own, and a payload that takes room. */
async function post(
  { cluster }: Setup,
  bytes = 10,
): Promise<{ readonly answer: Answer; readonly trace: string }> {
  const trace = `trace-${++sent}`;
  const known = { operation: 'finish', kind: 'span', status: 'ok', inputs: 'x'.repeat(bytes) };
  const { base, key } = cluster.target();
  const answer = await send(base, {
    method: 'POST',
    path: BATCH,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ id: `event-${sent}`, trace_id: trace, ...known }] }),
  });
  return { answer, trace };
}

/** Twenty at once, each refused in time; the traces of all of them. */
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

/** What `/readyz?verbose` says of a component of a daemon. */
async function healthOf(daemon: Daemon, id: string): Promise<Record<string, unknown>> {
  const report = json(await send(daemon.health, { path: '/readyz?verbose' }));
  const found = list(record(report).components).map(record);
  return found.find((one) => one.id === id) ?? {};
}

/** Both say what is wrong with it, and live. */
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

/** Asks the database itself, past the relay. */
async function sql(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(text)).rows as Record<string, unknown>[];
  } finally {
    await client.end().catch(() => {});
  }
}

/** All that was accepted, and nothing else, is stored once and counted once. */
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

t.test('Postgres and Redis away, silent, slow, full and refusing', async (t) => {
  const place = await setup(t);
  const { cluster, postgresRelay, redisRelay } = place;
  const { redis, postgres, database } = cluster;
  await works(place);

  await t.test('a Redis that says nothing, or is gone', async (t) => {
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

  await t.test('a Postgres that says nothing, or is gone', async (t) => {
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

  await t.test('a slow Postgres serves; a very slow one refuses in time', async (t) => {
    postgresRelay.delay(150);
    const all = await Promise.all(Array.from({ length: 20 }, () => post(place)));
    const taken = all.filter(({ answer }) => answer.status === 202);
    t.ok(taken.length > 0, `${taken.length} of 20 were taken`);
    t.ok(all.every(({ answer }) => answer.ms < SOON_MS));
    await works(place);
    for (const ms of [700, 3000]) {
      postgresRelay.delay(ms);
      for (let i = 0; i < 3; i++) await refusedSoon(t, place, `each answer comes ${ms} ms late`);
    }
    await told(t, place, 'postgres', /cannot be reached/);
    postgresRelay.delay(0);
    await works(place);
    await wellAgain(place, 'postgres');
    t.equal(record((await healthOf(place.gateway, 'postgres')).details).waiting, 0);
  });

  await t.test('a Redis as slow', async (t) => {
    redisRelay.delay(100);
    await works(place);
    for (const ms of [900, 3000]) {
      redisRelay.delay(ms);
      for (let i = 0; i < 3; i++) await refusedSoon(t, place, `each answer comes ${ms} ms late`);
    }
    redisRelay.delay(0);
    await works(place);
    await wellAgain(place, 'redis');
  });

  await t.test('connections that lead nowhere any more are not tried one by one', async (t) => {
    await Promise.all(Array.from({ length: 40 }, () => post(place)));
    postgresRelay.swallow(true);
    await refusedSoon(t, place, 'nothing comes through');
    postgresRelay.swallow(false);
    const begun = Date.now();
    await works(place);
    t.ok(Date.now() - begun < 3000, 'soon after it is there again');
  });

  t.teardown(() => void database);
});
