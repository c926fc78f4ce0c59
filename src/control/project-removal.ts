import type { Logger } from '../component/component.ts';
import type { QueueAdmin } from '../queue/queue.ts';
import type { Store } from '../store/store.ts';

/**
 * Removes deleted projects from the queues. A queue with a directory of its own does not know the stores, so
 * this subscribes to their deletions. Returns a function that ends the subscription.
 */
export function removeFromQueues(
  stores: readonly Store[],
  queues: ReadonlyMap<string, QueueAdmin>,
  logger: Logger,
): () => void {
  const removeFrom = async (queue: string, project: string): Promise<void> => {
    try {
      await queues.get(queue)?.removeProject(project);
    } catch (error) {
      logger.error(
        { err: error, queue, project },
        'Deleted project could not be removed from a queue',
      );
    }
  };
  const stops = stores.map(({ projects }) =>
    projects.onDelete((project) => {
      for (const queue of queues.keys()) void removeFrom(queue, project);
    }),
  );
  return () => {
    for (const stop of stops) stop();
  };
}
