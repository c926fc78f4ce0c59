import type { RedisQueue } from '../../src/bullmq/redis-queue.ts';
import { openRedisQueue } from '../../src/bullmq/redis-queue.ts';
import type { Exporter, Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { Waits } from '../../src/component/waits.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { oldestAgeSeconds, summaryGauges } from '../../src/queue/gauges.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { BullmqExporterConfig } from './config.ts';

const RETRY_AFTER_MS = 2000;

type Open = { readonly redis: RedisConnection; readonly queue: RedisQueue; close(): Promise<void> };

/**
 *   consume ──▶ Redis: a job with the payload ──▶ answer
 *
 * Redis has the only copy of the batch, so the exporter refuses batches while Redis might evict keys.
 */
export function inJobs(settings: Settings, config: BullmqExporterConfig): Exporter<'raw'> {
  const { id, clock, logger, metrics, host } = settings;
  let open: Open | undefined;
  return {
    answerWithin: config.answer_timeout,
    async start() {
      const redis = host.extension(config.redis, REDIS);
      const waits = new Waits({ clock, logger, stepTimeout: config.step_timeout });
      const queue = await openRedisQueue(redis, config.queue, clock, logger, waits);
      const removers = [
        summaryGauges(metrics, clock, { exporter: id }, queue),
        host.service(HEALTH_REGISTRY).register(id, () => health(redis, queue, clock.now())),
        host.service(QUEUE_REGISTRY).register(id, queue),
      ];
      open = {
        redis,
        queue,
        async close() {
          for (const remove of removers) remove();
          await queue.close();
        },
      };
    },
    async consume(batch) {
      if (open === undefined) throw new RetryableError('starting', `${id} is not open`);
      refuseWhenEvicting(open.redis);
      await open.queue.append(batch);
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      await closing?.close();
    },
  };
}

function refuseWhenEvicting(redis: RedisConnection): void {
  const { maxmemoryPolicy } = redis.state();
  if (maxmemoryPolicy === undefined || maxmemoryPolicy === 'noeviction') return;
  throw new RetryableError(
    'redis_evicts',
    'Redis may evict jobs: its maxmemory-policy is not noeviction. Set it.',
    { retryAfterMs: RETRY_AFTER_MS },
  );
}

function health(redis: RedisConnection, queue: RedisQueue, now: number): ComponentHealth {
  const { connected, maxmemoryPolicy, appendOnly } = redis.state();
  const evicts = connected && maxmemoryPolicy !== 'noeviction';
  const message = !connected
    ? 'Redis cannot be reached: no batch is accepted.'
    : `Redis has the maxmemory-policy ${maxmemoryPolicy ?? '(unknown)'}. Set it to noeviction.`;
  const stats = queue.stats();
  return {
    ready: connected && !evicts,
    healthy: connected && !evicts,
    ...(connected && !evicts ? {} : { message }),
    details: {
      durability: appendOnly === true ? 'append-only file of Redis' : 'memory of Redis',
      redis_connected: connected,
      maxmemory_policy: maxmemoryPolicy ?? null,
      oldest_age_seconds: oldestAgeSeconds(stats.branches, now),
      queued_jobs: stats.branches.reduce((sum, { entries }) => sum + entries, 0),
      dead_letters: stats.deadLetters,
    },
  };
}
