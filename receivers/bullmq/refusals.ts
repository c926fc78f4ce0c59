import type { Worker } from 'bullmq';
import { ignore } from '../../src/bullmq/job-queue.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';

/** The pause of a worker after Redis refused a command. */
const REST_MS = 1000;

/**
 * Pauses a worker after each refusal of Redis, such as a full memory. BullMQ alone repeats the refused call without a pause, thousands
 * of times a second. Jobs in flight go on. Returns a function that ends it.
 */
export function restAfterRefusals(
  worker: Worker,
  { redis, clock, logger }: { redis: RedisConnection; clock: Clock; logger: Logger },
): () => void {
  let cancel: (() => void) | undefined;
  let isEnded = false;

  function rest(): void {
    if (cancel !== undefined || isEnded) return;
    worker.pause(true).catch(ignore);
    cancel = clock.after(REST_MS, () => {
      cancel = undefined;
      void worker.resume();
    });
  }

  worker.on('error', (error) => {
    logger.debug({ err: error }, 'BullMQ worker failed');
    redis.failed(error);
    if (error.name === 'ReplyError') rest();
  });
  return () => {
    isEnded = true;
    cancel?.();
  };
}
