import { capability } from '../component/capability.ts';
import type { QueueAdmin } from './queue.ts';

/** Components that own a queue register it here, for commands and for the removal of projects. */
type QueueRegistry = {
  /** Returns a function that unregisters the queue. */
  register(componentId: string, queue: QueueAdmin): () => void;
};
export const QUEUE_REGISTRY = capability<QueueRegistry>('queue_registry');

export type Queues = QueueRegistry & { readonly all: ReadonlyMap<string, QueueAdmin> };

export function createQueues(): Queues {
  const all = new Map<string, QueueAdmin>();
  return {
    all,
    register(componentId, queue) {
      all.set(componentId, queue);
      return () => {
        // After a reload the id may belong to the successor's queue.
        if (all.get(componentId) === queue) all.delete(componentId);
      };
    },
  };
}
