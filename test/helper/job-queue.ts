import type { Test } from 'tap';
import { config as exporterConfig } from '../../exporters/bullmq/config.ts';
import { factory as exporterFactory } from '../../exporters/bullmq/factory.ts';
import { config as redisConfig } from '../../extensions/redis/config.ts';
import { factory as redisFactory } from '../../extensions/redis/factory.ts';
import { config as receiverConfig } from '../../receivers/bullmq/config.ts';
import { factory as receiverFactory } from '../../receivers/bullmq/factory.ts';
import { findOffer, offer } from '../../src/component/capability.ts';
import { systemClock } from '../../src/component/clock.ts';
import type {
  Branch,
  Exporter,
  Extension,
  Host,
  Pipeline,
  Receiver,
} from '../../src/component/component.ts';
import { createHealth, HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { EndReason } from '../../src/component/process-end.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import { createQueues, QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { SharedQueueStorage } from '../../src/queue/shared-queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { RedisServer } from './redis-server.ts';
import { fakeHost, testSettings } from './settings.ts';
import { createSink, sinkPipeline } from './sink.ts';

/** A process among those that share a Redis, and a store where there is one. */
export async function processOn(
  t: Test,
  server: Pick<RedisServer, 'url'>,
  store?: SharedQueueStorage,
  more: object = {},
) {
  const health = createHealth(systemClock);
  const queues = createQueues();
  /** The reasons for which components ended the process. */
  const ended: EndReason[] = [];
  const services = [
    offer(HEALTH_REGISTRY, health),
    offer(QUEUE_REGISTRY, queues),
    offer(PROCESS_END, { end: (reason) => void ended.push(reason) }),
  ];
  const bare = testSettings('extension', 'redis', {
    clock: systemClock,
    host: fakeHost({ services }),
  });
  const parsed = redisConfig.parse({ url: server.url, command_timeout: '500ms', ...more });
  const extension = (await redisFactory.create(bare, parsed)) as Extension;
  await extension.start();
  t.teardown(() => extension.shutdown(AbortSignal.timeout(100)));
  const redis = findOffer(extension.offers, REDIS) as RedisConnection;
  const host: Host = fakeHost({
    services,
    extensions: {
      redis: [offer(REDIS, redis)],
      ...(store === undefined ? {} : { store: [offer(SHARED_QUEUES, store)] }),
    },
  });
  const named = store === undefined ? {} : { store: 'store' };

  return {
    health,
    queues,
    redis,
    ended,
    async gateway(more: Record<string, unknown> = {}) {
      const settings = testSettings('exporter', 'bullmq', { clock: systemClock, host });
      const config = exporterConfig.parse({
        redis: 'redis',
        sweep_interval: '200ms',
        ...named,
        ...more,
      });
      const exporter = (await exporterFactory.create(settings, config)) as Exporter;
      await exporter.start();
      t.teardown(() => exporter.shutdown(AbortSignal.timeout(1000)));
      return { exporter, settings };
    },
    async worker(
      more: Record<string, unknown> = {},
      branches?: readonly Branch[],
      process?: Pipeline['process'],
    ) {
      const settings = testSettings('receiver', 'bullmq', { clock: systemClock, host });
      const sink = createSink();
      const config = receiverConfig.parse({
        redis: 'redis',
        initial_interval: '20ms',
        max_interval: '100ms',
        lock_duration: '1s',
        ...named,
        ...more,
      });
      const pipeline = sinkPipeline(sink, {
        ...(branches === undefined ? {} : { branches }),
        ...(process === undefined ? {} : { process }),
      });
      const receiver = (await receiverFactory.create(settings, config, pipeline)) as Receiver;
      await receiver.start();
      const stop = (ms = 3000) => receiver.shutdown(AbortSignal.timeout(ms));
      t.teardown(() => stop(500));
      return { receiver, sink, settings, stop };
    },
  };
}

/** Resolves when `is` holds; looks every few milliseconds. */
export async function until(is: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await is())) await new Promise((resolve) => setTimeout(resolve, 10));
}
