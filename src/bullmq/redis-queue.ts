import type { JobType } from 'bullmq';
import type { Clock, Logger } from '../component/component.ts';
import type { SealedBatch } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterReason,
  QueueAdmin,
  QueueDrop,
  QueueSummary,
} from '../queue/queue.ts';
import type { RedisConnection } from '../redis/redis.ts';
import { payloadOf, projectIn } from './job-data.ts';
import type { JobQueue } from './job-queue.ts';
import { openJobQueue } from './job-queue.ts';
import { jobIdOf } from './names.ts';
import type { Letters } from './redis-dead-letters.ts';
import { deletedProjects, lettersOf } from './redis-dead-letters.ts';

/**
 * A queue whose payloads are in its jobs. BullMQ leases the jobs, and Redis keeps no answers of requests: of the
 * roles of a queue this is the administration only.
 */
export type RedisQueue = QueueAdmin & {
  readonly jobs: JobQueue;
  /** Rejects with `RetryableError` (`redis_full`, `redis_failed`) or the `Refusal` of a deleted project. */
  append(batch: SealedBatch): Promise<void>;
  /** Whether the project was deleted, so that none of its batches may be delivered. */
  isDeleted(projectId: string): Promise<boolean>;
  /** Keeps a batch as a dead letter of a branch, once per batch and branch. */
  deadLetter(branch: string, batch: SealedBatch, reason: DeadLetterReason): Promise<void>;
  /** Tells `onDrop` listeners of a batch that a worker dropped. */
  dropped(drop: QueueDrop): void;
  close(): Promise<void>;
};

const REFRESH_MS = 5000;
const STATES: JobType[] = ['waiting', 'delayed', 'prioritized', 'failed', 'completed'];
const PAGE = 100;

export async function openRedisQueue(
  redis: RedisConnection,
  name: string,
  clock: Clock,
  logger: Logger,
): Promise<RedisQueue> {
  const jobs = await openJobQueue(redis, name);
  const queue = new JobsAsQueue(redis, name, jobs, clock, logger);
  await queue.refresh();
  return queue;
}

class JobsAsQueue implements RedisQueue {
  readonly jobs: JobQueue;
  readonly #redis: RedisConnection;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #letters: Letters;
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  #counts = { entries: 0, leased: 0, letters: 0, items: 0 };
  #isClosed = false;
  #cancel = (): void => {};

  constructor(redis: RedisConnection, name: string, jobs: JobQueue, clock: Clock, logger: Logger) {
    this.jobs = jobs;
    this.#redis = redis;
    this.#name = name;
    this.#clock = clock;
    this.#logger = logger;
    this.#letters = lettersOf(redis, name);
  }

  async append(batch: SealedBatch): Promise<void> {
    if (itemsOf(batch) === 0) return;
    // In this order on one connection: of a deletion in between, one of the two is aware.
    const added = this.jobs.add(batch.id, payloadOf(batch));
    const [, deleted] = await Promise.all([added, this.isDeleted(batch.tenant.projectId)]);
    if (!deleted) return;
    await this.#redis.run(() => this.jobs.bull.remove(jobIdOf(batch.id)));
    throw new Refusal('unauthorized', 'The project was deleted.');
  }

  async isDeleted(projectId: string): Promise<boolean> {
    const key = deletedProjects(this.#redis);
    return (await this.#redis.run((client) => client.sismember(key, projectId))) === 1;
  }

  /** Jobs move while they are looked through: it ends when nothing more was found. */
  async removeProject(projectId: string): Promise<void> {
    await this.#redis.run((client) => client.sadd(deletedProjects(this.#redis), projectId));
    while ((await this.#removeJobs(projectId)) > 0);
    for (const letter of await this.#letters.read('all')) {
      if (letter.projectId !== projectId || !(await this.#letters.remove(letter))) continue;
      const { branch, items } = letter;
      this.dropped({ branch, items, reason: 'project_deleted', wasDead: true });
    }
  }

  async #removeJobs(projectId: string): Promise<number> {
    const { bull } = this.jobs;
    let removed = 0;
    for (let start = 0; ; start += PAGE) {
      const end = start + PAGE - 1;
      const found = await this.#redis.run(() => bull.getJobs(STATES, start, end, true));
      for (const job of found) {
        if (projectIn(job?.data) !== projectId || job.id === undefined) continue;
        const { id } = job;
        if ((await this.#redis.run(() => bull.remove(id))) !== 1) continue;
        removed++;
        const items = Number(job.data.record[9]);
        this.dropped({ branch: this.#name, items, reason: 'project_deleted', wasDead: false });
      }
      // Of each state a page.
      if (found.length === 0) return removed;
    }
  }

  deadLetter(branch: string, batch: SealedBatch, reason: DeadLetterReason): Promise<void> {
    return this.#letters.add(branch, batch, reason, this.#clock.now());
  }

  deadLetters(filter: DeadLetterFilter = {}): Promise<DeadLetter[]> {
    return this.#letters.list(filter);
  }

  async replay(ids: readonly number[] | 'all'): Promise<number> {
    let replayed = 0;
    for (const letter of await this.#letters.read(ids)) {
      await this.jobs.add(`${letter.batchId}/${letter.id}`, letter.payload);
      if (await this.#letters.remove(letter)) replayed++;
    }
    await this.refresh();
    return replayed;
  }

  async drop(ids: readonly number[] | 'all'): Promise<number> {
    let gone = 0;
    for (const letter of await this.#letters.read(ids)) {
      if (await this.#letters.remove(letter)) gone++;
    }
    await this.refresh();
    return gone;
  }

  onDrop(listener: (drop: QueueDrop) => void): () => void {
    this.#dropListeners.add(listener);
    return () => this.#dropListeners.delete(listener);
  }

  dropped(drop: QueueDrop): void {
    for (const listener of this.#dropListeners) listener(drop);
  }

  stats(): QueueSummary {
    const { entries, leased, letters, items } = this.#counts;
    return {
      branches: [{ branch: this.#name, entries, leased }],
      deadLetters: letters,
      deadLetterItems: items,
    };
  }

  /** Counts now, and again later. */
  async refresh(): Promise<void> {
    this.#cancel();
    try {
      if (this.#redis.state().connected) await this.#count();
    } catch (error) {
      this.#logger.debug({ error }, 'the queue could not be counted');
    }
    // Two may have been under way.
    this.#cancel();
    if (this.#isClosed) return;
    this.#cancel = this.#clock.after(REFRESH_MS, () => void this.refresh());
  }

  async #count(): Promise<void> {
    const [entries, leased, sums] = await Promise.all([
      this.jobs.count(),
      this.#redis.run(() => this.jobs.bull.getActiveCount()),
      this.#letters.sums(),
    ]);
    this.#counts = { entries, leased, letters: sums.letters, items: sums.items };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.jobs.close();
  }
}
