import { startSweeper } from '../../exporters/bullmq/sweeper.ts';
import type { PostgresQueues } from '../../extensions/postgres/queue/storage.ts';
import type { JobQueue } from '../../src/bullmq/job-queue.ts';
import { systemClock } from '../../src/component/clock.ts';
import type { Logger } from '../../src/component/component.ts';

/** Sweeps the queue `in` of a database every 500 ms, into jobs that a test keeps. */
export async function sweepQueue(
  storage: PostgresQueues,
  logger: Logger,
  jobs: Pick<JobQueue, 'count' | 'addAll' | 'announced' | 'recreateLost'>,
): Promise<{ stop(): Promise<void> }> {
  const queue = await storage.openQueue({ name: 'in', branches: ['jobs'], maxBytes: 1e9 });
  const connected = {
    ...{ connected: true, refuses: undefined, reason: undefined },
    ...{ maxmemoryPolicy: undefined, appendOnly: undefined },
  };
  const redis = { state: () => connected, onState: () => () => {} };
  const options = { name: 'in', queue, jobs, storage, redis, logger };
  return startSweeper({ ...options, clock: systemClock, interval: 500 });
}
