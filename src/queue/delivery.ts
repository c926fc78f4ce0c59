import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Branch, Consumer, Pipeline } from '../component/component.ts';
import { LruCache } from '../component/lru.ts';
import { WaitTimeout } from '../component/waits.ts';
import type { Batch, SealedBatch } from '../model/batch.ts';
import { freeBatch, SMALL_BODY_BYTES, shareBatch } from '../model/formats.ts';
import { inflatedSizeHint } from '../model/inflate.ts';
import type { DeliveryOutcome, DeliveryPolicyOptions } from './delivery-policy.ts';
import { DeliveryPolicy } from './delivery-policy.ts';
import type { QueueEntry, QueueLeases } from './queue.ts';

type DeliveryOptions = DeliveryPolicyOptions & {
  readonly queue: QueueLeases;
  /** Learns what the deliveries complete. */
  readonly progress?: DeliveryProgress;
};

type DeliveryProgress = {
  /** Entries were leased. */
  taken(): void;
  /** An attempt ended within its bound, and its outcome is in the queue. */
  made(): void;
  /** An attempt exceeded its bound. */
  abandoned(): void;
};

/** One branch of the queue and the consumer of its batches. */
export type DeliveryBranch = {
  readonly name: string;
  /**
   * Turns a batch into what the consumer takes. Branches with the same function share its results. `again` says
   * that the batch was processed before (a retry), so that metrics count it once.
   */
  readonly process: (batch: SealedBatch, again: boolean) => Promise<Batch>;
  readonly consumer: Consumer;
};

/** The branches of a queue in front of a pipeline: one per exporter. */
export function deliveryBranches(pipeline: Pipeline): DeliveryBranch[] {
  const process: DeliveryBranch['process'] = (batch, again) => pipeline.process(batch, again);
  return pipeline.branches.map((branch) => ({
    name: branchName(pipeline, branch),
    process,
    consumer: branch,
  }));
}

/** Stores keep the names of branches, so the form of a name never changes. */
export function branchName(pipeline: Pipeline, { exporterId }: Branch): string {
  return `${pipeline.id}/${exporterId}`;
}

export type QueueDelivery = {
  /** Leases no further entries; entries in flight may finish. */
  pause(): void;
  resume(): void;
  /** Branches that can take an entry now: neither resting nor at their concurrency. */
  branchesWithRoom(): string[];
  /** Entries in delivery, over all branches. */
  inFlight(): number;
  /** Whether every branch rests after failures, so that no progress is due. */
  isResting(): boolean;
  /** The listener is called when a branch may have room again. */
  onRoom(listener: () => void): () => void;
  /**
   * Delivers entries that the caller leased. They count as one delivery in the concurrency of the branch. Each promise
   * resolves when the lease of its entry has ended. Throws for an unknown branch, whose leases would never end.
   */
  deliver(branch: string, entries: readonly QueueEntry[]): readonly Promise<void>[];
  /** Waits for entries in flight until the deadline, then returns them to the queue. */
  stop(deadline: AbortSignal): Promise<void>;
};

/** Bytes of bodies that share a place of a branch. A larger body has a place of its own. */
export const TOGETHER_BYTES = 1024 * 1024;
/** Bytes of bodies that one branch leases at once. */
const LEASE_BYTES = 32 * 1024 * 1024;
/** Milliseconds until the next lease after the queue itself failed (its disk, its file). */
const LEASE_RETRY_MS = 1000;
/**
 * The longest that the end of a delivery waits for the next append, whose transaction saves it too: at ten requests a second that halves the
 * transactions. A crash before that repeats the delivery.
 */
const ACK_WITHIN_MS = 250;

/**
 * Leases entries of a queue and delivers them, each branch independently:
 *
 *   lease ─▶ process ─▶ consume ─▶ policy ─▶ ack | nack, due later | dead letter | discard
 */
export function startDelivery(
  options: DeliveryOptions,
  branches: readonly DeliveryBranch[],
): QueueDelivery {
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
    return new BranchLoop(options, branch, shared, branches.length === 1, onRoom);
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
    inFlight: () => loops.reduce((sum, { inFlight }) => sum + inFlight, 0),
    isResting: () => loops.every(({ isResting }) => isResting),
    onRoom(listener) {
      roomListeners.add(listener);
      return () => roomListeners.delete(listener);
    },
    deliver(branch, entries) {
      const loop = loops.find(({ name }) => name === branch);
      if (loop === undefined) throw new Error(`unknown branch: ${branch}`);
      return loop.beginTogether(entries);
    },
    stop: async (deadline) => {
      await Promise.all(loops.map((loop) => loop.stop(deadline)));
    },
  };
}

