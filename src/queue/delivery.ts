import type { Clock, Consumer, Logger } from '../component/component.ts';
import type { Batch, ItemFailure, SealedBatch } from '../model/batch.ts';
import { PermanentError, RetryableError } from '../model/errors.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import { handOn, reasonOf } from './deliver-batch.ts';
import type { QueueEntry, QueueLeases } from './queue.ts';

export type DeliveryOptions = {
  readonly queue: QueueLeases;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Entries of one branch that are under way at the same time. */
  readonly concurrency: number;
  /** Milliseconds before the first retry; each further one waits twice as long, up to the maximum. */
  readonly initialInterval: number;
  readonly maxInterval: number;
  /** From 0 to 1; spreads retries. */
  readonly random?: () => number;
};

/** One branch of the queue, and who gets its batches. */
export type DeliveryBranch = {
  readonly name: string;
  /**
   * Turns a batch into what the consumer takes. Branches that share it share its results. `again` says
   * that the same batch was processed before (a retry), so that nothing of it is counted twice.
   */
  readonly process: (batch: SealedBatch, again: boolean) => Promise<Batch>;
  readonly consumer: Consumer;
};

export type Delivery = {
  /** No further leases; what is under way may finish. */
  pause(): void;
  resume(): void;
  /** Branches that could begin with an entry now: neither resting nor busy. */
  branchesWithRoom(): string[];
  /** Told when a branch may have room again. */
  onRoom(listener: () => void): () => void;
  /** Delivers an entry that the caller leased; resolves when the lease has ended. Rejects for an unknown branch. */
  deliver(branch: string, entry: QueueEntry): Promise<void>;
  /** Waits for what is under way until the deadline; all else stays in the queue. */
  stop(deadline: AbortSignal): Promise<void>;
};

/** Bodies leased at once for one branch. */
const LEASE_BYTES = 32 * 1024 * 1024;
/** When the queue itself fails (its disk, its file), it is asked again after this. */
const LEASE_RETRY_MS = 1000;

/**
 * Takes entries out of a queue and hands them on, each branch by itself:
 *
 *   lease ─▶ process ─▶ consume ─▶ ack, or with items that nobody has: dead letter
 *               │          │ PermanentError: dead letter; of a deleted project: dropped
 *               └──────────┴ anything else: back into the queue, due later, for ever
 */
export function startDelivery(
  options: DeliveryOptions,
  branches: readonly DeliveryBranch[],
): Delivery {
  const processing = new Map<DeliveryBranch['process'], Processing>();
  for (const { process } of branches) {
    const known = processing.get(process);
    if (known === undefined) processing.set(process, new Processing(process));
    else known.share();
  }
  const roomListeners = new Set<() => void>();
  const onRoom = (): void => {
    for (const listener of roomListeners) listener();
  };
  const loops = branches.map((branch) => {
    const shared = processing.get(branch.process) ?? new Processing(branch.process);
    return new BranchLoop(options, branch, shared, onRoom);
  });
  for (const loop of loops) loop.resume();
  return {
    pause: () => {
      for (const loop of loops) loop.pause();
    },
    resume: () => {
      for (const loop of loops) loop.resume();
    },
    branchesWithRoom: () => loops.filter(({ hasRoom }) => hasRoom).map(({ name }) => name),
    onRoom(listener) {
      roomListeners.add(listener);
      return () => roomListeners.delete(listener);
    },
    async deliver(branch, entry) {
      const loop = loops.find(({ name }) => name === branch);
      if (loop === undefined) throw new Error(`unknown branch: ${branch}`);
      await loop.begin(entry);
    },
    stop: async (deadline) => {
      await Promise.all(loops.map((loop) => loop.stop(deadline)));
    },
  };
}

class BranchLoop {
  readonly #options: DeliveryOptions;
  readonly #branch: DeliveryBranch;
  readonly #processing: Processing;
  readonly #onRoom: () => void;
  readonly #unsubscribe: () => void;
  /** Leased and not ended, with the work on each. */
  readonly #underWay = new Map<QueueEntry, Promise<void>>();
  #isLeasing = false;
  #isPaused = true;
  #isStopped = false;
  /** Something may have come while a lease was under way. */
  #mayHaveMore = false;
  /** Failed deliveries since the last success. */
  #failures = 0;
  #cancelRest: (() => void) | undefined;
  #idle: (() => void) | undefined;

