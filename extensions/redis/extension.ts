import { offer } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import { deferred } from '../../src/component/deferred.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { RedisConnection, RedisScript } from '../../src/redis/redis.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { readClientTls } from '../../src/tls/client.ts';
import type { RedisConfig } from './config.ts';
import type { OpenRedis, Sentinel } from './connection.ts';
import { openRedis } from './connection.ts';

/**
 * Owns one connection and offers it as `redis`:
 *
 *   start ──▶ extensions/redis/connection.ts ──▶ bullmq, quotas
 *
 * The connection retries a Redis that is away, at the start as later, so an outage needs no restart.
 */
export function createExtension(settings: Settings, config: RedisConfig): Extension {
  const { id, clock, logger, host } = settings;
  let open: OpenRedis | undefined;
  const running = deferred<RedisConnection>(`extension ${id}`, () => open);
  const connection = deferred<RedisConnection>(`extension ${id}`, () => open, {
    // After the shutdown a command fails like any other instead of throwing at its caller.
    run: async (work) => running.run(work),
    // Components make their scripts while they are created; Redis loads a script when it first runs.
    script(lua) {
      let script: RedisScript | undefined;
      return {
        async run(keys, args) {
          script ??= running.script(lua);
          return script.run(keys, args);
        },
      };
    },
  });
  let unregister = (): void => {};

  return {
    async start() {
      open = await openRedis({
        url: config.url,
        keyPrefix: config.key_prefix,
        commandTimeout: config.command_timeout,
        tls: config.tls && (await readClientTls(config.tls)),
        sentinel: sentinelOf(config),
        cluster: config.cluster,
        clock,
        logger,
      });
      unregister = host
        .service(HEALTH_REGISTRY)
        .register(id, () => healthOf(running, config.cluster));
    },
    async shutdown() {
      unregister();
      const closing = open;
      open = undefined;
      await closing?.close();
    },
    offers: [offer(REDIS, connection)],
  };
}

/** Never affects readiness: each user decides whether it can accept without Redis. */
function healthOf(redis: RedisConnection, cluster: boolean): ComponentHealth {
  const { connected, refuses, reason, maxmemoryPolicy, appendOnly } = redis.state();
  const message = connected ? refuses : 'Redis cannot be reached.';
  return {
    healthy: message === undefined,
    ...(message === undefined ? {} : { message }),
    details: {
      connected,
      cluster,
      ...(reason === undefined ? {} : { reason }),
      maxmemory_policy: maxmemoryPolicy ?? null,
      append_only_file: appendOnly ?? null,
    },
  };
}

function sentinelOf({ url, tls, sentinel }: RedisConfig): Sentinel | undefined {
  if (sentinel === undefined) return undefined;
  const addresses = sentinel.addresses.map((address) => {
    const colon = address.lastIndexOf(':');
    return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
  });
  const isRedisSecure = url.startsWith('rediss:') || tls !== undefined;
  const { name, password, tls: isSecure = isRedisSecure } = sentinel;
  return { name, addresses, password, isSecure };
}
