import type { Job, JobState, JobType } from 'bullmq';
import type { Clock, Logger } from '../component/component.ts';
import type { Waits } from '../component/waits.ts';
import type { SealedBatch } from '../model/batch.ts';
import { itemsOf } from '../model/batch.ts';
import { Refusal } from '../model/errors.ts';
import type {
  DeadLetter,
  DeadLetterFilter,
  DeadLetterReason,
  ItemErasing,
  QueueAdmin,
  QueueDrop,
  QueueSummary,
  QueueWriter,
} from '../queue/queue.ts';
import { DeliveryUnderWay } from '../queue/queue.ts';
import type { RedisConnection } from '../redis/redis.ts';
import { batchIn, itemsIn, jobPayload, projectIn } from './job-data.ts';
import type { JobQueue } from './job-queue.ts';
import { openJobQueue } from './job-queue.ts';
import { jobIdOf } from './names.ts';
import type { RedisDeadLetters, RedisLetter } from './redis-dead-letters.ts';
import { deletedProjectsKey, redisDeadLetters } from './redis-dead-letters.ts';

/**
 * A queue whose jobs hold their batches. BullMQ leases the jobs and Redis keeps no idempotency records, so the queue
 * has only the administrative role of the contract.
 */
export type RedisQueue = QueueAdmin & {
  readonly jobs: JobQueue;
  /** Rejects with `RetryableError` (`redis_full`, `redis_failed`) or the `Refusal` of a deleted project. */
  readonly append: QueueWriter['append'];
  /** Whether the project was deleted, so that none of its batches may be delivered. */
  isDeleted(projectId: string): Promise<boolean>;
  /** Keeps a batch as a dead letter of a branch, once per batch and branch. */
  deadLetter(branch: string, batch: SealedBatch, reason: DeadLetterReason): Promise<void>;
  /** Notifies the `onDrop` listeners of a batch that a worker dropped. */
  dropped(drop: QueueDrop): void;
  close(): Promise<void>;
};

const RECOUNT_MS = 5000;
const STATES: JobType[] = ['waiting', 'delayed', 'prioritized', 'failed', 'completed'];
/** With the jobs in delivery, which no command removes. */
const ERASED_STATES: JobType[] = ['active', ...STATES];
const PAGE = 100;

export async function openRedisQueue(
  redis: RedisConnection,
  name: string,
  clock: Clock,
  logger: Logger,
  waits?: Waits,
): Promise<RedisQueue> {
  const jobs = await openJobQueue(redis, name, waits);
  const queue = new BullmqQueue(redis, name, jobs, clock, logger);
  await queue.refresh();
  return queue;
}

type Counts = {
  readonly entries: number;
  readonly leased: number;
  readonly letters: number;
  readonly items: number;
  readonly oldestAt: number | undefined;
};

class BullmqQueue implements RedisQueue {
  readonly isShared = true;
  readonly jobs: JobQueue;
  readonly #redis: RedisConnection;
  readonly #name: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #letters: RedisDeadLetters;
  readonly #dropListeners = new Set<(drop: QueueDrop) => void>();
  #counts: Counts = { entries: 0, leased: 0, letters: 0, items: 0, oldestAt: undefined };
  #isClosed = false;
  #cancel = (): void => {};

  constructor(redis: RedisConnection, name: string, jobs: JobQueue, clock: Clock, logger: Logger) {
    this.jobs = jobs;
    this.#redis = redis;
    this.#name = name;
    this.#clock = clock;
    this.#logger = logger;
    this.#letters = redisDeadLetters(redis, name);
  }

  async append(batch: SealedBatch): Promise<void> {
    if (itemsOf(batch) === 0) return;
    // One connection sends both commands in this order. If the project is deleted in between, either its removal
    // finds the job or the check finds the deletion.
    const added = this.jobs.add(batch.id, jobPayload(batch));
    const [, deleted] = await Promise.all([added, this.isDeleted(batch.tenant.projectId)]);
    if (!deleted) return;
    await this.#redis.run(() => this.jobs.bull.remove(jobIdOf(batch.id)));
    throw new Refusal('unauthorized', 'The project was deleted.');
  }

