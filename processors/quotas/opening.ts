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
import type { KeyLimits } from './edge-limits.ts';
import { keyLimits } from './edge-limits.ts';
import type { QuotaReport } from './quota-report.ts';
import { quotaReport } from './quota-report.ts';
import type { KeyName } from './scripts.ts';
import { scriptRunner } from './scripts.ts';
import { sharedCounters } from './shared-counters.ts';
import { sharedKeyLimits } from './shared-key-limits.ts';

/** The parts of the processor that need its extensions. */
type Parts = {
  readonly counters: UsageCounters;
  readonly keys: KeyLimits;
  readonly allowance: Allowance;
  readonly report: QuotaReport;
  health(): ComponentHealth;
  close(): Promise<void>;
};

/** Opens the parts, and retries while the store is away. */
type Opening = {
  start(): Promise<void>;
  /** Throws a `RetryableError` until the parts are open, which refuses the request (503). */
  parts(): Parts;
  close(): Promise<void>;
};

const REOPEN_MS = 1_000;

/** Stays ready: the counters are lost for every replica. */
const REBUILDING: ComponentHealth = {
  healthy: false,
  message:
    'Lost quota counters are being rebuilt from the ledger. Requests are refused until then.',
};

const NOT_OPEN: ComponentHealth = { ready: false, message: 'The plan could not be read yet.' };

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
      logger.warn({ err: error }, 'Plan could not be read; retried');
      if (!isClosed) cancel = clock.after(REOPEN_MS, again);
    }
  }

  function again(): void {
    start().catch((error: unknown) => {
      logger.error({ err: error }, 'Limits could not be opened; every request is refused');
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
  const { counters, keys, redis, isRebuilding, close } = openCounters(settings, config);
  const report = quotaReport(counters, allowance, metrics);
  const health =
    redis === undefined
      ? report.health
      : () => healthIn(redis, isRebuilding() ? REBUILDING : report.health());
  return { counters, keys, allowance, report, health, close };
}

/** The counters of this process, or with `counters` those that all replicas share. */
function openCounters(
  { host, clock, logger }: Settings,
  { store = '', storage, counters: redisId, edge }: QuotasConfig,
): Pick<Parts, 'counters' | 'keys' | 'close'> & {
  readonly redis: RedisConnection | undefined;
  isRebuilding(): boolean;
} {
  if (redisId === undefined) {
    const counters = host.extension(storage ?? store, USAGE_COUNTERS);
    const keys = keyLimits(edge, clock);
    return { counters, keys, redis: undefined, isRebuilding: () => false, close: async () => {} };
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
    isRebuilding: counters.isRebuilding,
    async close() {
      await Promise.all([counters.close(), keys.close()]);
    },
  };
}

/** Not ready without Redis, because other replicas may still reach it. */
function healthIn(redis: RedisConnection, usage: ComponentHealth): ComponentHealth {
  const { connected, refuses, maxmemoryPolicy } = redis.state();
  const details = { ...usage.details, redis_connected: connected };
  if (!connected) {
    const message =
      'Redis cannot be reached. Every request is refused, because its limits cannot be checked.';
    return { ready: false, healthy: false, message, details };
  }
  // Stays ready: Redis refuses the writes of every replica.
  if (refuses !== undefined) {
    return { healthy: false, message: `${refuses} Requests are refused.`, details };
  }
  if (maxmemoryPolicy !== undefined && maxmemoryPolicy !== 'noeviction') {
    const message = `Redis has the maxmemory-policy ${maxmemoryPolicy} and may evict counters, which are then rebuilt. Set it to noeviction.`;
    return { healthy: false, message, details };
  }
  return { ...usage, details };
}
