import { startWorker } from '../../receivers/bullmq/worker.ts';
import { openJobQueue } from '../../src/bullmq/job-queue.ts';
import { systemClock } from '../../src/component/clock.ts';
import { ulid } from '../../src/model/ulid.ts';
import { startRedis } from '../../test/extensions/redis/starting.ts';
import { redisServer } from '../../test/helper/redis-server.ts';
import { recordingLogger } from '../../test/helper/settings.ts';
import { workerParts } from '../../test/helper/worker-parts.ts';
import { treeCpuMicros } from '../process-cost.ts';
import { Owner } from './owner.ts';

/** CPU per job in microseconds, in this process and in Redis. */
export type JobCost = {
  readonly adding: Cost;
  readonly working: Cost;
};
type Cost = { readonly client: number; readonly redis: number };

const AT_ONCE = 32;
const CONCURRENCY = 8;

/**
 * Measures the cost of BullMQ and Redis: jobs that point at a batch, added as the gateway's exporter does, 32 at a
 * time, and processed as the worker's receiver does, without any work.
 */
export async function jobCost(jobs: number): Promise<JobCost> {
  const owner = new Owner();
  try {
    const server = await redisServer(owner, ['--appendonly', 'yes', '--appendfsync', 'everysec']);
    const { redis } = await startRedis(owner, { url: server.url });
    const queue = await openJobQueue(redis, 'traces');
    owner.teardown(() => queue.close());
    const add = async (): Promise<void> => {
      let left = jobs;
      const adder = async (): Promise<void> => {
        while (left-- > 0) {
          const batch = ulid(Date.now());
          await queue.add(batch, { batch });
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, adder));
    };
    const work = async (): Promise<void> => {
      let left = jobs;
      const over = Promise.withResolvers<void>();
      const worker = await startWorker({
        ...workerParts(systemClock, recordingLogger()),
        ...{ redis, queue: 'traces', concurrency: CONCURRENCY },
        ...{ lockDuration: 30_000, stallTimeout: 60_000 },
        jobs: queue,
        work: async () => {
          if (--left === 0) over.resolve();
          return undefined;
        },
      });
      await over.promise;
      await worker.stop(AbortSignal.timeout(1000));
    };
    // The first round compiles the code.
    await add();
    await work();
    return {
      adding: await costOf(add, server.pid(), jobs),
      working: await costOf(work, server.pid(), jobs),
    };
  } finally {
    await owner.end();
  }
}

async function costOf(run: () => Promise<void>, redis: number, jobs: number): Promise<Cost> {
  const [before, redisBefore] = [process.cpuUsage(), treeCpuMicros(redis)];
  await run();
  const { user, system } = process.cpuUsage(before);
  return { client: (user + system) / jobs, redis: (treeCpuMicros(redis) - redisBefore) / jobs };
}
