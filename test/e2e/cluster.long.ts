import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { makeToken } from '../../src/tenancy/token.ts';
import { type Answer, eventually, json, list, record, send } from './client.ts';
import type { Cluster } from './cluster.ts';
import { at, redisValues, sql, startCluster } from './cluster.ts';
import type { Daemon } from './daemon.ts';
import type { Target } from './journal.ts';
import { treeAt } from './shipped.ts';

/** Runs config/gateway.yaml and config/worker.yaml as processes, with a real Redis and a real Postgres. */

t.setTimeout(600_000);
// Three gateways, two workers and two servers are enough for two cores.
t.jobs = 1;

const BATCH = '/api/v1/observations/batch';

let sent = 0;

function events(count: number, inputs: unknown = 'hello'): string {
  const one = () => {
    const known = { operation: 'finish', kind: 'span', status: 'ok', inputs };
    return { id: `event-${++sent}`, trace_id: `trace-${sent}`, ...known };
  };
  return JSON.stringify({ events: Array.from({ length: count }, one) });
}

function post({ base, key }: Target, body: string | Buffer): Promise<Answer> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return send(base, { method: 'POST', path: BATCH, headers, body });
}

function admin(
  { adminToken }: Cluster,
  daemon: Daemon,
  method: string,
  path: string,
  body?: object,
): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${adminToken}`,
    ...(body === undefined ? {} : { 'content-type': 'application/json' }),
  };
  const text = body === undefined ? undefined : JSON.stringify(body);
  return send(daemon.adminBase, { method, path, headers, body: text });
}

const HOUR = 3_600_000;

/** Avoids the end of an hour, which would reset the limit during a test. */
async function clearOfTheHour(): Promise<void> {
  const left = HOUR - (Date.now() % HOUR);
  if (left < 60_000) await sleep(left);
}

t.test('replicas together never exceed a limit by an event', async (t) => {
  await clearOfTheHour();
  const limit = 250;
  const cluster = await startCluster(t, {
    workers: 1,
    gateway(config) {
      treeAt(config, 'extensions', 'postgres').organization = { events_per_month: limit };
    },
  });
  // Retries 503 as a client does.
  const insist = async (): Promise<number> => {
    const body = events(1);
    for (;;) {
      const { status } = await post(cluster.target(), body);
      if (status !== 503) return status;
    }
  };
  const used = async () => {
    const [row] = await sql(cluster.database, 'SELECT sum(events) AS events FROM all_usage');
    return Number(row?.events);
  };
  const statuses = await Promise.all(Array.from({ length: 400 }, insist));
  t.same([...new Set(statuses)].sort(), [202, 402]);
  // A failed request releases its reservation, so a later one can use it. If its outcome is unknown, the reservation is
  // compared with the ledger after a minute.
  await eventually(
    async () => {
      while ((await insist()) === 202);
      return used();
    },
    (events) => events === limit,
    'the whole limit used up',
    180_000,
  );
  await cluster.redis.client.flushall();
  const after = await eventually(
    () => post(cluster.target(), events(1)),
    ({ status }) => status !== 503,
    'counters summed up from the ledger',
  );
  t.equal(after.status, 402, 'the month is used up, also for counters that were lost');
  t.equal(await used(), limit);
});

/** A key of the first project, made through this gateway. */
async function newKey(cluster: Cluster, here: Daemon): Promise<{ id: string; token: string }> {
  const projects = json(await admin(cluster, here, 'GET', '/api/v1/projects'));
  const project = record(list(record(projects).projects)[0]).id;
  const path = `/api/v1/projects/${String(project)}/keys`;
  const made = record(json(await admin(cluster, here, 'POST', path, { name: 'k' })));
  return { id: String(record(made.key ?? made).id), token: String(made.token) };
}

/** Cuts the connections that hear notices, again and again until the end of `work`. */
async function withoutNotices(database: string, work: () => Promise<void>): Promise<void> {
  let isCut = true;
  let cuts = 0;
  const cutting = (async () => {
    while (isCut) {
      await sql(
        database,
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'tracectl notices'`,
      );
      cuts++;
      await sleep(100);
    }
  })();
  try {
    await eventually(
      async () => cuts,
      (count) => count >= 3,
      'cut connections',
    );
    await work();
  } finally {
    isCut = false;
    await cutting;
  }
}