class BranchLoop {
  readonly #options: DeliveryOptions;
  readonly #branch: DeliveryBranch;
  readonly #policy: DeliveryPolicy;
  readonly #processing: Processing;
  /** No other branch gets the batches. */
  readonly #isOnly: boolean;
  readonly #onRoom: () => void;
  readonly #unsubscribe: () => void;
  /** Leased entries whose delivery has not ended. */
  readonly #inFlight = new Set<QueueEntry>();
  /** Entries of a lease that share a place. */
  readonly #together: number;
  /** Entries in flight that share the place of another entry. */
  #sharing = 0;
  /** The entry in the place beside those of `concurrency`. */
  #beside: QueueEntry | undefined;
  #isLeasing = false;
  #isPaused = true;
  #isStopped = false;
  /** An entry may have become available while a lease was in flight. */
  #mayHaveMore = false;
  #cancelRest: (() => void) | undefined;
  #onIdle: (() => void) | undefined;

  constructor(
    options: DeliveryOptions,
    branch: DeliveryBranch,
    processing: Processing,
    isOnly: boolean,
    onRoom: () => void,
  ) {
    this.#options = options;
    this.#branch = branch;
    this.#together = branch.consumer.batchesTogether ?? 1;
    this.#policy = new DeliveryPolicy(branch.name, options);
    this.#processing = processing;
    this.#isOnly = isOnly;
    this.#onRoom = onRoom;
    this.#unsubscribe = options.queue.onAvailable(branch.name, () => this.#fill());
  }

  get name(): string {
    return this.#branch.name;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  get isResting(): boolean {
    return this.#policy.restMs() > 0;
  }

  get hasRoom(): boolean {
    return this.#mayLease && this.#room > 0;
  }

