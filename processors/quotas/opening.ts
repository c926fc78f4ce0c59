import type { Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { STORE } from '../../src/store/store.ts';
import type { UsageCounters } from '../../src/tenancy/contract.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';
import { SHARED_LEDGER } from '../../src/tenancy/shared-ledger.ts';
import type { Allowance } from './allowance.ts';
import { fixedAllowance, planAllowance } from './allowance.ts';
import type { QuotasConfig } from './config.ts';
import type { KeyName } from './counter-keys.ts';
import type { KeyLimits } from './edge-limits.ts';
import { keyLimits } from './edge-limits.ts';
import type { QuotaReport } from './quota-report.ts';
import { quotaReport } from './quota-report.ts';
import { scriptRunner } from './scripts.ts';
import { sharedCounters } from './shared-counters.ts';
import { sharedKeyLimits } from './shared-key-limits.ts';

/** What the processor works with, once its extensions have been asked. */
export type Parts = {
  readonly counters: UsageCounters;
  readonly keys: KeyLimits;
  readonly allowance: Allowance;
  readonly report: QuotaReport;
  health(): ComponentHealth;
  close(): Promise<void>;
};

/** Opens the parts; a store that is away is asked again until it is there. */
export type Opening = {
  start(): Promise<void>;
  /** Throws a `RetryableError` while they are not open: the request is refused (503). */
  parts(): Parts;
  close(): Promise<void>;
};

const REOPEN_MS = 1_000;

const NOT_OPEN: ComponentHealth = { ready: false, message: 'The plan cannot be read yet.' };

export function openingOf(settings: Settings, config: QuotasConfig): Opening {
  const { id, clock, logger } = settings;
  let parts: Parts | undefined;
  let cancel: (() => void) | undefined;
  let unregister = (): void => {};
  let isClosed = false;

  async function start(): Promise<void> {
    try {
      parts = await openParts(settings, config);
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error;
      logger.warn({ error }, 'the plan cannot be read yet');
      if (!isClosed) cancel = clock.after(REOPEN_MS, again);
    }
  }

  function again(): void {
    start().catch((error: unknown) => {
      logger.error({ error }, 'the limits cannot be opened: every request is refused');
    });
  }

  return {
    async start() {
      const health = (): ComponentHealth => parts?.health() ?? NOT_OPEN;
      unregister = settings.host.service(HEALTH_REGISTRY).register(id, health);
      await start();
    },
    parts() {
      if (parts === undefined) throw new RetryableError('starting', `${id} is not started`);
      return parts;
    },
    async close() {
      isClosed = true;
      unregister();
      cancel?.();
      parts?.report.close();
      parts?.allowance.close();
      await parts?.close();
    },
  };
}

async function openParts(settings: Settings, config: QuotasConfig): Promise<Parts> {
  const { host, metrics } = settings;
  const { store } = config;
  const allowance =
    store === undefined
      ? fixedAllowance(config)
      : await planAllowance(host.extension(store, STORE), config, settings);
  const { counters, keys, redis, close } = openCounters(settings, config);
  const report = quotaReport(counters, allowance, metrics);
  const health = redis === undefined ? report.health : () => healthIn(redis, report.health());
  return { counters, keys, allowance, report, health, close };
}

/** Of this process alone, or shared with the other replicas. */
function openCounters(
  { host, clock, logger }: Settings,
  { store = '', storage, counters: redisId, edge }: QuotasConfig,
): Pick<Parts, 'counters' | 'keys' | 'close'> & { readonly redis: RedisConnection | undefined } {
  if (redisId === undefined) {
    const counters = host.extension(storage ?? store, USAGE_COUNTERS);
    const keys = keyLimits(edge, clock);
    return { counters, keys, redis: undefined, close: async () => {} };
  }
  const redis = host.extension(redisId, REDIS);
  const ledger = host.extension(store, SHARED_LEDGER);
  const run = scriptRunner(redis);
  const key: KeyName = (owner, name) => redis.key('quotas', owner, name);
  const counters = sharedCounters({ run, key, ledger, clock, logger });
  const keys = sharedKeyLimits(edge, { run, key, clock, logger });
  return {
    counters,
    keys,
    redis,
    async close() {
      await Promise.all([counters.close(), keys.close()]);
    },
  };
}

/** Without Redis nothing can be admitted: other replicas may still reach it. */
function healthIn(redis: RedisConnection, usage: ComponentHealth): ComponentHealth {
  const { connected, refuses, maxmemoryPolicy } = redis.state();
  const details = { ...usage.details, redis_connected: connected };
  if (!connected) {
    const message = 'Redis is away: limits cannot be checked, every request is refused.';
    return { ready: false, healthy: false, message, details };
  }
  // To others it says the same, so they would be of no more use.
  if (refuses !== undefined) {
    return { healthy: false, message: `${refuses} Requests are refused.`, details };
  }
  if (maxmemoryPolicy !== undefined && maxmemoryPolicy !== 'noeviction') {
    const message = `maxmemory-policy of Redis is ${maxmemoryPolicy}: it drops counters, which are summed up anew, again and again.`;
    return { healthy: false, message, details };
  }
  return { ...usage, details };
}
