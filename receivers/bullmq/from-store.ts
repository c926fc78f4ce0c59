import type { Job } from 'bullmq';
import { pointerIn } from '../../src/bullmq/job-data.ts';
import { openJobQueue } from '../../src/bullmq/job-queue.ts';
import { storedQueueName, workQueueName } from '../../src/bullmq/names.ts';
import type { Clock, Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { QueueDelivery } from '../../src/queue/delivery.ts';
import { deliveryBranches, startDelivery } from '../../src/queue/delivery.ts';
import { queueGauges } from '../../src/queue/gauges.ts';
import { queueHealth } from '../../src/queue/health.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { SharedQueue } from '../../src/queue/shared-queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { BullmqReceiverConfig } from './config.ts';
import { progressHealth } from './health.ts';
import { startWorker } from './worker.ts';

type Config = BullmqReceiverConfig & { readonly store: string };

/** Milliseconds after which a job returns to its queue, after the store failed. */
const RETRY_MS = 2000;

/**
 * A job announces a batch in the store. `take` moves the batch from the queue of the gateways into a branch per
 * exporter. From then on the store tracks the deliveries, and the job ends with the first of them, whatever its
 * outcome:
 *
 *   job ──▶ take, leased ──▶ deliver ──▶ ack | dead letter | nack, due later
 *                               ▲
 *   entries due again ──────────┘  (leased by any worker that has room)
 *
 * A job that runs twice finds no batch the second time.
 */
export function fromStore(settings: Settings, config: Config, pipeline: Pipeline): Receiver {
  let open: Open | undefined;
  return {
    async start() {
      open = await openReceiver(settings, config, pipeline);
    },
    async shutdown(deadline) {
      const closing = open;
      open = undefined;
      await closing?.close(deadline);
    },
  };
}

type Open = { close(deadline: AbortSignal): Promise<void> };

async function openReceiver(settings: Settings, config: Config, pipeline: Pipeline): Promise<Open> {
  const { id, clock, logger, metrics, host } = settings;
  const redis = host.extension(config.redis, REDIS);
  const branches = deliveryBranches(pipeline);
  const queue = await host.extension(config.store, SHARED_QUEUES).openQueue({
    name: workQueueName(config.queue),
    branches: branches.map(({ name }) => name),
    maxBytes: Number.MAX_SAFE_INTEGER,
  });
  const delivery = startDelivery(
    {
      queue,
      clock,
      logger,
      concurrency: config.concurrency,
      initialInterval: config.initial_interval,
      maxInterval: config.max_interval,
    },
    branches,
  );
  const jobs = await openJobQueue(redis, config.queue);
  const stopping = new AbortController();
  const taking = { queue, delivery, from: storedQueueName(config.queue), settings };
  const worker = await startWorker({
    redis,
    queue: config.queue,
    concurrency: config.concurrency,
    lockDuration: config.lock_duration,
    stallTimeout: config.stall_timeout,
    clock,
    logger,
    jobs,
    work: (job) => runJob(taking, job, stopping.signal),
  });
  const ofQueue = queueHealth(queue, clock, { durability: 'undelivered batches are in the store' });
  const removers = [
    queueGauges(metrics, { receiver: id }, queue),
    host.service(HEALTH_REGISTRY).register(id, () => progressHealth(ofQueue(), worker, redis)),
    host.service(QUEUE_REGISTRY).register(id, queue),
  ];
  return {
    async close(deadline) {
      for (const remove of removers) remove();
      stopping.abort();
      await Promise.all([worker.stop(deadline), delivery.stop(deadline)]);
      await jobs.close();
    },
  };
}

type Taking = {
  readonly queue: SharedQueue;
  readonly delivery: QueueDelivery;
  /** Name of the queue that gateways append to. */
  readonly from: string;
  readonly settings: Settings;
};

async function runJob(
  { queue, delivery, from, settings }: Taking,
  job: Job,
  stopping: AbortSignal,
): Promise<number | undefined> {
  const { logger } = settings;
  const batchId = pointerIn(job.data);
  if (batchId === undefined) {
    logger.error({ job: job.id }, 'Job without a batch id skipped');
    return undefined;
  }
  await waitForRoom(delivery, stopping);
  if (stopping.aborted) return 0;
  try {
    const entries = await queue.take(from, batchId, delivery.branchesWithRoom());
    const deliveries = [...entries].map(([branch, entry]) => delivery.deliver(branch, entry));
    // The first delivery ends the job, so that a slow exporter does not hold up the others. Its branch in the store
    // keeps its entry.
    await Promise.race(deliveries.length === 0 ? [undefined] : deliveries);
    return undefined;
  } catch (error) {
    logger.warn({ err: error, batch: batchId }, 'Batch could not be read from the store; retried');
    // The job is held during the pause, so that a worker whose store is away takes no further one.
    await pause(settings.clock, RETRY_MS, stopping);
    return 0;
  }
}

/** Resolves after `ms`, or when the receiver stops. */
async function pause(clock: Clock, ms: number, stopping: AbortSignal): Promise<void> {
  if (stopping.aborted) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      cancel();
      stopping.removeEventListener('abort', end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    stopping.addEventListener('abort', end);
  });
}

/** Resolves when a branch has room, or when the receiver stops. */
async function waitForRoom(delivery: QueueDelivery, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted && delivery.branchesWithRoom().length === 0) {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        unsubscribe();
        stopping.removeEventListener('abort', end);
        resolve();
      };
      const unsubscribe = delivery.onRoom(end);
      stopping.addEventListener('abort', end);
    });
  }
}