  get #room(): number {
    const inPlaces = this.#inFlight.size - this.#sharing - (this.#beside === undefined ? 0 : 1);
    return this.#options.concurrency - inPlaces;
  }

  get #mayLease(): boolean {
    return !this.#isPaused && !this.#isStopped && this.#cancelRest === undefined;
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#fill();
  }

  /** Leases as many entries as there is room for; without room, one small entry of another project. */
  #fill(): void {
    if (this.#isLeasing) {
      this.#mayHaveMore = true;
      return;
    }
    if (!this.#mayLease) return;
    const room = this.#room;
    if (
      room <= 0 &&
      (this.#beside !== undefined || this.#options.queue.leaseOfIdle === undefined)
    ) {
      return;
    }
    this.#isLeasing = true;
    this.#mayHaveMore = false;
    this.#lease(room).then(
      (entries) => this.#leased(entries),
      (error: unknown) => {
        this.#isLeasing = false;
        this.#options.logger.error(
          { branch: this.#branch.name, err: error },
          'Queue could not be read; retried',
        );
        this.#rest(LEASE_RETRY_MS);
        if (this.#inFlight.size === 0) this.#onIdle?.();
      },
    );
  }

  /** The entries of a lease that was abandoned are delivered when it ends after all: no other process has them. */
  #lease(room: number): Promise<readonly QueueEntry[]> {
    const { name } = this.#branch;
    return this.#step(`lease in ${name}`, async (abandoned) => {
      const entries = await (room > 0 ? this.#leaseFor(name, room) : this.#leaseBeside());
      if (abandoned?.aborted) this.#beginLeased(entries);
      return entries;
    });
  }

  #leaseFor(name: string, room: number): Promise<readonly QueueEntry[]> {
    const { queue } = this.#options;
    return this.#together === 1
      ? queue.lease(name, room, LEASE_BYTES)
      : queue.lease(name, this.#together, TOGETHER_BYTES);
  }

  #beginLeased(entries: readonly QueueEntry[]): void {
    if (this.#together > 1) this.beginTogether(entries);
    else for (const entry of entries) void this.begin(entry);
  }

  async #leaseBeside(): Promise<readonly QueueEntry[]> {
    const entries = (await this.#options.queue.leaseOfIdle?.(this.name, SMALL_BODY_BYTES)) ?? [];
    [this.#beside] = entries;
    return entries;
  }

  /** Waits for a step of the queue within its bound, if the options have one. */
  #step<T>(wait: string, work: (abandoned?: AbortSignal) => Promise<T>): Promise<T> {
    const { bounds } = this.#options;
    return bounds === undefined ? work() : bounds.waits.step(wait, work);
  }

  #leased(entries: readonly QueueEntry[]): void {
    this.#isLeasing = false;
    if (entries.length > 0) this.#options.progress?.taken();
    this.#beginLeased(entries);
    if (entries.length === 0 && this.#inFlight.size === 0) this.#onIdle?.();
    if (entries.length > 0 || this.#mayHaveMore) this.#fill();
  }

  /** The entries take one place until the last of them ends. */
  beginTogether(entries: readonly QueueEntry[]): Promise<void>[] {
    let left = entries.length;
    this.#sharing += Math.max(0, left - 1);
    return entries.map((entry, i) => {
      const onEnd = (): void => {
        left--;
        if (left > 0) this.#sharing--;
      };
      return this.begin(entry, onEnd, i);
    });
  }

  /** Begins after so many turns of the event loop, because the processing of a batch takes some milliseconds of it. */
  async begin(entry: QueueEntry, onEnd = (): void => {}, turns = 0): Promise<void> {
    this.#inFlight.add(entry);
    try {
      for (let turn = 0; turn < turns; turn++) await nextTurn();
      await (this.#isStopped ? this.#return(entry) : this.#deliver(entry));
    } finally {
      this.#inFlight.delete(entry);
      onEnd();
      if (this.#beside === entry) this.#beside = undefined;
      if (this.#inFlight.size === 0) this.#onIdle?.();
      this.#fill();
      this.#onRoom();
    }
  }

  /** Never rejects: an entry whose outcome could not be saved is delivered again after a restart. */
  async #deliver(entry: QueueEntry): Promise<void> {
    const { queue } = this.#options;
    const { name, consumer } = this.#branch;
    // An attempt that was abandoned may still read the batch.
    const isOwn = this.#isOnly && consumer.keepsNothing === true && entry.attempts === 0;
    if (!isOwn) shareBatch(entry.batch);
    const outcome = await this.#policy.attempt({
      batchId: entry.batch.id,
      failures: entry.attempts,
      process: () => this.#processing.run(entry),
      isHeld: queue.isHeld && (async () => (await queue.isHeld?.(name, entry)) ?? true),
      consumer,
    });
    if (outcome.kind !== 'retry') this.#processing.ended(entry);
    // After a stop another loop may have the entry.
    if (outcome.kind === 'ack' && !this.#isStopped) freeBatch(entry.batch);
    const restMs = outcome.kind === 'retry' ? this.#policy.restMs() : 0;
    if (restMs > 0) this.#rest(restMs);
    if (outcome.kind === 'retry' && outcome.isTimeout) this.#options.progress?.abandoned();
    const { bounds, progress } = this.#options;
    const isWatched = bounds !== undefined || progress !== undefined;
    const saved = isWatched ? this.#saveWithin(entry, outcome) : this.#save(entry, outcome);
    // The next group commit of the queue saves an acknowledgement. A retry is already scheduled in memory, and a
    // full disk must not hold up the branch.
    if (outcome.kind === 'dead_letter' || outcome.kind === 'discard') await saved;
  }

  /** An outcome that takes longer than its bound is saved later: the queue repeats the write. */
  async #saveWithin(entry: QueueEntry, outcome: DeliveryOutcome): Promise<void> {
    try {
      await this.#step(`${outcome.kind} in ${this.#branch.name}`, () => this.#save(entry, outcome));
    } catch (error) {
      if (error instanceof WaitTimeout) return;
      throw error;
    }
    if (outcome.kind !== 'retry' || !outcome.isTimeout) this.#options.progress?.made();
  }

  async #save(entry: QueueEntry, outcome: DeliveryOutcome): Promise<void> {
    const { queue, logger } = this.#options;
    const { name } = this.#branch;
    try {
      switch (outcome.kind) {
        case 'ack':
          return await queue.ack(name, [entry], ACK_WITHIN_MS);
        case 'retry':
          return await queue.nack(name, entry, outcome.afterMs, outcome.reason);
        case 'dead_letter':
          return await queue.deadLetter(name, entry, outcome.reason);
        case 'discard':
          return await queue.discard(name, entry, outcome.reason);
        case 'lost':
          return;
      }
    } catch (error) {
      const fields = { branch: name, batch: entry.batch.id, outcome: outcome.kind, err: error };
      logger.warn(fields, 'Outcome of a delivery could not be saved');
    }
  }

  /** Leases nothing for a while; entries in flight go on. */
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
    if (this.#inFlight.size > 0 || this.#isLeasing) await this.#idleOr(deadline);
    await Promise.all([...this.#inFlight].map((entry) => this.#return(entry)));
  }

  #idleOr(deadline: AbortSignal): Promise<void> {
    if (deadline.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        deadline.removeEventListener('abort', done);
        resolve();
      };
      this.#onIdle = done;
      deadline.addEventListener('abort', done);
    });
  }

  /** Ends the lease explicitly, because the queue may outlive this loop (a reload). */
  async #return(entry: QueueEntry): Promise<void> {
    const { queue, logger } = this.#options;
    try {
      await queue.nack(this.#branch.name, entry, 0, 'the pipeline stopped');
    } catch (error) {
      const fields = { branch: this.#branch.name, batch: entry.batch.id, err: error };
      logger.warn(fields, 'Entry could not be returned to the queue');
    }
  }
}