  constructor(
    options: DeliveryOptions,
    branch: DeliveryBranch,
    processing: Processing,
    onRoom: () => void,
  ) {
    this.#options = options;
    this.#branch = branch;
    this.#processing = processing;
    this.#onRoom = onRoom;
    this.#unsubscribe = options.queue.onAvailable(branch.name, () => this.#fill());
  }

  get name(): string {
    return this.#branch.name;
  }

  get hasRoom(): boolean {
    if (this.#isPaused || this.#isStopped || this.#cancelRest !== undefined) return false;
    return this.#underWay.size < this.#options.concurrency;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#fill();
  }

  /** Leases as much as there is room for. */
  #fill(): void {
    if (this.#isLeasing) {
      this.#mayHaveMore = true;
      return;
    }
    if (this.#isPaused || this.#isStopped || this.#cancelRest !== undefined) return;
    const room = this.#options.concurrency - this.#underWay.size;
    if (room <= 0) return;
    this.#isLeasing = true;
    this.#mayHaveMore = false;
    this.#lease(room).then(
      (entries) => this.#leased(entries),
      (error: unknown) => {
        this.#isLeasing = false;
        this.#options.logger.error(
          { branch: this.#branch.name, error },
          'the queue cannot be read',
        );
        this.#rest(LEASE_RETRY_MS);
      },
    );
  }