t.test(
  'a new key works at every replica at once, beside wrong keys and without notices',
  async (t) => {
    const cluster = await startCluster(t, { gateways: 2, workers: 1 });
    const [here, there] = [at(cluster.gateways, 0), at(cluster.gateways, 1)];
    let isOver = false;
    const wrong = async (): Promise<void> => {
      while (!isOver) await post({ base: there.base, key: makeToken() }, events(1));
    };
    const flood = Promise.all(Array.from({ length: 8 }, wrong));
    const use = async (what: string): Promise<void> => {
      for (let i = 0; i < 10; i++) {
        const { token } = await newKey(cluster, here);
        const { status } = await eventually(
          () => post({ base: there.base, key: token }, events(1)),
          (answer) => answer.status !== 503,
          'an answer other than 503',
          60_000,
        );
        t.equal(status, 202, what);
      }
    };
    try {
      await use('with notices');
      await withoutNotices(cluster.database, () => use('without notices'));
    } catch (error) {
      t.comment(there.stderr().slice(-4_000));
      throw error;
    } finally {
      isOver = true;
      await flood;
    }
  },
);

t.test('every replica refuses a revoked key, also when the notice is lost', async (t) => {
  const cluster = await startCluster(t, { gateways: 2, workers: 1 });
  const { gateways, database } = cluster;
  const [here, there] = [at(gateways, 0), at(gateways, 1)];
  const refused = (token: string, timeoutMs: number) =>
    eventually(
      () => post({ base: there.base, key: token }, events(1)),
      ({ status }) => status === 401,
      'a refusal by the other gateway',
      timeoutMs,
    );

  const heard = await newKey(cluster, here);
  t.equal((await post({ base: there.base, key: heard.token }, events(1))).status, 202);
  await admin(cluster, here, 'DELETE', `/api/v1/keys/${heard.id}`);
  await refused(heard.token, 2000);

  const unheard = await newKey(cluster, here);
  t.equal((await post({ base: there.base, key: unheard.token }, events(1))).status, 202);
  await withoutNotices(database, async () => {
    await admin(cluster, here, 'DELETE', `/api/v1/keys/${unheard.id}`);
    await refused(unheard.token, 5000);
  });
});

t.test('deleting a project under load leaves only its usage', async (t) => {
  const cluster = await startCluster(t, { gateways: 2, workers: 1 });
  const { gateways, redis, database } = cluster;
  const gateway = at(gateways, 0);
  const made = json(await admin(cluster, gateway, 'POST', '/api/v1/projects', { name: 'doomed' }));
  const project = String(record(made).id);
  const path = `/api/v1/projects/${project}/keys`;
  const { token } = record(json(await admin(cluster, gateway, 'POST', path, { name: 'k' })));
  const canary = 'canary-of-a-deleted-project';
  let accepted = 0;
  let refusals = 0;
  let isOver = false;
  const client = async (): Promise<void> => {
    while (!isOver) {
      const { base } = cluster.target();
      const { status } = await post({ base, key: String(token) }, events(5, canary));
      if (status === 202) accepted += 5;
      else refusals++;
    }
  };
  const clients = Promise.all([client(), client(), client(), client()]);
  await eventually(
    async () => accepted,
    (count) => count >= 50,
    'load on the project',
  );
  const deleted = await admin(cluster, gateway, 'DELETE', `/api/v1/projects/${project}`);
  t.equal(deleted.status, 204);
  const refusedBefore = refusals;
  await eventually(
    async () => refusals,
    (count) => count > refusedBefore + 20,
    'refused requests',
  );
  isOver = true;
  await clients;
  t.ok(accepted > 0);
  await cluster.drained();
  await eventually(
    () => sql(database, 'SELECT 1 FROM deleted_projects WHERE NOT is_purged'),
    (rows) => rows.length === 0,
    'everything removed',
    30_000,
  );
  const [used] = await sql(database, `SELECT sum(events) AS events FROM all_usage`);
  t.equal(Number(used?.events), accepted, 'what was answered stays counted');
  const usage = ['usage_ledger', 'usage_hours', 'usage_windows', 'all_usage', 'rejected_hours'];
  const kept = [...usage, 'deleted_projects', 'audit_log'];
  const tables = await sql(
    database,
    `SELECT table_name FROM information_schema.columns
     WHERE table_schema = 'public' AND column_name = 'project'`,
  );
  for (const { table_name: table } of tables) {
    if (kept.includes(String(table))) continue;
    const [row] = await sql(
      database,
      `SELECT count(*) AS count FROM ${String(table)} WHERE project = '${project}'`,
    );
    t.equal(Number(row?.count), 0, String(table));
  }
  const [bodies] = await sql(
    database,
    `SELECT count(*) AS count FROM batches WHERE position('${canary}'::bytea IN body) > 0`,
  );
  t.equal(Number(bodies?.count), 0);
  for (const [key, value] of await redisValues(redis)) {
    t.notOk(value.includes(canary), `${key} holds nothing of it`);
  }
});
