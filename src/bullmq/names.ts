import { createHash } from 'node:crypto';

/**
 * The id of a batch's job. BullMQ gives some ids a meaning of their own (`0`, `meta`, anything with a
 * colon), and takes two jobs of one id for the same: an id is made here, never by a client.
 */
export function jobIdOf(batchId: string): string {
  return `e-${createHash('sha256').update(batchId).digest('hex')}`;
}

/** What a queue is called in the store that keeps its batches until a worker takes them. */
export function storedQueueName(queue: string): string {
  return `bullmq/${queue}`;
}

/** What is called there that workers have taken. */
export function workQueueName(queue: string): string {
  return `bullmq/${queue}/work`;
}
