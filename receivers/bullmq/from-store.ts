import type { Job } from 'bullmq';
import { pointerIn } from '../../src/bullmq/job-data.ts';
import { openJobQueue } from '../../src/bullmq/job-queue.ts';
import { storedQueueName, workQueueName } from '../../src/bullmq/names.ts';
import type { Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { DeliveryBranch, QueueDelivery } from '../../src/queue/delivery.ts';
import { startDelivery } from '../../src/queue/delivery.ts';
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

/** After how long a job is tried again for which the store could not be asked. */
const RETRY_MS = 2000;

/**
 * A job says that a batch is there. Taking it moves it, in the store, from the gateways' queue into a branch
 * for each exporter; from then on the store knows what is left to do, and the job is done with the first
 * delivery, whatever becomes of the others:
 *
 *   job ──▶ take, leased ──▶ deliver ──▶ ack | dead letter | back, due later
 *                               ▲
 *   what was given back ────────┘  (leased by whichever worker has room)
 *
 * A job that runs twice finds nothing the second time.
 */
export function fromStore(settings: Settings, config: Config, pipeline: Pipeline): Receiver {
  let open: Open | undefined;
  return {
    async start() {
      open = await openTaking(settings, config, pipeline);
    },
    async shutdown(deadline) {
      const closing = open;
      open = undefined;
      await closing?.close(deadline);
    },
  };
}

type Open = { close(deadline: AbortSignal): Promise<void> };

async function openTaking(settings: Settings, config: Config, pipeline: Pipeline): Promise<Open> {
  const { id, clock, logger, metrics, host } = settings;
  const redis = host.extension(config.redis, REDIS);
  const branches = branchesOf(pipeline);
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
    work: (job) => carryOut(taking, job, stopping.signal),
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
  /** The queue that gateways append to. */
  readonly from: string;
  readonly settings: Settings;
};

async function carryOut(
  { queue, delivery, from, settings }: Taking,
  job: Job,
  stopping: AbortSignal,
): Promise<number | undefined> {
  const { logger } = settings;
  const batchId = pointerIn(job.data);
  if (batchId === undefined) {
    logger.error({ job: job.id }, 'a job that points at no batch was passed over');
    return undefined;
  }
  await room(delivery, stopping);
  if (stopping.aborted) return 0;
  try {
    const entries = await queue.take(from, batchId, delivery.branchesWithRoom());
    const deliveries = [...entries].map(([branch, entry]) => delivery.deliver(branch, entry));
    // A slow exporter must not hold up the others: it has its own place in the store.
    await Promise.race(deliveries.length === 0 ? [undefined] : deliveries);
    return undefined;
  } catch (error) {
    logger.warn({ error, batch: batchId }, 'the store could not be asked: tried again later');
    return RETRY_MS;
  }
}

/** Resolves when an exporter could begin with a batch, or the receiver stops. */
async function room(delivery: QueueDelivery, stopping: AbortSignal): Promise<void> {
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

/** The branch's name stands in the store: it must stay the same from start to start. */
function branchesOf(pipeline: Pipeline): DeliveryBranch[] {
  const process: DeliveryBranch['process'] = (batch, again) => pipeline.process(batch, again);
  return pipeline.branches.map((branch) => ({
    name: `${pipeline.id}/${branch.exporterId}`,
    process,
    consumer: branch,
  }));
}
