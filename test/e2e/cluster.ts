import pg from 'pg';
import { freePorts } from '../helper/free-ports.ts';
import type { PostgresServer } from '../helper/postgres-server.ts';
import { postgresServer } from '../helper/postgres-server.ts';
import type { RedisServer, Teardown } from '../helper/redis-server.ts';
import { redisServer } from '../helper/redis-server.ts';
import { eventually, send } from './client.ts';
import type { Daemon, Tree } from './daemon.ts';
import { prepareDaemon } from './daemon.ts';
import type { Target } from './journal.ts';
import { replaceConfig, shippedConfig, treeAt } from './shipped.ts';

const ADMIN_TOKEN = 'an-admin-token-of-thirty-two-characters';

/** The shipped gateways and workers, with a Redis with an append-only file and a Postgres that syncs. */
export type Cluster = {
  readonly redis: RedisServer;
  readonly postgres: PostgresServer;
  readonly database: string;
  readonly gateways: readonly Daemon[];
  readonly workers: readonly Daemon[];
  /** Printed by the first gateway. */
  readonly key: string;
  readonly adminToken: string;
  /** The next running gateway, in turn. */
  target(): Target;
  /** Resolves when no batch waits in the store or in a worker, and every process reports it. */
  drained(): Promise<void>;
};

export type ClusterOptions = {
  readonly gateways?: number;
  readonly workers?: number;
  /** Changes a gateway's configuration. */
  readonly gateway?: (config: Tree) => void;
  readonly worker?: (config: Tree) => void;
  /** Creates the database; the default is an ordinary one. */
  readonly database?: (postgres: PostgresServer) => Promise<string>;
  /** The port at which the daemons reach a server; the default is the server's own. */
  readonly through?: (server: 'postgres' | 'redis', port: number) => Promise<number>;
};

export async function startCluster(t: Teardown, options: ClusterOptions = {}): Promise<Cluster> {
  const redis = await redisServer(t, ['--appendonly', 'yes', '--appendfsync', 'everysec']);
  const postgres = await postgresServer(t, []);
  const database = await (options.database?.(postgres) ?? postgres.database());
  const { through = async (_server, port) => port } = options;
  const env = {
    DATABASE_URL: withPort(database, await through('postgres', Number(new URL(database).port))),
    REDIS_URL: withPort(redis.url, await through('redis', redis.port)),
    TRACECTL_ADMIN_TOKEN: ADMIN_TOKEN,
  };
  const gateways = await Promise.all(
    Array.from({ length: options.gateways ?? 3 }, () => gateway(t, env, options.gateway)),
  );
  const workers = await Promise.all(
    Array.from({ length: options.workers ?? 2 }, () => worker(t, env, options.worker)),
  );
  // Starts all at once: one of them creates the tables and the first project.
  await Promise.all(gateways.map((daemon) => daemon.start()));
  await Promise.all(workers.map((daemon) => daemon.start()));
  const key = gateways.map((daemon) => daemon.key).find((printed) => printed !== '') ?? '';
  let turn = 0;
  return {
    ...{ redis, postgres, database, gateways, workers, key, adminToken: ADMIN_TOKEN },
    target() {
      const running = gateways.filter((daemon) => daemon.running());
      const next = running[turn++ % Math.max(1, running.length)] ?? gateways[0];
      return { base: next?.base ?? '', key };
    },
    async drained() {
      // One connection for all questions: a benchmark counts the CPU of new ones.
      await withClient(env.DATABASE_URL, (client) =>
        eventually(
          async () => (await client.query(UNDER_WAY)).rows,
          (rows) => rows.length === 0,
          'an empty queue',
          120_000,
        ),
      ).catch(async (error: unknown) => {
        throw new Error(await situation(redis, workers), { cause: error });
      });
      const daemons = [...gateways, ...workers].filter((daemon) => daemon.running());
      await eventually(
        async () => {
          const all = await Promise.all(daemons.map((daemon) => daemon.metrics()));
          return all.flatMap((samples) =>
            samples.filter(({ name, value }) => name === 'tracectl_queue_entries' && value > 0),
          );
        },
        (waiting) => waiting.length === 0,
        'nothing that waits',
        90_000,
      );
    },
  };
}

