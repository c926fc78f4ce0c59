import type { ComponentHealth } from '../../src/component/health.ts';
import type { RedisConnection } from '../../src/redis/redis.ts';
import type { JobWorker, Progress } from './worker.ts';

/** A backlog of which nothing is begun is not well, however alive the worker looks. */
export function progressHealth(
  ofQueue: ComponentHealth,
  worker: JobWorker,
  redis: RedisConnection,
): ComponentHealth {
  const progress = worker.progress();
  const { backlog, underWay, lastBegunAt, restarts } = progress;
  const { connected } = redis.state();
  const message = messageOf(connected, progress);
  return {
    ...ofQueue,
    healthy: ofQueue.healthy !== false && message === undefined,
    ...(message === undefined ? {} : { message }),
    details: {
      ...ofQueue.details,
      redis_connected: connected,
      jobs_waiting: backlog,
      jobs_under_way: underWay,
      last_job_begun_at: lastBegunAt === undefined ? null : new Date(lastBegunAt).toISOString(),
      worker_restarts: restarts,
    },
  };
}

function messageOf(
  connected: boolean,
  { isStalled, isHung }: Pick<Progress, 'isStalled' | 'isHung'>,
): string | undefined {
  if (!connected) return 'Redis is away: no jobs come.';
  if (isStalled) return 'Jobs wait and none is begun.';
  return isHung ? 'Jobs are under way, and none ends.' : undefined;
}
