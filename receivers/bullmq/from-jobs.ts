import type { Job } from 'bullmq';
import { batchIn, branchesIn } from '../../src/bullmq/job-data.ts';
import type { RedisQueue } from '../../src/bullmq/redis-queue.ts';
import { openRedisQueue } from '../../src/bullmq/redis-queue.ts';
import type { Branch, Pipeline, Receiver, Settings } from '../../src/component/component.ts';
import { HEALTH_REGISTRY } from '../../src/component/health.ts';
import { Waits, WaitTimeout } from '../../src/component/waits.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import { branchName } from '../../src/queue/delivery.ts';
import type { DeliveryOutcome } from '../../src/queue/delivery-policy.ts';
import { DeliveryPolicy } from '../../src/queue/delivery-policy.ts';
import { oldestAgeSeconds, summaryGauges } from '../../src/queue/gauges.ts';
import type { DeadLetterReason } from '../../src/queue/queue.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import { REDIS } from '../../src/redis/redis.ts';
import type { BullmqReceiverConfig } from './config.ts';
import { progressHealth } from './health.ts';
import { workerOptions } from './options.ts';
import { Progress } from './progress.ts';
import { startWorker } from './worker.ts';

/**
 * The job holds the batch. Its progress names the exporters that have the batch, so a retry skips them:
 *
 *   job ──▶ process ──▶ each exporter without the batch ──▶ policy ──▶ job done
 *                                                             │ dead letter, in Redis: job done for the exporter
 *                                                             └ retry: the job is delayed
 */
export function fromJobs(
  settings: Settings,
  config: BullmqReceiverConfig,
  pipeline: Pipeline,
): Receiver {
  let open: { close(deadline: AbortSignal): Promise<void> } | undefined;
  return {
    async start() {
      open = await openReceiver(settings, config, pipeline);
    },
    async shutdown(deadline) {
      const closing = open;
      open = undefined;
      await closing?.close(deadline);
    },
  };
}

