import { capability } from '../component/capability.ts';
import type { DurableQueue } from './queue.ts';

/** Where components that own a queue make it known, for `tracectl dead-letter`. */
export type QueueRegistry = {
  /** Gives a function that takes it back. */
  register(componentId: string, queue: DurableQueue): () => void;
};
export const QUEUE_REGISTRY = capability<QueueRegistry>('queue_registry');

export type Queues = QueueRegistry & { readonly all: ReadonlyMap<string, DurableQueue> };

export function createQueues(): Queues {
  const all = new Map<string, DurableQueue>();
  return {
    all,
    register(componentId, queue) {
      all.set(componentId, queue);
      return () => {
        if (all.get(componentId) === queue) all.delete(componentId);
      };
    },
  };
}
