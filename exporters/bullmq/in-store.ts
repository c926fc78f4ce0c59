import { openJobQueue } from '../../src/bullmq/job-queue.ts';
import { storedQueueName } from '../../src/bullmq/names.ts';
import type { Exporter, IdempotencyLedger, Settings } from '../../src/component/component.ts';
import type { ComponentHealth } from '../../src/component/health.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { Waits } from '../../src/component/waits.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { queueGauges } from '../../src/queue/gauges.ts';
import { queueHealth } from '../../src/queue/health.ts';
import type { SharedQueue } from '../../src/queue/shared-queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { Announcer } from './announcer.ts';
import { startAnnouncer } from './announcer.ts';
import type { BullmqExporterConfig } from './config.ts';
import { startSweeper } from './sweeper.ts';

type Config = BullmqExporterConfig & { readonly store: string };

type Open = {
  readonly queue: SharedQueue;
  readonly announcer: Announcer;
  close(): Promise<void>;
};

/** The branch of batches that no worker has taken yet. */
const BRANCH = 'jobs';

/**
 *   consume ──▶ store: payload, usage, answer, entry in one transaction ──▶ answer
 *                  │
 *                  └──▶ Redis: a job that points to the batches of one moment, best effort (announcer.ts)
 *                          ▲
 *   sweeper ──batches without a job──┘        (one replica at a time)
 */
export function inStore(settings: Settings, config: Config): Exporter<'raw'> {
  const { id } = settings;
  let open: Open | undefined;
  const opened = (): Open => {
    if (open === undefined) throw new RetryableError('starting', `${id} is not open`);
    return open;
  };
  const idempotency: IdempotencyLedger = {
    claim: (...request) => opened().queue.idempotency.claim(...request),
  };

  return {
    idempotency,
    answerWithin: config.answer_timeout,
    async start() {
      open = await openStored(settings, config);
    },
    async consume(batch, request) {
      const { queue, announcer } = opened();
      await queue.append(batch, request);
      announcer.announce(batch);
    },
    async shutdown() {
      const closing = open;
      open = undefined;
      await closing?.close();
    },
  };
}

async function openStored(settings: Settings, config: Config): Promise<Open> {
  const { id, clock, logger, metrics, host } = settings;
  const redis = host.extension(config.redis, REDIS);
  const storage = host.extension(config.store, SHARED_QUEUES);
  const queue = await storage.openQueue({
    name: storedQueueName(config.queue),
    branches: [BRANCH],
    maxBytes: config.max_bytes,
  });
  const waits = new Waits({ clock, logger, stepTimeout: config.step_timeout });
  const jobs = await openJobQueue(redis, config.queue, waits);
  const announcer = startAnnouncer(jobs, clock, logger);
  const sweeper = startSweeper({
    name: config.queue,
    queue: {
      waitingFor: (...search) =>
        waits.step('search for waiting batches', () => queue.waitingFor(...search)),
    },
    jobs,
    storage,
    redis,
    clock,
    logger,
    interval: config.sweep_interval,
  });
  const ofQueue = queueHealth(queue, clock, {
    durability: 'committed to the store before the answer',
  });
  const removers = [
    queueGauges(metrics, clock, { exporter: id }, queue),
    host.service(HEALTH_REGISTRY).register(id, () => health(ofQueue(), redis)),
  ];
  return {
    queue,
    announcer,
    async close() {
      for (const remove of removers) remove();
      await announcer.close();
      await sweeper.stop();
      await jobs.close();
    },
  };
}

/** Stays ready without Redis: batches are accepted into the store, and only their delivery waits. */
function health(ofQueue: ComponentHealth, redis: RedisConnection): ComponentHealth {
  const { connected } = redis.state();
  return {
    ...ofQueue,
    healthy: ofQueue.healthy !== false && connected,
    ...(connected
      ? {}
      : { message: 'Redis cannot be reached: accepted batches wait in the store.' }),
    details: { ...ofQueue.details, redis_connected: connected },
  };
}
