import type { ComponentHealth } from '../../src/component/health.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import type { WorkerProgress } from './watchdog.ts';
import type { JobWorker } from './worker.ts';

/** The health of the queue, unhealthy if Redis is away, jobs wait while none starts, or jobs run while none ends. */
export function progressHealth(
  ofQueue: ComponentHealth,
  worker: JobWorker,
  redis: RedisConnection,
  /** Of the batches that no worker has taken; null if none waits. */
  oldestSeconds: number | null,
): ComponentHealth {
  const progress = worker.progress();
  const { backlog, running, lastStartedAt, restarts } = progress;
  const { connected, refuses } = redis.state();
  const message = messageOf(connected, refuses, progress);
  return {
    ...ofQueue,
    healthy: ofQueue.healthy !== false && message === undefined,
    ...(message === undefined ? {} : { message }),
    details: {
      ...ofQueue.details,
      oldest_age_seconds: olderOf(ofQueue.details?.['oldest_age_seconds'], oldestSeconds),
      redis_connected: connected,
      jobs_waiting: backlog,
      jobs_under_way: running,
      last_job_begun_at: lastStartedAt === undefined ? null : new Date(lastStartedAt).toISOString(),
      worker_restarts: restarts,
    },
  };
}

function olderOf(
  ofQueue: string | number | boolean | null | undefined,
  waiting: number | null,
): number | null {
  if (typeof ofQueue !== 'number') return waiting;
  return Math.max(ofQueue, waiting ?? 0);
}

function messageOf(
  connected: boolean,
  refuses: string | undefined,
  { isStalled, isHung }: Pick<WorkerProgress, 'isStalled' | 'isHung'>,
): string | undefined {
  if (!connected) return 'Redis cannot be reached: the worker gets no jobs.';
  if (refuses !== undefined) return `${refuses} The worker gets no jobs.`;
  if (isStalled) return 'Jobs wait, and the worker starts none.';
  return isHung ? 'Jobs or deliveries are in flight, and none ends.' : undefined;
}
