import type { Capability } from '../../src/component/capability.ts';
import type { Extension, Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
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
  const opened = (): OpenRedis => {
    if (open === undefined) throw new Error(`extension ${id} is not started`);
    return open;
  };
  const offer = offerOf(opened);
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
        .register(id, () => healthOf(opened(), config.cluster));
    },
    async shutdown() {
      unregister();
      const closing = open;
      open = undefined;
      await closing?.close();
    },
    provide: <T>(wanted: Capability<T>) => (wanted.name === REDIS.name ? (offer as T) : undefined),
  };
}

/** The offer exists before the start, because components ask for it while they are created. */
function offerOf(opened: () => OpenRedis): RedisConnection {
  return {
    get prefix() {
      return opened().prefix;
    },
    get client() {
      return opened().client;
    },
    key: (...parts) => opened().key(...parts),
    run: async (work) => opened().run(work),
    script(lua) {
      let script: ReturnType<RedisConnection['script']> | undefined;
      return {
        async run(keys, args) {
          script ??= opened().script(lua);
          return script.run(keys, args);
        },
      };
    },
    duplicate: () => opened().duplicate(),
    subscribe: (channel, listener) => opened().subscribe(channel, listener),
    state: () => opened().state(),
    onState: (listener) => opened().onState(listener),
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
