import { pause } from '../../src/component/clock.ts';
import type { IdempotencyLedger, Settings } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { RequestContext } from '../../src/model/request-context.ts';
import { type QueueDelivery, startDelivery } from '../../src/queue/delivery.ts';
import type { DurableQueue } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { SendingQueueConfig } from './config.ts';

/** How often a client that waits for room checks the queue. */
const ROOM_INTERVAL_MS = 50;
const FULL_RETRY_MS = 2000;
/** Bodies are sent soon after the append, so a small cache saves most reads. */
const CACHE_BYTES = 16 * 1024 * 1024;
/** Appends between two reads of the queue's statistics. */
const APPENDS_PER_CHECK = 64;

export type SendingQueueParts = {
  readonly settings: Settings;
  readonly config: SendingQueueConfig & { readonly storage: string };
  /** Entries that may be leased without being sent, because they wait for later events. */
  readonly maxHeldEntries: number;
  /** Resolves when the batch may leave the queue; see `startDelivery`. A batch whose bytes are read after that has to be shared. */
  readonly deliver: (batch: SealedBatch, slot: SendingSlot) => Promise<void>;
};

/** One of `num_consumers` places for batches that are being sent. */
export type SendingSlot = {
  /** Lets another batch be sent while this one only waits. */
  release(): void;
};

/**
 *   consume ─▶ room? ─▶ append, synced ─▶ answer
 *                          │
 *                          └─ lease ─▶ slot (num_consumers) ─▶ deliver ─▶ ack, or dead letter
 */
export class DurableSendingQueue {
  readonly idempotency: IdempotencyLedger;
  readonly #parts: SendingQueueParts;
  #queue: DurableQueue | undefined;
  #delivery: QueueDelivery | undefined;
  #unregister: (() => void) | undefined;
  /** Batches that are being appended and are not in the queue's statistics yet. */
  #appending = { requests: 0, items: 0 };
  /**
   * Free units of the sizer at the last check, minus the appends since then. A check costs, so the next one
   * comes when the room is used up, or after some appends, because replayed dead letters take room too.
   */
  #room = 0;
  #appendsUntilCheck = 0;
  /** Leased batches that are sent or wait for a slot. */
  #active = 0;
  #sending = 0;
  readonly #slotWaiters: (() => void)[] = [];
  #isStopped = false;
  /** Called when a slot is released. */
  #onRelease: (() => void) | undefined;

  constructor(parts: SendingQueueParts) {
    this.#parts = parts;
    this.idempotency = {
      claim: (...request) => this.#opened().idempotency.claim(...request),
    };
  }

  get durable(): DurableQueue | undefined {
    return this.#queue;
  }

