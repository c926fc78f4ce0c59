import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type { Test } from 'tap';
import { freePort } from './free-ports.ts';
import type { RedisAccess, RedisProcess, RedisServer } from './redis-server.ts';
import {
  lookingClient,
  ownDirectory,
  redisProcess,
  redisServer,
  TLS_SETTINGS,
} from './redis-server.ts';

/** A primary and a replica under the eyes of Sentinels, which call the primary `main`. */
export type SentinelSetup = {
  readonly primary: RedisServer;
  readonly replica: RedisServer;
  readonly sentinels: readonly (RedisProcess & {
    readonly address: string;
    readonly client: Redis;
  })[];
  /** Resolves when the Sentinels agree that this one is the primary. */
  isPrimary(server: RedisServer): Promise<void>;
};

export type SentinelOptions = {
  /** How many; a failover takes a majority of them. Default 3. */
  readonly count?: number;
  /** How the servers let clients in, and the Sentinels. */
  readonly servers?: RedisAccess;
  readonly watchers?: RedisAccess;
};

const DOWN_AFTER_MS = 400;

export async function sentinelSetup(
  t: Test,
  { count = 3, servers = {}, watchers = {} }: SentinelOptions = {},
): Promise<SentinelSetup> {
  const { primary, replica } = await replicatedRedis(t, servers);
  const text = watching(primary.port, count, servers.password);
  const sentinels = await Promise.all(
    Array.from({ length: count }, () => startSentinel(t, text, watchers)),
  );
  // A failover needs Sentinels that know each other, and the replica.
  for (const { client } of sentinels) {
    await until(async () => {
      const [found] = (await client.call('SENTINEL', 'masters')) as string[][];
      const known = new Map(pairs(found ?? []));
      return known.get('num-slaves') === '1' && known.get('num-other-sentinels') === `${count - 1}`;
    });
  }
  return {
    primary,
    replica,
    sentinels,
    async isPrimary(server) {
      for (const { client } of sentinels) {
        await until(async () => {
          const found = await client.call('SENTINEL', 'get-master-addr-by-name', 'main');
          return (found as string[])[1] === `${server.port}`;
        });
      }
      await until(async () => (await server.client.info()).includes('role:master'));
    },
  };
}

/** A primary, and a replica that has what it has. */
export async function replicatedRedis(
  t: Test,
  access: RedisAccess = {},
): Promise<Pick<SentinelSetup, 'primary' | 'replica'>> {
  const soon = ['--repl-diskless-sync-delay', '0'];
  const primary = await redisServer(t, soon, access);
  const of = ['--replicaof', '127.0.0.1', `${primary.port}`];
  const replica = await redisServer(t, [...soon, ...of], access);
  await until(async () => (await replica.client.info()).includes('master_link_status:up'));
  return { primary, replica };
}

function watching(primary: number, count: number, password: string | undefined): string[] {
  return [
    `sentinel monitor main 127.0.0.1 ${primary} ${Math.floor(count / 2) + 1}`,
    `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
    'sentinel failover-timeout main 3000',
    ...(password === undefined ? [] : [`sentinel auth-pass main ${password}`]),
  ];
}

async function startSentinel(
  t: Test,
  watching: readonly string[],
  access: RedisAccess,
): Promise<SentinelSetup['sentinels'][number]> {
  const { password, isSecure = false } = access;
  const port = await freePort();
  const secured = ['port 0', `tls-port ${port}`, ...TLS_SETTINGS.map((pair) => pair.join(' '))];
  const lines = [
    ...(isSecure ? secured : [`port ${port}`]),
    ...(password === undefined ? [] : [`requirepass ${password}`]),
    'bind 127.0.0.1',
    ...watching,
  ];
  const directory = ownDirectory(t);
  // It writes down there what it learns.
  const file = join(directory, 'sentinel.conf');
  writeFileSync(file, `${lines.join('\n')}\n`);
  const running = redisProcess(t, [file, '--sentinel', '--dir', directory], /\+monitor/);
  await running.start();
  return { ...running, address: `127.0.0.1:${port}`, client: lookingClient(t, port, access) };
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? '']] : []));
}

async function until(is: () => Promise<boolean>): Promise<void> {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 20));
}
