import type {
  Connector,
  IdempotencyLedger,
  Pipeline,
  Settings,
} from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import type { QueueDelivery } from '../../src/queue/delivery.ts';
import { deliveryBranches, startDelivery } from '../../src/queue/delivery.ts';
import { queueGauges } from '../../src/queue/gauges.ts';
import { queueHealth } from '../../src/queue/health.ts';
import type { DurableQueue, QueueStorage } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { DirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../src/sqlite/queue/directory-storage.ts';
import type { DiskQueueConfig } from './config.ts';

/** The room on the disk for a directory of its own: the defaults of `file_storage`. */
const ROOM = { minFreeBytes: 64 * 1024 * 1024, reserveBytes: 32 * 1024 * 1024 };

/**
 *   accept pipeline ──consume──▶ append, synced ──▶ answer
 *                                   │
 *                   lease, per exporter behind ──▶ process ──▶ exporter ──▶ ack
 */
export function createConnector(
  settings: Settings,
  config: DiskQueueConfig,
  pipelines: readonly Pipeline[],
): Connector<'raw'> {
  const { id, clock, logger } = settings;
  let queue: DurableQueue | undefined;
  let delivery: QueueDelivery | undefined;
  /** The queue's own directory, if `directory` is set. */
  let own: DirectoryStorage | undefined;
  /** Unregister gauges, health and the queue. */
  let removers: (() => void)[] = [];
  const branches = pipelines.flatMap(deliveryBranches);

  const opened = (): DurableQueue => {
    if (queue === undefined) throw new RetryableError('starting', `${id} is not open`);
    return queue;
  };
  const idempotency: IdempotencyLedger = {
    claim: (...request) => opened().idempotency.claim(...request),
  };

  return {
    idempotency,
    async start() {
      const storage = await openStorage(settings, config);
      if ('close' in storage) own = storage;
      const names = branches.map(({ name }) => name);
      queue = await storage.openQueue({ name: id, branches: names, maxBytes: config.max_bytes });
      if (config.max_backlog_age > 0 && queue.untriedSince === undefined) {
        throw new Error(
          `${id}: max_backlog_age needs a queue on disk, which this store has not. Remove the field.`,
        );
      }
      removers = [
        queueGauges(settings.metrics, clock, { connector: id }, queue),
        settings.host.service(HEALTH_REGISTRY).register(
          id,
          queueHealth(queue, clock, {
            ...{ disk: own?.health, maxBacklogAge: config.max_backlog_age },
          }),
        ),
        settings.host.service(QUEUE_REGISTRY).register(id, queue),
      ];
      delivery = startDelivery(
        {
          queue,
          clock,
          logger,
          concurrency: config.num_consumers,
          initialInterval: config.initial_interval,
          maxInterval: config.max_interval,
        },
        branches,
      );
    },
    async consume(batch, request) {
      const queue = opened();
      if (batch.items > 0) refuseBehind(queue, batch, config.max_backlog_age, clock.now());
      await queue.append(batch, request);
    },
    async shutdown(deadline) {
      for (const remove of removers.splice(0)) remove();
      await delivery?.stop(deadline);
      queue = undefined;
      await own?.close();
      own = undefined;
    },
  };
}

/** Accepting slows down to what is delivered, for each project on its own. */
function refuseBehind(
  queue: DurableQueue,
  { tenant }: SealedBatch,
  maxAge: number,
  now: number,
): void {
  if (maxAge === 0) return;
  const since = queue.untriedSince?.(tenant.projectId);
  if (since === undefined || now - since <= maxAge) return;
  const age = ((now - since) / 1000).toFixed(1);
  const message = `The project sends more than can be stored: its oldest batch has waited for ${age} s. Try again.`;
  throw new RetryableError('backlog_too_old', message, { retryAfterMs: BEHIND_RETRY_MS });
}

const BEHIND_RETRY_MS = 1_000;

async function openStorage(
  { host, clock, logger, worker }: Settings,
  { directory, store, storage }: DiskQueueConfig,
): Promise<QueueStorage | DirectoryStorage> {
  if (directory === undefined) return host.extension(store ?? storage ?? '', QUEUE_STORAGE);
  return openDirectoryStorage({
    directory,
    createDirectory: true,
    ...ROOM,
    worker,
    clock,
    logger,
  });
}