  #lease(room: number): Promise<QueueEntry[]> {
    return this.#options.queue.lease(this.#branch.name, room, LEASE_BYTES);
  }

  #leased(entries: readonly QueueEntry[]): void {
    this.#isLeasing = false;
    for (const entry of entries) void this.begin(entry);
    if (entries.length === 0 && this.#underWay.size === 0) this.#idle?.();
    if (entries.length > 0 || this.#mayHaveMore) this.#fill();
  }

  begin(entry: QueueEntry): Promise<void> {
    const work = this.#deliver(entry).finally(() => {
      this.#underWay.delete(entry);
      if (this.#underWay.size === 0) this.#idle?.();
      this.#fill();
      this.#onRoom();
    });
    this.#underWay.set(entry, work);
    return work;
  }

  /** Never rejects: an entry that could not be ended is delivered again after a restart. */
  async #deliver(entry: QueueEntry): Promise<void> {
    const { queue, logger } = this.#options;
    const { name, consumer } = this.#branch;
    if (this.#isStopped) return this.#return(entry);
    try {
      const batch = await this.#processing.run(entry);
      const failures = await handOn(batch, consumer);
      this.#failures = 0;
      if (failures.length > 0) return await this.#setAside(entry, failures);
    } catch (error) {
      return this.#failed(entry, error);
    }
    this.#processing.ended(entry);
    // Not waited for: the next group of the queue's file takes it along.
    queue.ack(name, [entry]).catch((error: unknown) => {
      logger.warn(
        { branch: name, batch: entry.batch.id, error },
        'delivered, but not written down',
      );
    });
  }

  /** The others of the entry are delivered: replaying it gives them the same rows again. */
  async #setAside(entry: QueueEntry, failures: readonly ItemFailure[]): Promise<void> {
    const { queue, logger } = this.#options;
    const { name } = this.#branch;
    const reason = reasonOf(failures);
    const about = { branch: name, batch: entry.batch.id, items: failures.length };
    this.#processing.ended(entry);
    logger.error(about, 'items cannot be delivered: set aside in the dead letter');
    await queue.deadLetter(name, entry, reason).catch((error: unknown) => {
      logger.warn({ branch: name, batch: entry.batch.id, error }, 'not written down');
    });
  }

  async #failed(entry: QueueEntry, error: unknown): Promise<void> {
    const { queue, logger } = this.#options;
    const { name } = this.#branch;
    const message = error instanceof Error ? error.message : String(error);
    const about = { branch: name, batch: entry.batch.id, attempts: entry.attempts + 1, error };
    try {
      if (error instanceof PermanentError && error.code === 'project_deleted') {
        this.#processing.ended(entry);
        await queue.discard(name, entry, 'project_deleted');
        return;
      }
      if (error instanceof PermanentError) {
        this.#processing.ended(entry);
        logger.error(about, 'cannot be delivered: set aside in the dead letter');
        await queue.deadLetter(name, entry, { code: error.code, message });
        return;
      }
      this.#failures++;
      const delay = this.#retryDelay(entry, error);
      logger.warn({ ...about, delay }, 'not delivered: tried again later');
      if (this.#failures >= this.#options.concurrency)
        this.#rest(this.#backoff(this.#failures - this.#options.concurrency));
      // Not waited for: it waits in memory already, and a full disk must not hold up the branch.
      queue.nack(name, entry, delay, message).catch((failure: unknown) => {
        logger.warn({ branch: name, batch: entry.batch.id, error: failure }, 'not written down');
      });
    } catch (failure) {
      logger.warn({ branch: name, batch: entry.batch.id, error: failure }, 'not written down');
    }
  }

  #retryDelay(entry: QueueEntry, error: unknown): number {
    const asked = error instanceof RetryableError ? (error.retryAfterMs ?? 0) : 0;
    return Math.max(asked, this.#backoff(entry.attempts));
  }

  /** Half of it is fixed and half random, so that what failed together is not tried together. */
  #backoff(step: number): number {
    const { initialInterval, maxInterval, random = Math.random } = this.#options;
    const full = Math.min(maxInterval, initialInterval * 2 ** Math.min(step, 30));
    return Math.round(full / 2 + (full / 2) * random());
  }

  /** Everything fails: the branch rests, instead of trying its whole backlog once. */
  #rest(ms: number): void {
    if (this.#isStopped) return;
    this.#cancelRest?.();
    this.#cancelRest = this.#options.clock.after(ms, () => {
      this.#cancelRest = undefined;
      this.#fill();
      this.#onRoom();
    });
  }

  async stop(deadline: AbortSignal): Promise<void> {
    this.#isStopped = true;
    this.#unsubscribe();
    this.#cancelRest?.();
    if (this.#underWay.size > 0 || this.#isLeasing) await this.#idleOr(deadline);
    await Promise.all([...this.#underWay.keys()].map((entry) => this.#return(entry)));
  }

  #idleOr(deadline: AbortSignal): Promise<void> {
    if (deadline.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        deadline.removeEventListener('abort', done);
        resolve();
      };
      this.#idle = done;
      deadline.addEventListener('abort', done);
    });
  }

  /** The queue may outlive this loop (a reload): what is not finished waits again. */
  async #return(entry: QueueEntry): Promise<void> {
    const { queue, logger } = this.#options;
    try {
      await queue.nack(this.#branch.name, entry, 0, 'the pipeline stopped');
    } catch (error) {
      logger.warn({ branch: this.#branch.name, batch: entry.batch.id, error }, 'not given back');
    }
  }
}

/** Results that a slower branch may still come for: how many, and bytes of the batches behind them. */
const REMEMBERED = 64;
const REMEMBERED_BYTES = 32 * 1024 * 1024;

type Remembered = { readonly result: Promise<Batch>; readonly bytes: number; left: number };

/**
 * Processes a batch once for all branches that keep pace with each other. One that lags has it processed
 * again: nothing is remembered for long.
 */
class Processing {
  readonly #process: DeliveryBranch['process'];
  readonly #results = new Map<number, Remembered>();
  #bytes = 0;
  #sharers = 1;
  /** Entries that were processed and are not ended, with the branches that have yet to end them. */
  readonly #processed = new Map<number, number>();

  constructor(process: DeliveryBranch['process']) {
    this.#process = process;
  }

  share(): void {
    this.#sharers++;
  }

  run(entry: QueueEntry): Promise<Batch> {
    if (this.#sharers === 1 || entry.attempts > 0) return this.#processOnce(entry);
    const known = this.#results.get(entry.seq);
    if (known !== undefined) {
      known.left--;
      if (known.left === 0) this.#forget(entry.seq, known);
      return known.result;
    }
    const result = this.#processOnce(entry);
    // Twice: as it is stored, and inflated with its index.
    const bytes = 2 * inflatedSizeHint(entry.batch.body, entry.batch.encoding);
    this.#results.set(entry.seq, { result, bytes, left: this.#sharers - 1 });
    this.#bytes += bytes;
    for (const [seq, oldest] of this.#results) {
      if (this.#results.size <= REMEMBERED && this.#bytes <= REMEMBERED_BYTES) break;
      this.#forget(seq, oldest);
    }
    return result;
  }

  /** A branch will not have this entry processed any more. */
  ended(entry: QueueEntry): void {
    const left = this.#processed.get(entry.seq);
    if (left === undefined) return;
    if (left > 1) this.#processed.set(entry.seq, left - 1);
    else this.#processed.delete(entry.seq);
  }

  async #processOnce(entry: QueueEntry): Promise<Batch> {
    const batch = await this.#process(entry.batch, this.#processed.has(entry.seq));
    if (!this.#processed.has(entry.seq)) this.#processed.set(entry.seq, this.#sharers);
    return batch;
  }

  #forget(seq: number, { bytes }: Remembered): void {
    this.#results.delete(seq);
    this.#bytes -= bytes;
  }
}
