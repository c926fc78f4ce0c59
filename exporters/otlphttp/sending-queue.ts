import type { IdempotencyLedger, Settings } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { RetryableError } from '../../src/model/errors.ts';
import { type QueueDelivery, startDelivery } from '../../src/queue/delivery.ts';
import type { DurableQueue } from '../../src/queue/queue.ts';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { QUEUE_REGISTRY } from '../../src/queue/registry.ts';
import type { SendingQueue } from './delivery-fields.ts';

/** How often a client that waits for room looks for it. */
const ROOM_INTERVAL_MS = 50;
const FULL_RETRY_MS = 2000;
/** Of bodies that soon leave as they are: reading one back costs little. */
const CACHE_BYTES = 8 * 1024 * 1024;
/** Batches that are taken on the word of one look at the queue's numbers. */
const APPENDS_A_LOOK = 64;

export type SendingQueueParts = {
  readonly settings: Settings;
  readonly config: SendingQueue & { readonly storage: string };
  /** Entries that may be under way beside those that are being sent: they are only held. */
  readonly held: number;
  /** Resolves when the batch may go from the queue; see `startDelivery`. */
  readonly deliver: (batch: SealedBatch, slot: Slot) => Promise<void>;
};

/** One of the places for batches that are being sent. */
export type Slot = {
  /** What is left to do is waiting: another batch may be sent meanwhile. */
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
  /** Being appended, not yet among the queue's own numbers. */
  #entering = { requests: 0, items: 0 };
  /**
   * Units of the sizer that there was room for when it was last looked, less what came since. Looking costs,
   * so it is looked again when this is used up, and after some appends, because of what was replayed.
   */
  #room = 0;
  #appendsUntilLook = 0;
  /** Leased and not released: being sent, or waiting for a slot. */
  #active = 0;
  #sending = 0;
  readonly #waiting: (() => void)[] = [];
  #isStopped = false;
  /** Told when a batch is not being sent any more. */
  #onSent: (() => void) | undefined;

  constructor(parts: SendingQueueParts) {
    this.#parts = parts;
    this.idempotency = {
      claim: (tenant, key, requestHash) =>
        this.#opened().idempotency.claim(tenant, key, requestHash),
    };
  }

  get durable(): DurableQueue | undefined {
    return this.#queue;
  }

  async open(): Promise<DurableQueue> {
    const { settings, config, held } = this.#parts;
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
        concurrency: config.num_consumers + held,
        // Retries are the sender's; these are for what it hands back.
        initialInterval: 1000,
        maxInterval: 30_000,
      },
      [
        {
          name: id,
          process: (batch) => Promise.resolve(batch),
          consumer: { consume: (batch) => this.#deliver(batch as SealedBatch) },
        },
      ],
    );
    return queue;
  }

  async append(batch: SealedBatch): Promise<void> {
    const queue = this.#opened();
    const items = itemsOf(batch);
    const units = this.#unitsOf(batch);
    while (!this.#hasRoom(queue, units)) {
      if (!this.#parts.config.block_on_overflow || this.#isStopped) throw full();
      await new Promise<void>((resolve) => {
        this.#parts.settings.clock.after(ROOM_INTERVAL_MS, resolve);
      });
    }
    this.#room -= units;
    this.#entering.requests++;
    this.#entering.items += items;
    try {
      await queue.append(batch);
    } finally {
      this.#entering.requests--;
      this.#entering.items -= items;
    }
  }

  /** Puts a part of a batch that left into the queue by itself; what it holds has room already. */
  async appendPart(batch: SealedBatch): Promise<void> {
    this.#room -= this.#unitsOf(batch);
    await this.#opened().append(batch);
  }

  /** Waits for what is being sent until the deadline; what is held or waits stays in the queue. */
  async close(deadline: AbortSignal): Promise<void> {
    this.#isStopped = true;
    this.#unregister?.();
    this.#unregister = undefined;
    const delivery = this.#delivery;
    this.#delivery = undefined;
    if (delivery !== undefined) {
      const enough = new AbortController();
      const stopped = delivery.stop(enough.signal);
      await this.#sent(deadline);
      enough.abort();
      await stopped;
    }
    this.#queue = undefined;
  }

  /** Half full: what is only held should make room, before anybody is refused. */
  isPressed(): boolean {
    return (
      this.#queue !== undefined && this.#used(this.#queue) * 2 >= this.#parts.config.queue_size
    );
  }

  #hasRoom(queue: DurableQueue, units: number): boolean {
    const { sizer, queue_size } = this.#parts.config;
    // An entry may go over a bound in bytes by what the queue itself then refuses.
    const wanted = sizer === 'bytes' ? 1 : units;
    if (this.#room < wanted || this.#appendsUntilLook-- === 0) {
      this.#room = queue_size - this.#used(queue);
      this.#appendsUntilLook = APPENDS_A_LOOK;
    }
    return this.#room >= wanted;
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

  /** In units of the sizer. */
  #used(queue: DurableQueue): number {
    const stats = queue.stats();
    const branch = stats.branches.find((each) => each.branch === this.#parts.settings.id);
    switch (this.#parts.config.sizer) {
      case 'requests':
        return (branch?.entries ?? 0) + this.#entering.requests;
      case 'items':
        return (branch?.items ?? 0) + this.#entering.items;
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
      const next = this.#waiting.shift();
      if (next === undefined) this.#sending--;
      else next();
      this.#onSent?.();
      if (this.#active < this.#parts.config.num_consumers) this.#delivery?.resume();
    };
    await this.#slot();
    try {
      if (this.#isStopped) throw new RetryableError('shutting_down', 'it stays in the queue');
      await this.#parts.deliver(batch, { release });
    } finally {
      release();
    }
  }

  /** First come, first served: events of one observation are seen in the order they came in. */
  async #slot(): Promise<void> {
    if (this.#sending < this.#parts.config.num_consumers) {
      this.#sending++;
      return;
    }
    // Whoever leaves gives its place on.
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #sent(deadline: AbortSignal): Promise<void> {
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
      this.#onSent = () => {
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