  async open(): Promise<DurableQueue> {
    const { settings, config, maxHeldEntries } = this.#parts;
    const { id, host, clock, logger } = settings;
    const storage = host.extension(config.storage, QUEUE_STORAGE);
    const maxBytes = config.sizer === 'bytes' ? config.queue_size : Number.MAX_SAFE_INTEGER;
    const queue = await storage.openQueue({
      name: id,
      branches: [id],
      maxBytes,
      cacheBytes: CACHE_BYTES,
    });
    this.#queue = queue;
    this.#unregister = host.service(QUEUE_REGISTRY).register(id, queue);
    this.#delivery = startDelivery(
      {
        queue,
        clock,
        logger,
        concurrency: config.num_consumers + maxHeldEntries,
        // The sender retries failed requests; these intervals are for batches that it gives up.
        initialInterval: 1000,
        maxInterval: 30_000,
      },
      [
        {
          name: id,
          process: (batch) => Promise.resolve(batch),
          consumer: {
            keepsNothing: true,
            consume: (batch) => this.#deliver(batch as SealedBatch),
          },
        },
      ],
    );
    return queue;
  }

  async append(batch: SealedBatch, request?: RequestContext): Promise<void> {
    const queue = this.#opened();
    const items = itemsOf(batch);
    const units = this.#unitsOf(batch);
    const { sizer, queue_size } = this.#parts.config;
    if (units > queue_size) {
      const message = `the batch has ${units} ${sizer}, and queue_size is ${queue_size}`;
      throw new PermanentError('too_large', message);
    }
    while (!this.#hasRoom(queue, units)) {
      if (!this.#parts.config.block_on_overflow || this.#isStopped) throw full();
      await pause(this.#parts.settings.clock, ROOM_INTERVAL_MS);
    }
    this.#room -= units;
    this.#appending.requests++;
    this.#appending.items += items;
    try {
      await queue.append(batch, request);
    } finally {
      this.#appending.requests--;
      this.#appending.items -= items;
    }
  }

  /** Appends a part of a batch that is leaving the queue; the part needs no further room. */
  async appendPart(batch: SealedBatch): Promise<void> {
    this.#room -= this.#unitsOf(batch);
    await this.#opened().append(batch);
  }

  /** Waits until the deadline for batches that are being sent; all others stay in the queue. */
  async close(deadline: AbortSignal): Promise<void> {
    this.#isStopped = true;
    this.#unregister?.();
    this.#unregister = undefined;
    const delivery = this.#delivery;
    this.#delivery = undefined;
    if (delivery !== undefined) {
      const stop = new AbortController();
      const stopped = delivery.stop(stop.signal);
      await this.#sendingFinished(deadline);
      stop.abort();
      await stopped;
    }
    this.#queue = undefined;
  }

  /** Held batches should leave when the queue is half full, before it refuses a request. */
  isHalfFull(): boolean {
    return (
      this.#queue !== undefined && this.#used(this.#queue) * 2 >= this.#parts.config.queue_size
    );
  }

  #hasRoom(queue: DurableQueue, units: number): boolean {
    const { sizer, queue_size } = this.#parts.config;
    // With the sizer bytes, the queue itself refuses a batch above its limit.
    const needed = sizer === 'bytes' ? 1 : units;
    if (this.#room < needed || this.#appendsUntilCheck-- === 0) {
      this.#room = queue_size - this.#used(queue);
      this.#appendsUntilCheck = APPENDS_PER_CHECK;
    }
    return this.#room >= needed;
  }

  #unitsOf(batch: SealedBatch): number {
    switch (this.#parts.config.sizer) {
      case 'requests':
        return 1;
      case 'items':
        return itemsOf(batch);
      case 'bytes':
        return batch.body.length;
    }
  }

  /** Units of the sizer in the queue. */
  #used(queue: DurableQueue): number {
    const stats = queue.stats();
    const branch = stats.branches.find((each) => each.branch === this.#parts.settings.id);
    switch (this.#parts.config.sizer) {
      case 'requests':
        return (branch?.entries ?? 0) + this.#appending.requests;
      case 'items':
        return (branch?.items ?? 0) + this.#appending.items;
      case 'bytes':
        return stats.bytes;
    }
  }

  #opened(): DurableQueue {
    if (this.#queue === undefined) {
      throw new RetryableError('starting', `${this.#parts.settings.id} is not open`);
    }
    return this.#queue;
  }

  async #deliver(batch: SealedBatch): Promise<void> {
    this.#active++;
    if (this.#active >= this.#parts.config.num_consumers) this.#delivery?.pause();
    let isReleased = false;
    const release = (): void => {
      if (isReleased) return;
      isReleased = true;
      this.#active--;
      const next = this.#slotWaiters.shift();
      if (next === undefined) this.#sending--;
      else next();
      this.#onRelease?.();
      if (this.#active < this.#parts.config.num_consumers) this.#delivery?.resume();
    };
    if (this.#sending < this.#parts.config.num_consumers) this.#sending++;
    else await this.#slotReleased();
    try {
      if (this.#isStopped)
        throw new RetryableError('shutting_down', 'the batch stays in the queue');
      await this.#parts.deliver(batch, { release });
    } finally {
      release();
    }
  }

  /**
   * Resolves when a batch that releases its slot has passed it on. First come, first served, so that events of one observation keep
   * their order.
   */
  #slotReleased(): Promise<void> {
    return new Promise<void>((resolve) => this.#slotWaiters.push(resolve));
  }

  #sendingFinished(deadline: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        deadline.removeEventListener('abort', done);
        resolve();
      };
      if (deadline.aborted || this.#sending === 0) {
        done();
        return;
      }
      deadline.addEventListener('abort', done, { once: true });
      this.#onRelease = () => {
        if (this.#sending === 0) done();
      };
    });
  }
}

function full(): RetryableError {
  return new RetryableError('queue_full', 'the sending queue is full', {
    retryAfterMs: FULL_RETRY_MS,
  });
}
