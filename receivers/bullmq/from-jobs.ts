import type { Job } from 'bullmq';
import { batchIn, branchesIn } from '../../src/bullmq/job-data.ts';
import type { RedisQueue } from '../../src/bullmq/redis-queue.ts';
import { openRedisQueue } from '../../src/bullmq/redis-queue.ts';
import type { Branch, Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import type { ItemFailure, SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { cutMessage, handOn, reasonOf } from '../../src/queue/deliver-batch.ts';
import { summaryGauges } from '../../src/queue/gauges.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import { REDIS } from '../../src/redis/redis.ts';
import { Backoff } from './backoff.ts';
import type { BullmqReceiverConfig } from './config.ts';
import { progressHealth } from './health.ts';
import { startWorker } from './worker.ts';

/**
 * The job is the batch. What each exporter has of it stands in the job's progress, so that a retry does not
 * repeat those that have it:
 *
 *   job ──▶ process ──▶ each exporter that has it not yet ──▶ all have it: done
 *                          │ PermanentError: dead letter, in Redis
 *                          └ anything else: back into the queue, due later, for ever
 */
export function fromJobs(
  settings: Settings,
  config: BullmqReceiverConfig,
  pipeline: Pipeline,
): Receiver {
  let open: { close(deadline: AbortSignal): Promise<void> } | undefined;
  return {
    async start() {
      open = await openWorking(settings, config, pipeline);
    },
    async shutdown(deadline) {
      const closing = open;
      open = undefined;
      await closing?.close(deadline);
    },
  };
}

async function openWorking(settings: Settings, config: BullmqReceiverConfig, pipeline: Pipeline) {
  const { id, clock, logger, metrics, host } = settings;
  const redis = host.extension(config.redis, REDIS);
  const queue = await openRedisQueue(redis, config.queue, clock, logger);
  const stopping = new AbortController();
  const delivering = new JobDelivery(settings, config, pipeline, queue, stopping.signal);
  const worker = await startWorker({
    redis,
    queue: config.queue,
    concurrency: config.concurrency,
    lockDuration: config.lock_duration,
    stallTimeout: config.stall_timeout,
    clock,
    logger,
    jobs: queue.jobs,
    work: (job) => delivering.carryOut(job),
  });
  const promise = { details: { durability: 'Redis has what is not delivered' } };
  const removers = [
    summaryGauges(metrics, { receiver: id }, queue),
    host.service(HEALTH_REGISTRY).register(id, () => progressHealth(promise, worker, redis)),
    host.service(QUEUE_REGISTRY).register(id, queue),
  ];
  return {
    async close(deadline: AbortSignal) {
      for (const remove of removers) remove();
      stopping.abort();
      await worker.stop(deadline);
      await queue.close();
    },
  };
}

/** A branch of the pipeline, and how it fares. */
type Target = { readonly name: string; readonly branch: Branch; readonly backoff: Backoff };

class JobDelivery {
  readonly #settings: Settings;
  readonly #config: BullmqReceiverConfig;
  readonly #pipeline: Pipeline;
  readonly #queue: RedisQueue;
  readonly #stopping: AbortSignal;
  readonly #targets: readonly Target[];

  constructor(
    settings: Settings,
    config: BullmqReceiverConfig,
    pipeline: Pipeline,
    queue: RedisQueue,
    stopping: AbortSignal,
  ) {
    this.#settings = settings;
    this.#config = config;
    this.#pipeline = pipeline;
    this.#queue = queue;
    this.#stopping = stopping;
    this.#targets = pipeline.branches.map((branch) => ({
      name: `${pipeline.id}/${branch.exporterId}`,
      branch,
      backoff: new Backoff(config, settings.clock),
    }));
  }

  /** Resolves with the milliseconds after which the job is due again; undefined when it is done. */
  async carryOut(job: Job): Promise<number | undefined> {
    const { logger } = this.#settings;
    const batch = batchIn(job.data);
    if (batch === undefined) {
      throw new PermanentError('invalid_job', 'the job holds no batch');
    }
    const done = new Set(doneBefore(job));
    const wanted = branchesIn(job.data);
    const left = this.#targets.filter(
      ({ name }) => !done.has(name) && (wanted === undefined || wanted.includes(name)),
    );
    await this.#rested(left);
    if (this.#stopping.aborted) return 0;
    try {
      if (await this.#isDeleted(batch)) return undefined;
      const delays = await this.#deliver(job, batch, left, done);
      if (delays.length === 0) return undefined;
      await job.updateProgress({ done: [...done] });
      return Math.max(...delays);
    } catch (error) {
      logger.warn({ error, batch: batch.id }, 'not delivered: tried again later');
      return this.#config.initial_interval;
    }
  }

  async #isDeleted(batch: SealedBatch): Promise<boolean> {
    if (!(await this.#queue.isDeleted(batch.tenant.projectId))) return false;
    this.#drop(this.#queue.jobs.bull.name, batch);
    return true;
  }

  #drop(branch: string, batch: SealedBatch): void {
    const items = itemsOf(batch);
    this.#queue.dropped({ branch, items, reason: 'project_deleted', wasDead: false });
  }

  /** While every exporter rests, jobs are held and not tried in turn. */
  async #rested(targets: readonly Target[]): Promise<void> {
    const { clock } = this.#settings;
    for (;;) {
      const rest = Math.min(...targets.map(({ backoff }) => backoff.restMs()));
      if (!(rest > 0) || !Number.isFinite(rest) || this.#stopping.aborted) return;
      await new Promise<void>((resolve) => {
        const end = (): void => {
          cancel();
          this.#stopping.removeEventListener('abort', end);
          resolve();
        };
        const cancel = clock.after(rest, end);
        this.#stopping.addEventListener('abort', end);
      });
    }
  }

  /** Resolves with the delays that exporters ask for which have it not yet. */
  async #deliver(
    job: Job,
    batch: SealedBatch,
    targets: readonly Target[],
    done: Set<string>,
  ): Promise<number[]> {
    const again = job.attemptsStarted > 1;
    const processed = this.#pipeline.process(batch, again);
    const outcomes = targets.map(async (target) => {
      const { name, branch, backoff } = target;
      const rest = backoff.restMs();
      if (rest > 0) return rest;
      try {
        const failures = await handOn(await processed, branch);
        if (failures.length > 0) await this.#setAside(name, batch, failures);
        backoff.succeeded();
      } catch (error) {
        const delay = await this.#failed(target, job, batch, error);
        if (delay !== undefined) return delay;
      }
      done.add(name);
      return undefined;
    });
    // Where every exporter rests nobody else waits for it.
    processed.catch(() => {});
    return (await Promise.all(outcomes)).filter((delay) => delay !== undefined);
  }

  /** Undefined where the error has ended the delivery. */
  async #failed(
    { name, backoff }: Target,
    job: Job,
    batch: SealedBatch,
    error: unknown,
  ): Promise<number | undefined> {
    const { logger } = this.#settings;
    const about = { branch: name, batch: batch.id, attempts: job.attemptsStarted, error };
    if (error instanceof PermanentError) {
      if (error.code === 'project_deleted') {
        this.#drop(name, batch);
        return undefined;
      }
      logger.error(about, 'cannot be delivered: set aside in the dead letter');
      await this.#queue.deadLetter(name, batch, {
        code: error.code,
        message: cutMessage(error.message),
      });
      return undefined;
    }
    backoff.failed();
    const asked = error instanceof RetryableError ? (error.retryAfterMs ?? 0) : 0;
    const delay = Math.max(asked, backoff.delay(job.attemptsStarted - 1));
    logger.warn({ ...about, delay }, 'not delivered: tried again later');
    return delay;
  }

  async #setAside(
    name: string,
    batch: SealedBatch,
    failures: readonly ItemFailure[],
  ): Promise<void> {
    const about = { branch: name, batch: batch.id, items: failures.length };
    this.#settings.logger.error(about, 'items cannot be delivered: set aside in the dead letter');
    await this.#queue.deadLetter(name, batch, reasonOf(failures));
  }
}

function doneBefore({ progress }: Job): string[] {
  const done =
    typeof progress === 'object' && progress !== null && 'done' in progress ? progress.done : [];
  return Array.isArray(done) ? done.map(String) : [];
}
