import type { RedisOptions } from 'ioredis';
import type { RedisClient } from '../../src/redis/redis.ts';

export type FailoverWatch = { close(): void };

const SWITCHED = '+switch-master';

/**
 * Hears from every Sentinel that another server is the primary. The one before may still answer, where
 * only the Sentinels cannot reach it: what is said there is lost, so those connected to it have to move.
 */
export function watchFailovers(
  name: string,
  sentinels: readonly Omit<RedisOptions, 'replyMapping'>[],
  connect: (options: Omit<RedisOptions, 'replyMapping'>) => RedisClient,
  moved: () => void,
): FailoverWatch {
  const watching = sentinels.map((sentinel) => {
    const client = connect(sentinel);
    client.on('error', () => {});
    client.on('message', (_channel: string, message: string) => {
      if (message.startsWith(`${name} `)) moved();
    });
    // It is subscribed anew by itself with every connection.
    client.subscribe(SWITCHED).catch(() => {});
    return client;
  });
  return {
    close() {
      for (const client of watching) client.disconnect();
    },
  };
}
