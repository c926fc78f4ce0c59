import type {
  Connector,
  IdempotencyLedger,
  Pipeline,
  Settings,
} from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
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

/** The defaults of `file_storage`. */
const OWN_DIRECTORY = { minFreeBytes: 64 * 1024 * 1024, reserveBytes: 16 * 1024 * 1024 };

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
    claim: (tenant, key, requestHash) => opened().idempotency.claim(tenant, key, requestHash),
  };

  return {
    idempotency,
    async start() {
      const storage = await openStorage(settings, config);
      if ('close' in storage) own = storage;
      const names = branches.map(({ name }) => name);
      queue = await storage.openQueue({ name: id, branches: names, maxBytes: config.max_bytes });
      removers = [
        queueGauges(settings.metrics, clock, { connector: id }, queue),
        settings.host
          .service(HEALTH_REGISTRY)
          .register(id, queueHealth(queue, clock, { disk: own?.health })),
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
      await opened().append(batch, request);
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

async function openStorage(
  { host, clock, logger, worker }: Settings,
  { directory, store, storage }: DiskQueueConfig,
): Promise<QueueStorage | DirectoryStorage> {
  if (directory === undefined) return host.extension(store ?? storage ?? '', QUEUE_STORAGE);
  return openDirectoryStorage({
    directory,
    createDirectory: true,
    ...OWN_DIRECTORY,
    worker,
    clock,
    logger,
  });
}