function withPort(address: string, port: number): string {
  const url = new URL(address);
  url.port = `${port}`;
  return url.href;
}

/** Waiting entries, and connections in a transaction: the append of a killed gateway may be in progress. */
const UNDER_WAY = `
  SELECT branch::text, holder FROM queue_entries
  UNION ALL
  SELECT state, query FROM pg_stat_activity
  WHERE datname = current_database() AND backend_xid IS NOT NULL
  LIMIT 10`;

/** The state to print when the cluster does not drain. */
async function situation(redis: RedisServer, workers: readonly Daemon[]): Promise<string> {
  const said = workers.map(async (worker) => {
    const { body } = await send(worker.health, { path: '/readyz?verbose' });
    return `${body.toString()}\n${worker.stderr().slice(-2000)}`;
  });
  const values = (await redisValues(redis)).map(([key, value]) => `${key} ${value.slice(0, 300)}`);
  return ['the queue is not empty', ...(await Promise.all(said)), ...values.slice(0, 40)].join(
    '\n',
  );
}

/** Queries the database directly. */
export async function sql(url: string, text: string): Promise<Record<string, unknown>[]> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<Record<string, unknown>>(text);
    return rows;
  });
}

async function withClient<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** Values of all keys, as text. */
export async function redisValues({
  client,
}: RedisServer): Promise<[key: string, value: string][]> {
  const values: [string, string][] = [];
  for (const key of await client.keys('*')) {
    const type = await client.type(key);
    // A key that a worker has removed since may come back with a type of its own.
    if (type === 'none') continue;
    values.push([key, JSON.stringify(await contentOf(client, key, type))]);
  }
  return values;
}

function contentOf(client: RedisServer['client'], key: string, type: string): Promise<unknown> {
  switch (type) {
    case 'hash':
      return client.hgetall(key);
    case 'list':
      return client.lrange(key, 0, -1);
    case 'set':
      return client.smembers(key);
    case 'zset':
      return client.zrange(key, '0', '-1');
    case 'stream':
      return client.xrange(key, '-', '+');
    default:
      return client.get(key);
  }
}

export const at = <T>(items: readonly T[], index: number): T => {
  const item = items[index];
  if (item === undefined) throw new Error(`there is no number ${index}`);
  return item;
};

/** The lock duration of a worker: another worker takes a dead one's jobs after this time. */
export function noticeDeathSoon(config: Tree): void {
  treeAt(config, 'receivers', 'bullmq').lock_duration = '5s';
}

type Env = Readonly<Record<string, string>>;

async function gateway(t: Teardown, env: Env, edit?: (config: Tree) => void): Promise<Daemon> {
  const [grpc] = await freePorts(1);
  const daemon = await prepareDaemon({
    env,
    edit(config) {
      const { endpoint } = treeAt(config, 'receivers', 'native');
      const health = treeAt(config, 'extensions', 'health_check');
      const admin = treeAt(config, 'extensions', 'admin');
      const shipped = shippedConfig('gateway.yaml');
      treeAt(shipped, 'receivers', 'native').endpoint = endpoint;
      treeAt(shipped, 'receivers', 'runs').endpoint = endpoint;
      const protocols = treeAt(shipped, 'receivers', 'otlp', 'protocols');
      treeAt(protocols, 'http').endpoint = endpoint;
      treeAt(protocols, 'grpc').endpoint = `127.0.0.1:${grpc}`;
      treeAt(shipped, 'extensions').health_check = health;
      treeAt(shipped, 'extensions', 'admin').endpoint = admin.endpoint;
      // The tests exceed the default rate limits.
      delete treeAt(shipped, 'processors', 'quotas').edge;
      edit?.(shipped);
      replaceConfig(config, shipped);
    },
  });
  t.teardown(() => daemon.remove());
  return daemon;
}

async function worker(t: Teardown, env: Env, edit?: (config: Tree) => void): Promise<Daemon> {
  const daemon = await prepareDaemon({
    env,
    edit(config) {
      const health = treeAt(config, 'extensions', 'health_check');
      const shipped = shippedConfig('worker.yaml');
      treeAt(shipped, 'extensions').health_check = health;
      edit?.(shipped);
      replaceConfig(config, shipped);
    },
  });
  t.teardown(() => daemon.remove());
  return daemon;
}
