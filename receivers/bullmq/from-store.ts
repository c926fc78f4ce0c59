import type { Job } from 'bullmq';
import { pointersIn } from '../../src/bullmq/job-data.ts';
import { openJobQueue } from '../../src/bullmq/job-queue.ts';
import { storedQueueName, workQueueName } from '../../src/bullmq/names.ts';
import type { Clock, Logger, Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { Waits, WaitTimeout } from '../../src/component/waits.ts';
import type { QueueDelivery } from '../../src/queue/delivery.ts';
import { deliveryBranches, startDelivery } from '../../src/queue/delivery.ts';
import { oldestAgeGauge, queueGauges } from '../../src/queue/gauges.ts';
import { queueHealth } from '../../src/queue/health.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { SharedQueue } from '../../src/queue/shared-queue.ts';
import { SHARED_QUEUES } from '../../src/queue/shared-queue.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { BullmqReceiverConfig } from './config.ts';
import { progressHealth } from './health.ts';
import { watchOldest } from './oldest.ts';
import { workerOptions } from './options.ts';
import { Progress } from './progress.ts';
import { startWorker } from './worker.ts';

type Config = BullmqReceiverConfig & { readonly store: string };

/** The branch, in the metrics, of batches that no worker has taken; the exporter of the gateways names it so too. */
const WAITING_BRANCH = 'jobs';

/** Milliseconds after which a job returns to its queue, after the store failed. */
const RETRY_MS = 2000;

/**
 * A job announces one batch in the store, or several small ones. `take` moves them from the queue of the gateways into a
 * branch per exporter. From then on the store tracks the deliveries, and the job ends with the first of each batch, whatever
 * its outcome:
 *
 *   job ──▶ take, leased ──▶ deliver ──▶ ack | dead letter | nack, due later
 *                               ▲
 *   entries due again ──────────┘  (leased by any worker that has room)
 *
 * Batches of one job are delivered at the same time, so that stores write them together. A job that runs twice finds no
 * batch the second time.
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
  const waits = new Waits({ clock, logger, stepTimeout: config.step_timeout });
  const progress = new Progress(clock);
  const delivery = startDelivery(
    {
      queue,
      clock,
      logger,
      concurrency: config.concurrency,
      initialInterval: config.initial_interval,
      maxInterval: config.max_interval,
      bounds: { waits, attemptTimeout: config.delivery_timeout },
      progress,
    },
    branches,
  );
  const jobs = await openJobQueue(redis, config.queue, waits);
  const stopping = new AbortController();
  const from = storedQueueName(config.queue);
  const timeout = config.delivery_timeout;
  const taking = { queue, delivery, from, clock, logger, waits, progress, timeout };
  const worker = await startWorker({
    ...workerOptions(settings, config),
    ...{ redis, jobs, waits, progress },
    work: (job, giveBack) => runJob(taking, job, giveBack, stopping.signal),
    delivering: delivery.inFlight,
    isResting: delivery.isResting,
  });
  const waiting = watchOldest(() => queue.oldestIn(from), waits, clock, logger);
  const ofQueue = queueHealth(queue, clock, { durability: 'undelivered batches are in the store' });
  const health = () => progressHealth(ofQueue(), worker, redis, waiting.ageSeconds());
  const removers = [
    queueGauges(metrics, clock, { receiver: id }, queue),
    oldestAgeGauge(metrics, () => [
      { value: waiting.ageSeconds() ?? 0, labels: { receiver: id, branch: WAITING_BRANCH } },
    ]),
    host.service(HEALTH_REGISTRY).register(id, health),
    host.service(QUEUE_REGISTRY).register(id, queue),
  ];
  return {
    async close(deadline) {
      for (const remove of removers) remove();
      waiting.stop();
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
  readonly clock: Clock;
  readonly logger: Logger;
  readonly waits: Waits;
  readonly progress: Progress;
  /** Milliseconds of a delivery. */
  readonly timeout: number;
};

async function runJob(
  taking: Taking,
  job: Job,
  giveBack: () => Promise<void>,
  stopping: AbortSignal,
): Promise<number | undefined> {
  const { delivery, clock, logger, waits, progress, timeout } = taking;
  const batchIds = pointersIn(job.data);
  if (batchIds.length === 0) {
    logger.error({ job: job.id }, 'Job without a batch id skipped');
    return undefined;
  }
  try {
    await waits.step('wait for room', (abandoned) => waitForRoom(delivery, stopping, abandoned));
    if (stopping.aborted) return 0;
    const deliveries = await waits.step('take', () => takeAndDeliver(taking, batchIds));
    progress.taken();
    // The first delivery of each batch ends the job, so that a slow exporter does not hold up the others. Its branch in
    // the store keeps its entries.
    if (deliveries.length > 0) {
      await waits.within('first deliveries of a job', timeout, () => Promise.all(deliveries));
    }
    return undefined;
  } catch (error) {
    // The wait is logged. The store has the batch: in the branches of the exporters, or in the queue of the gateways.
    if (error instanceof WaitTimeout) {
      progress.abandoned();
      return RETRY_MS;
    }
    progress.made();
    const fields = { err: error, batch: batchIds[0], batches: batchIds.length };
    logger.warn(fields, 'Batch could not be read from the store; retried');
    // Its place is held during the pause, so that a worker whose store is away takes no further job, and not this one again before
    // the workers that have a store.
    await giveBack();
    await pause(clock, RETRY_MS, stopping);
    return undefined;
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

/**
 * Begins the deliveries of batches, also after the job has stopped waiting: this process has the leases. Resolves with the
 * first delivery of each batch. Rejects if a batch could not be taken; the deliveries of the others have begun then.
 */
async function takeAndDeliver(
  { queue, delivery, from }: Taking,
  batchIds: readonly string[],
): Promise<readonly Promise<void>[]> {
  const branches = delivery.branchesWithRoom();
  const taken = await Promise.allSettled(batchIds.map((id) => queue.take(from, id, branches)));
  const entries = taken.flatMap((each) => (each.status === 'fulfilled' ? [...each.value] : []));
  const byBatch = new Map<string, Promise<void>[]>();
  for (const [branch, ofBranch] of Map.groupBy(entries, ([name]) => name)) {
    const leased = ofBranch.map(([, entry]) => entry);
    for (const [i, delivered] of delivery.deliver(branch, leased).entries()) {
      const id = leased[i]?.batch.id ?? '';
      byBatch.set(id, [...(byBatch.get(id) ?? []), delivered]);
    }
  }
  const failed = taken.find((each) => each.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return [...byBatch.values()].map((deliveries) => Promise.race(deliveries));
}

/** Resolves when a branch has room, when the receiver stops, or when the job has stopped waiting. */
async function waitForRoom(
  delivery: QueueDelivery,
  stopping: AbortSignal,
  abandoned: AbortSignal,
): Promise<void> {
  const isOver = (): boolean => stopping.aborted || abandoned.aborted;
  while (!isOver() && delivery.branchesWithRoom().length === 0) {
    await new Promise<void>((resolve) => {
      const end = (): void => {
        unsubscribe();
        for (const signal of [stopping, abandoned]) signal.removeEventListener('abort', end);
        resolve();
      };
      const unsubscribe = delivery.onRoom(end);
      for (const signal of [stopping, abandoned]) signal.addEventListener('abort', end);
    });
  }
}