async function openReceiver(settings: Settings, config: BullmqReceiverConfig, pipeline: Pipeline) {
  const { id, clock, logger, metrics, host } = settings;
  const redis = host.extension(config.redis, REDIS);
  const waits = new Waits({ clock, logger, stepTimeout: config.step_timeout });
  const progress = new Progress(clock);
  const queue = await openRedisQueue(redis, config.queue, clock, logger, waits);
  const stopping = new AbortController();
  const parts = { settings, config, pipeline, queue, stopping: stopping.signal, waits, progress };
  const delivering = new JobDelivery(parts);
  const worker = await startWorker({
    ...workerOptions(settings, config),
    ...{ redis, waits, progress, jobs: queue.jobs },
    work: (job) => delivering.run(job),
    delivering: () => delivering.inFlight,
    isResting: () => delivering.isResting,
  });
  const ofQueue = { details: { durability: 'undelivered batches are in Redis' } };
  const oldest = () => oldestAgeSeconds(queue.stats().branches, clock.now());
  const health = () => progressHealth(ofQueue, worker, redis, oldest());
  const removers = [
    summaryGauges(metrics, clock, { receiver: id }, queue),
    host.service(HEALTH_REGISTRY).register(id, health),
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

/** A branch of the pipeline and its delivery policy. */
type Target = { readonly name: string; readonly branch: Branch; readonly policy: DeliveryPolicy };

type JobDeliveryParts = {
  readonly settings: Settings;
  readonly config: BullmqReceiverConfig;
  readonly pipeline: Pipeline;
  readonly queue: RedisQueue;
  readonly stopping: AbortSignal;
  readonly waits: Waits;
  readonly progress: Progress;
};

class JobDelivery {
  readonly #settings: Settings;
  readonly #config: BullmqReceiverConfig;
  readonly #pipeline: Pipeline;
  readonly #queue: RedisQueue;
  readonly #stopping: AbortSignal;
  readonly #waits: Waits;
  readonly #progress: Progress;
  readonly #targets: readonly Target[];
  /** Jobs in delivery. */
  #inFlight = 0;

  constructor({ settings, config, pipeline, queue, stopping, waits, progress }: JobDeliveryParts) {
    this.#settings = settings;
    this.#config = config;
    this.#pipeline = pipeline;
    this.#queue = queue;
    this.#stopping = stopping;
    this.#waits = waits;
    this.#progress = progress;
    const options = {
      bounds: { waits, attemptTimeout: config.delivery_timeout },
      clock: settings.clock,
      logger: settings.logger,
      concurrency: config.concurrency,
      initialInterval: config.initial_interval,
      maxInterval: config.max_interval,
    };
    this.#targets = pipeline.branches.map((branch) => {
      const name = branchName(pipeline, branch);
      return { name, branch, policy: new DeliveryPolicy(name, options) };
    });
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether every exporter rests after failures. */
  get isResting(): boolean {
    return this.#targets.every(({ policy }) => policy.restMs() > 0);
  }

  /** Resolves with the milliseconds until the job is due again; undefined if the job is done. */
  async run(job: Job): Promise<number | undefined> {
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
    try {
      await this.#waits.step('rest of the exporters', (over) => this.#rested(left, over));
      if (this.#stopping.aborted) return 0;
      if (await this.#isDeleted(batch)) return undefined;
      const delays = await this.#deliver(job, batch, left, done);
      if (delays.length === 0) return undefined;
      await this.#waits.step('save progress of job in Redis', () =>
        job.updateProgress({ done: [...done] }),
      );
      return Math.max(...delays);
    } catch (error) {
      // The wait is logged.
      if (error instanceof WaitTimeout) {
        this.#progress.abandoned();
        return this.#config.initial_interval;
      }
      this.#progress.made();
      logger.warn({ err: error, batch: batch.id }, 'Job failed; retried');
      return this.#config.initial_interval;
    }
  }

  async #isDeleted(batch: SealedBatch): Promise<boolean> {
    const { projectId } = batch.tenant;
    const isDeleted = await this.#waits.step('look for deleted project in Redis', () =>
      this.#queue.isDeleted(projectId),
    );
    if (!isDeleted) return false;
    this.#drop(this.#queue.jobs.bull.name, batch);
    return true;
  }

  #drop(branch: string, batch: SealedBatch): void {
    const items = itemsOf(batch);
    this.#queue.dropped({ branch, items, reason: 'project_deleted', wasDead: false });
  }

  /** Holds the job while every exporter rests, so that the backlog is not tried job by job. */
  async #rested(targets: readonly Target[], abandoned: AbortSignal): Promise<void> {
    const { clock } = this.#settings;
    const signals = [this.#stopping, abandoned];
    for (;;) {
      const rest = Math.min(...targets.map(({ policy }) => policy.restMs()));
      if (!(rest > 0) || !Number.isFinite(rest)) return;
      if (signals.some(({ aborted }) => aborted)) return;
      await new Promise<void>((resolve) => {
        const end = (): void => {
          cancel();
          for (const signal of signals) signal.removeEventListener('abort', end);
          resolve();
        };
        const cancel = clock.after(rest, end);
        for (const signal of signals) signal.addEventListener('abort', end);
      });
    }
  }

  /** Resolves with the delays of the exporters that still need the batch, and adds the others to `done`. */
  async #deliver(
    job: Job,
    batch: SealedBatch,
    targets: readonly Target[],
    done: Set<string>,
  ): Promise<number[]> {
    const startedAt = this.#settings.clock.now();
    const failures = job.attemptsStarted - 1;
    const processed = this.#pipeline.process(batch, failures > 0);
    this.#inFlight++;
    const delays = targets.map(async ({ name, branch, policy }) => {
      const rest = policy.restMs();
      if (rest > 0) return rest;
      const outcome = await policy.attempt({
        batchId: batch.id,
        failures,
        process: () => processed,
        isHeld: () => this.#isHeld(job, startedAt),
        consumer: branch,
      });
      const delay = await this.#save(name, batch, outcome);
      // Another worker delivers the job, and reads this progress.
      if (delay === undefined && outcome.kind !== 'lost') done.add(name);
      if (outcome.kind === 'retry' && outcome.isTimeout) this.#progress.abandoned();
      else this.#progress.made();
      return delay;
    });
    // If every exporter rests, no attempt awaits the processed batch.
    processed.catch(() => {});
    try {
      return (await Promise.all(delays)).filter((delay) => delay !== undefined);
    } finally {
      this.#inFlight--;
    }
  }

  /** After a freeze the lock may have expired, and another worker may have the job. */
  async #isHeld(job: Job, startedAt: number): Promise<boolean> {
    const { lock_duration: lockDuration } = this.#config;
    if (Math.abs(this.#settings.clock.now() - startedAt) < lockDuration / 2) return true;
    return this.#queue.jobs.extendLock(job.id ?? '', job.token ?? '', lockDuration);
  }

  /** Resolves with the delay of a retry; undefined if the exporter is done with the batch. */
  async #save(
    name: string,
    batch: SealedBatch,
    outcome: DeliveryOutcome,
  ): Promise<number | undefined> {
    switch (outcome.kind) {
      case 'ack':
      case 'lost':
        return undefined;
      case 'retry':
        return outcome.afterMs;
      case 'discard':
        this.#drop(name, batch);
        return undefined;
      case 'dead_letter':
        return this.#deadLetter(name, batch, outcome.reason);
    }
  }

  async #deadLetter(
    name: string,
    batch: SealedBatch,
    reason: DeadLetterReason,
  ): Promise<number | undefined> {
    try {
      await this.#waits.step('save dead letter in Redis', () =>
        this.#queue.deadLetter(name, batch, reason),
      );
      return undefined;
    } catch (error) {
      const fields = { branch: name, batch: batch.id, err: error };
      this.#settings.logger.warn(fields, 'Dead letter could not be saved; delivery retried');
      return this.#config.initial_interval;
    }
  }
}

/** Names of the branches that have the batch. */
function doneBefore({ progress }: Job): string[] {
  const done =
    typeof progress === 'object' && progress !== null && 'done' in progress ? progress.done : [];
  return Array.isArray(done) ? done.map(String) : [];
}
