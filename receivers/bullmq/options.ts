import type { Settings } from '../../src/component/component.ts';
import { PROCESS_END } from '../../src/component/process-end.ts';
import type { BullmqReceiverConfig } from './config.ts';
import type { WorkerOptions } from './worker.ts';

/** The options of a worker that come from the configuration and the service. */
export function workerOptions(
  { clock, logger, host }: Settings,
  config: BullmqReceiverConfig,
): Omit<
  WorkerOptions,
  'redis' | 'jobs' | 'work' | 'progress' | 'waits' | 'delivering' | 'isResting'
> {
  return {
    queue: config.queue,
    concurrency: config.concurrency,
    lockDuration: config.lock_duration,
    stallTimeout: config.stall_timeout,
    progressTimeout: config.progress_timeout,
    deliveryTimeout: config.delivery_timeout,
    retryInterval: config.max_interval,
    clock,
    logger,
    processEnd: host.service(PROCESS_END),
  };
}
