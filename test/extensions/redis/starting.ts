import { config } from '../../../extensions/redis/config.ts';
import { factory as redis } from '../../../extensions/redis/factory.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Extension } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { REDIS, type RedisConnection, type RedisState } from '../../../src/redis/redis.ts';
import type { Teardown } from '../../helper/redis-server.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

/** The extension as a service starts it; it ends with the test. */
export async function startRedis(t: Teardown, options: Record<string, unknown>) {
  const health = createHealth(systemClock);
  const host = fakeHost({ services: [offer(HEALTH_REGISTRY, health)] });
  const settings = testSettings('extension', 'redis', { host, clock: systemClock });
  const extension = (await redis.create(settings, config.parse(options))) as Extension;
  const connection = findOffer(extension.offers, REDIS);
  if (connection === undefined) throw new Error('redis offers no connection');
  t.teardown(() => extension.shutdown(AbortSignal.timeout(1000)));
  await extension.start();
  return { redis: connection, health, settings };
}

/** Until the connection says so of itself. */
export function stateOf(redis: RedisConnection, is: (state: RedisState) => boolean): Promise<void> {
  return new Promise((resolve) => {
    const stop = redis.onState((state) => {
      if (!is(state)) return;
      stop();
      resolve();
    });
    if (is(redis.state())) {
      stop();
      resolve();
    }
  });
}

/** What a command is rejected with that Redis does not answer. */
export const FAILED = { name: 'RetryableError', code: 'redis_failed' };
