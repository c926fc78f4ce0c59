import { config } from '../../../extensions/redis/config.ts';
import { factory as redis } from '../../../extensions/redis/factory.ts';
import { findOffer, offer } from '../../../src/component/capability.ts';
import { systemClock } from '../../../src/component/clock.ts';
import type { Extension } from '../../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../../src/component/health.ts';
import { REDIS, type RedisConnection, type RedisState } from '../../../src/redis/redis.ts';
import type { Teardown } from '../../helper/redis-server.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';

/** Starts the extension as a service does; it ends with the test. */
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

/** Resolves when the state of the connection satisfies the condition. */
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

/** The error of a command while Redis does not answer. */
export const FAILED = { name: 'RetryableError', code: 'redis_failed' };
