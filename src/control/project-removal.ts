import type { Logger } from '../component/component.ts';
import type { QueueAdmin } from '../queue/queue.ts';
import type { Store } from '../store/store.ts';

/**
 * Queues in directories of their own do not know the stores that projects belong to: while this lasts they
 * are told of every project that is deleted. Returns a function that ends it.
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
        { error, queue, project },
        'A deleted project could not be taken out of a queue.',
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
