import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { freePort } from './free-ports.ts';
import { givenServer, serverBinaries, spawnServer } from './server-binaries.ts';

/** A test, or another owner of the clean-up. */
export type Teardown = { teardown(clean: () => Promise<void> | void): void };

/** A Redis of a test's own. */
export type RedisServer = {
  readonly url: string;
  readonly port: number;
  /** A client for looking and meddling, closed with the test. */
  readonly client: Redis;
  config(name: string, value: string): Promise<void>;
  /** Ends it as a crash does; `start` brings it back on the same port. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops it in its tracks: it holds its connections and says nothing. */
  freeze(): void;
  thaw(): void;
  /** Of the process that runs. */
  pid(): number;
};

/** Keys of a test file's own, on a Redis that it does not end. */
export type RedisKeys = { readonly url: string; readonly keyPrefix: string };

/** On the Redis that the tests are given, or on one that is started for them; removed with the test. */
export async function redisKeys(t: Teardown): Promise<RedisKeys> {
  const keyPrefix = `tracectl-test-${process.pid}-${randomUUID().slice(0, 8)}`;
  const url = givenServer('redis');
  if (url === undefined) return { url: (await redisServer(t)).url, keyPrefix };
  t.teardown(async () => {
    const client = new Redis(url, { maxRetriesPerRequest: 1 });
    for await (const keys of client.scanStream({ match: `{${keyPrefix}}*`, count: 1000 })) {
      if (keys.length > 0) await client.unlink(keys);
    }
    await client.quit();
  });
  return { url, keyPrefix };
}

/** How a server lets clients in. */
export type RedisAccess = {
  readonly password?: string;
  /** Over TLS alone, with a certificate for `localhost`, `127.0.0.1` and `gateway.test`. */
  readonly isSecure?: boolean;
};

const certificate = (name: string): string => join(import.meta.dirname, '../fixtures/tls', name);

/** Settings of a server or Sentinel that has a certificate, and asks no client for one. */
export const TLS_SETTINGS: readonly (readonly [string, string])[] = [
  ['tls-cert-file', certificate('server.pem')],
  ['tls-key-file', certificate('server.key')],
  ['tls-ca-cert-file', certificate('ca.pem')],
  ['tls-auth-clients', 'no'],
  ['tls-replication', 'yes'],
];

/** Starts a Redis in a temporary directory, on a free port, without snapshots; it ends with the test. */
export async function redisServer(
  t: Teardown,
  args: readonly string[] = [],
  access: RedisAccess = {},
): Promise<RedisServer> {
  const { password, isSecure = false } = access;
  const port = await freePort();
  const secured = [['port', '0'], ['tls-port', `${port}`], ...TLS_SETTINGS];
  const settings = [
    ...(isSecure ? secured : [['port', `${port}`]]),
    ...(password === undefined
      ? []
      : [
          ['requirepass', password],
          ['masterauth', password],
        ]),
    ...[
      ['bind', '127.0.0.1'],
      ['dir', ownDirectory(t)],
      ['save', ''],
    ],
  ];
  const running = redisProcess(t, [
    ...settings.flatMap(([name, value = '']) => [`--${name}`, value]),
    ...args,
  ]);
  await running.start();
  const client = lookingClient(t, port, access);
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    client,
    async config(name, value) {
      await client.config('SET', name, value);
    },
    ...running,
  };
}

/** A Cluster of one node, which refuses commands and scripts whose keys are in several slots. */
export async function redisCluster(t: Teardown): Promise<RedisServer> {
  const announced = ['--cluster-announce-ip', '127.0.0.1'];
  // The default is the port of clients and 10,000, which may be in use.
  const bus = ['--cluster-port', `${await freePort()}`];
  const server = await redisServer(t, ['--cluster-enabled', 'yes', ...announced, ...bus]);
  await server.client.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  while (!String(await server.client.cluster('INFO')).includes('cluster_state:ok'));
  return server;
}

/** A test may start several servers: each has a directory of its own. */
export function ownDirectory(t: Teardown): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-redis-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** A client that finds its server again soon after it was away, and ends with the test. */
export function lookingClient(t: Teardown, port: number, access: RedisAccess = {}): Redis {
  const { password, isSecure = false } = access;
  const client = new Redis({
    ...{ port, host: '127.0.0.1', retryStrategy: () => 20 },
    ...(password === undefined ? {} : { password }),
    ...(isSecure ? { tls: { ca: readFileSync(certificate('ca.pem')) } } : {}),
  });
  client.on('error', () => {});
  t.teardown(() => client.disconnect());
  return client;
}

/** A server that a test starts and ends. */
export type RedisProcess = Pick<RedisServer, 'kill' | 'start' | 'freeze' | 'thaw' | 'pid'>;

/** `isReady` is found in what it prints when it serves. */
export function redisProcess(
  t: Teardown,
  args: readonly string[],
  isReady = /Ready to accept connections/,
): RedisProcess {
  const binary = join(serverBinaries('redis'), 'redis-server');
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const started = spawnServer(binary, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    child = started;
    await new Promise<void>((resolve, reject) => {
      let said = '';
      started.stdout?.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        if (isReady.test(said)) resolve();
      });
      started.once('exit', () => reject(new Error(`redis-server ended: ${said}`)));
      started.once('error', reject);
    });
  }

  async function kill(): Promise<void> {
    const running = child;
    child = undefined;
    if (running === undefined || running.exitCode !== null) return;
    const ended = new Promise((resolve) => running.once('exit', resolve));
    running.kill('SIGKILL');
    await ended;
  }

  t.teardown(kill);
  return {
    start,
    kill,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    pid: () => child?.pid ?? 0,
  };
}