/** Bounds of the results that are kept for slower branches. */
const MAX_REMEMBERED = 1024;
const MAX_REMEMBERED_BYTES = 32 * 1024 * 1024;
/** Bound of the processed entries that are known. */
const MAX_PROCESSED = 65_536;

type Remembered = {
  readonly result: Promise<Batch>;
  readonly bytes: number;
  /** An erasure may have cut items out of the batch since. */
  readonly items: number;
  left: number;
};

/**
 * Processes a batch once for all branches that keep pace with each other. For a branch that lags the batch is
 * processed again, because results are kept within small bounds.
 */
class Processing {
  readonly #process: DeliveryBranch['process'];
  /** By batch, oldest first. A database that took over may give another batch the `seq` of one that it never got. */
  readonly #results = new LruCache<string, Remembered>({
    maxEntries: MAX_REMEMBERED,
    maxWeight: MAX_REMEMBERED_BYTES,
    weightOf: ({ bytes }) => bytes,
  });
  #sharers = 1;
  /**
   * Processed entries, by batch, with the number of branches that have not ended them. A branch may never
   * end one: another process has its entry, or it lags by the whole bound.
   */
  readonly #processed = new LruCache<string, { left: number }>({ maxEntries: MAX_PROCESSED });

  constructor(process: DeliveryBranch['process']) {
    this.#process = process;
  }

  share(): void {
    this.#sharers++;
  }

  run(entry: QueueEntry): Promise<Batch> {
    if (this.#sharers === 1 || entry.attempts > 0) return this.#processOnce(entry);
    const known = this.#results.peek(entry.batch.id);
    if (known !== undefined && known.items === entry.batch.items) {
      known.left--;
      if (known.left === 0) this.#results.delete(entry.batch.id);
      return known.result;
    }
    const result = this.#processOnce(entry);
    // Twice, for the stored body and the inflated body with its index.
    const bytes = 2 * inflatedSizeHint(entry.batch.body, entry.batch.encoding);
    if (bytes <= MAX_REMEMBERED_BYTES) {
      const { items } = entry.batch;
      this.#results.set(entry.batch.id, { result, bytes, items, left: this.#sharers - 1 });
    }
    return result;
  }

  /** A branch has ended this entry and does not process it again. */
  ended(entry: QueueEntry): void {
    const known = this.#processed.peek(entry.batch.id);
    if (known === undefined) return;
    known.left--;
    if (known.left === 0) this.#processed.delete(entry.batch.id);
  }

  async #processOnce(entry: QueueEntry): Promise<Batch> {
    const isKnown = (): boolean => this.#processed.peek(entry.batch.id) !== undefined;
    const batch = await this.#process(entry.batch, isKnown());
    if (!isKnown()) this.#processed.set(entry.batch.id, { left: this.#sharers });
    return batch;
  }
}
