import { createHash } from 'node:crypto';

/**
 * The id of a batch's job. BullMQ reserves some ids (`0`, `meta`, any id with a colon) and ignores a second job with
 * the same id, so the id is a hash and never a client's text.
 */
export function jobIdOf(batchId: string): string {
  return `e-${createHash('sha256').update(batchId).digest('hex')}`;
}

/** The name, in the store, of the queue that gateways append to. */
export function storedQueueName(queue: string): string {
  return `bullmq/${queue}`;
}

/** The name, in the store, of the queue that workers move batches into. */
export function workQueueName(queue: string): string {
  return `bullmq/${queue}/work`;
}
