import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import type { Test } from 'tap';
import type { RedisProcess, RedisServer } from './redis-server.ts';
import {
  freePort,
  lookingClient,
  ownDirectory,
  redisProcess,
  redisServer,
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
  /** More arguments of both servers. */
  readonly servers?: readonly string[];
  /** More lines in the configuration of each Sentinel. */
  readonly lines?: readonly string[];
};

const DOWN_AFTER_MS = 400;

export async function sentinelSetup(
  t: Test,
  options: SentinelOptions = {},
): Promise<SentinelSetup> {
  const { count = 3, servers = [], lines = [] } = options;
  const soon = ['--repl-diskless-sync-delay', '0', ...servers];
  const primary = await redisServer(t, soon);
  const replica = await redisServer(t, [...soon, '--replicaof', '127.0.0.1', `${primary.port}`]);
  await until(async () => (await replica.client.info()).includes('master_link_status:up'));
  const sentinels = await Promise.all(
    Array.from({ length: count }, () => startSentinel(t, primary.port, count, lines)),
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

async function startSentinel(
  t: Test,
  primary: number,
  count: number,
  lines: readonly string[],
): Promise<SentinelSetup['sentinels'][number]> {
  const port = await freePort();
  const text = [
    `port ${port}`,
    'bind 127.0.0.1',
    `sentinel monitor main 127.0.0.1 ${primary} ${Math.floor(count / 2) + 1}`,
    `sentinel down-after-milliseconds main ${DOWN_AFTER_MS}`,
    'sentinel failover-timeout main 3000',
    ...lines,
    '',
  ].join('\n');
  const directory = ownDirectory(t);
  const file = join(directory, 'sentinel.conf');
  // It writes down there what it learns.
  writeFileSync(file, text);
  const running = redisProcess(t, [file, '--sentinel', '--dir', directory], /\+monitor/);
  await running.start();
  return { ...running, address: `127.0.0.1:${port}`, client: lookingClient(t, port) };
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? '']] : []));
}

async function until(is: () => Promise<boolean>): Promise<void> {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 20));
}