  async isDeleted(projectId: string): Promise<boolean> {
    const key = deletedProjectsKey(this.#redis);
    return (await this.#redis.run((client) => client.sismember(key, projectId))) === 1;
  }

  /** Jobs change their state during a pass, so passes are repeated until one finds no job. */
  async removeProject(projectId: string): Promise<void> {
    await this.#redis.run((client) => client.sadd(deletedProjectsKey(this.#redis), projectId));
    while ((await this.#removeJobs(projectId)) > 0);
    for (const letter of await this.#letters.read('all')) {
      if (letter.projectId !== projectId || !(await this.#letters.remove(letter))) continue;
      const { branch, items } = letter;
      this.dropped({ branch, items, reason: 'project_deleted', wasDead: true });
    }
  }

  /**
   * A replay moves a batch from the dead letters to the jobs, and a delivery that fails moves it back, to the end of the dead letters.
   * A worker has the items of a job in delivery in memory: the store of the erasure refuses them. The erasure waits for the end of the
   * delivery, which may make a dead letter of them. A worker that is gone loses the lock of its job, and stores nothing of it.
   *
   *   dead letters ─▶ jobs ─▶ dead letters that are new since then
   */
  async *eraseItems(erasing: ItemErasing): AsyncGenerator<undefined, void, undefined> {
    const last = yield* this.#eraseInLetters(0, erasing);
    yield* this.#eraseInJobs(erasing);
    yield* this.#eraseInLetters(last, erasing);
    await this.refresh();
  }

  async *#eraseInJobs(erasing: ItemErasing): AsyncGenerator<undefined, void, undefined> {
    const { bull } = this.jobs;
    for (let start = 0; ; start += PAGE) {
      const end = start + PAGE - 1;
      const found = await this.#redis.run(() => bull.getJobs(ERASED_STATES, start, end, true));
      for (const job of found) {
        if (job !== undefined) yield* this.#eraseIn(job, erasing);
        yield;
      }
      if (found.length === 0) return;
    }
  }

  /** Returns the id of the last dead letter. */
  async *#eraseInLetters(
    after: number,
    erasing: ItemErasing,
  ): AsyncGenerator<undefined, number, undefined> {
    let last = after;
    for await (const letter of this.#letters.walk(after)) {
      last = letter.id;
      const rest = await restOf(letter.payload, erasing);
      if (rest !== undefined) await this.#shrinkLetter(letter, rest);
      yield;
    }
    return last;
  }

  async *#eraseIn(job: Job, erasing: ItemErasing): AsyncGenerator<undefined, void, undefined> {
    const rest = await restOf(job.data, erasing);
    const { id } = job;
    if (rest === undefined || id === undefined) return;
    const items = itemsIn(job.data) - rest.items;
    do {
      if ((yield* this.#endOfDelivery(id, erasing)) === 'unknown') return;
    } while (!(rest.items === 0 ? await this.#remove(id) : await this.#replace(id, job, rest)));
    this.dropped({ branch: this.#name, items, reason: 'erasure', wasDead: false });
  }

  /** Resolves with false, and the job keeps its items, if a worker has the job: an erasure that is tried again finds them. */
  async #replace(id: string, job: Job, rest: SealedBatch): Promise<boolean> {
    const { data } = job;
    try {
      await this.#redis.run(() => job.updateData({ ...data, ...jobPayload(rest) }));
      if (!(await this.jobs.isLocked(id))) return true;
      await this.#redis.run(() => job.updateData(data));
    } catch (error) {
      if ((await this.#stateOf(id)) !== 'unknown') throw error;
    }
    return false;
  }

  /** Ends when no worker delivers the job, and returns its state. */
  async *#endOfDelivery(
    id: string,
    { waitMs }: ItemErasing,
  ): AsyncGenerator<undefined, JobState | 'unknown', undefined> {
    const begun = this.#clock.now();
    for (;;) {
      // In this order: a delivery that ends in between has no lock, and another state.
      const isHeld = await this.jobs.isLocked(id);
      const state = await this.#stateOf(id);
      if (state !== 'active' || !isHeld) return state;
      if (Math.abs(this.#clock.now() - begun) >= waitMs) {
        throw new DeliveryUnderWay(`a worker delivers a job of the queue "${this.#name}"`);
      }
      yield;
    }
  }

  #stateOf(id: string): Promise<JobState | 'unknown'> {
    return this.#redis.run(() => this.jobs.bull.getJobState(id));
  }

  /** Resolves with false while a worker delivers the job. */
  async #remove(id: string): Promise<boolean> {
    return (await this.#redis.run(() => this.jobs.bull.remove(id))) === 1;
  }

  async #shrinkLetter(letter: RedisLetter, rest: SealedBatch): Promise<void> {
    const { branch } = letter;
    const items = Math.max(0, letter.items - rest.items);
    const isThere =
      rest.items === 0
        ? await this.#letters.remove(letter)
        : await this.#letters.replace(letter, rest);
    // A dead letter with a new id is found again.
    if (isThere && items > 0) this.dropped({ branch, items, reason: 'erasure', wasDead: true });
  }

  async #removeJobs(projectId: string): Promise<number> {
    const { bull } = this.jobs;
    let removed = 0;
    for (let start = 0; ; start += PAGE) {
      const end = start + PAGE - 1;
      const found = await this.#redis.run(() => bull.getJobs(STATES, start, end, true));
      for (const job of found) {
        if (projectIn(job?.data) !== projectId || job.id === undefined) continue;
        if (!(await this.#remove(job.id))) continue;
        removed++;
        const items = itemsIn(job.data);
        this.dropped({ branch: this.#name, items, reason: 'project_deleted', wasDead: false });
      }
      // Each call returns one page of every state.
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
      await this.#letters.remove(letter);
      replayed++;
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
    const { entries, leased, letters, items, oldestAt } = this.#counts;
    return {
      branches: [{ branch: this.#name, entries, leased, oldestAt }],
      deadLetters: letters,
      deadLetterItems: items,
    };
  }

  /** Counts now and every `RECOUNT_MS`. */
  async refresh(): Promise<void> {
    this.#cancel();
    try {
      if (this.#redis.state().connected) await this.#count();
    } catch (error) {
      this.#logger.debug({ err: error }, 'Jobs could not be counted');
    }
    // A concurrent call may have set a timer.
    this.#cancel();
    if (this.#isClosed) return;
    this.#cancel = this.#clock.after(RECOUNT_MS, () => void this.refresh());
  }

  async #count(): Promise<void> {
    const [entries, leased, sums, oldestAt] = await Promise.all([
      this.jobs.count(),
      this.#redis.run(() => this.jobs.bull.getActiveCount()),
      this.#letters.sums(),
      this.jobs.oldestAt(),
    ]);
    this.#counts = { entries, leased, letters: sums.letters, items: sums.items, oldestAt };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.jobs.close();
  }
}

/** The rest of a payload's batch; undefined if it has no item to erase. */
async function restOf(
  data: unknown,
  { projectId, until, rest }: ItemErasing,
): Promise<SealedBatch | undefined> {
  if (projectIn(data) !== projectId) return undefined;
  const batch = batchIn(data);
  return batch === undefined || batch.receivedAt > until ? undefined : rest(batch);
}
