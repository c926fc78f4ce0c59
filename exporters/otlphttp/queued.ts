import type { Exporter, Settings } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { shareBatch, withoutIndex } from '../../src/model/formats.ts';
import { BodyWorker } from './body-worker.ts';
import type { OtlpHttpConfig } from './config.ts';
import type { UnreadableEvent } from './observation-event.ts';
import { type BatchHold, MAX_HELD_EVENTS, OpenSpans, type ReadySpan } from './open-spans.ts';
import { forwardRequest, isOtlp, partOf, sourceBatchOf, spanRequest } from './outgoing-request.ts';
import type { Sender, SendResult } from './sender.ts';
import { DurableSendingQueue, type SendingSlot } from './sending-queue.ts';
import { report } from './telemetry.ts';

/** Overdue spans in one request. */
const OVERDUE_SPANS = 256;

/** Answers when the queue has a batch, and sends the batch from there. */
export class QueuedExporter implements Exporter {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #sender: Sender;
  readonly #queue: DurableSendingQueue;
  readonly #openSpans: OpenSpans;
  readonly #worker = new BodyWorker();
  /** The delivery of overdue spans, while it runs. */
  #sendingOverdue: Promise<void> | undefined;
  #unreport: (() => void) | undefined;

  constructor(settings: Settings, config: OtlpHttpConfig, storage: string, sender: Sender) {
    this.#settings = settings;
    this.#config = config;
    this.#sender = sender;
    this.#queue = new DurableSendingQueue({
      settings,
      config: { ...config.sending_queue, storage },
      maxHeldEntries: MAX_HELD_EVENTS,
      deliver: (batch, slot) =>
        isOtlp(batch) ? this.#deliverOtlp(batch) : this.#deliverEvents(batch, slot),
    });
    this.#openSpans = new OpenSpans(
      settings.clock,
      config.open_span_timeout,
      () => this.#sendOverdue(),
      () => this.#queue.isHalfFull(),
    );
  }

  get idempotency() {
    return this.#queue.idempotency;
  }

  async start(): Promise<void> {
    await this.#sender.open();
    const durable = await this.#queue.open();
    this.#unreport = report(this.#settings, this.#config, durable, this.#sender, this.#openSpans);
  }

  async consume(...[batch, request]: Parameters<Exporter['consume']>): Promise<void> {
    const source = sourceBatchOf(batch);
    // OTLP is sent as it arrived.
    await this.#queue.append(isOtlp(source) ? withoutIndex(source) : source, request);
  }

  async shutdown(deadline: AbortSignal): Promise<void> {
    this.#unreport?.();
    this.#unreport = undefined;
    this.#sender.stopWaiting();
    this.#openSpans.clear();
    await this.#queue.close(deadline);
    await this.#sender.close();
    await this.#sendingOverdue;
    await this.#worker.close();
  }

  async #deliverOtlp(batch: SealedBatch): Promise<void> {
    const result = await this.#sender.send(forwardRequest(batch, this.#config, this.#worker));
    if (result.refused.length > 0 || result.rejected > 0) await this.#settle(batch, result);
    // The destination may answer before it has read the whole request.
    if (!this.#sender.isSent()) shareBatch(batch);
  }

  /** Resolves when every event of the batch is sent; releases the slot once the other events only wait. */
  async #deliverEvents(batch: SealedBatch, slot: SendingSlot): Promise<void> {
    // Events that wait for later ones refer to their batch.
    shareBatch(batch);
    const read = this.#worker.read(batch);
    // Without an await for small batches, so that events are taken in the order of the queue.
    const { events, unreadable } = read instanceof Promise ? await read : read;
    const held = Promise.withResolvers<void>();
    // It may reject before the await below.
    held.promise.catch(() => undefined);
    const hold: BatchHold = {
      batch,
      left: 0,
      settle: (error) => (error === undefined ? held.resolve() : held.reject(error)),
    };
    const ready = this.#openSpans.take(events, hold);
    const isHeld = hold.left > 0;
    await this.#separateUnreadable(batch, unreadable);
    await this.#sendReady(batch, ready);
    if (!isHeld) return;
    slot.release();
    await held.promise;
  }

  async #sendReady(batch: SealedBatch, ready: readonly ReadySpan[]): Promise<void> {
    let result: SendResult;
    try {
      result = await this.#sendSpans(ready);
    } catch (error) {
      for (const each of ready) this.#openSpans.restore(each);
      throw error;
    }
    // A start whose finish was refused is sent without it, after open_span_timeout.
    const refused = new Set<unknown>(
      result.refused.flatMap(({ request }) => request.sources ?? []),
    );
    for (const each of ready) {
      if (each.events.some((event) => refused.has(event))) this.#openSpans.restore(each);
      else this.#openSpans.settle(each);
    }
    await this.#settle(batch, result);
  }

  #sendSpans(ready: readonly ReadySpan[]): Promise<SendResult> {
    const groups = ready.map(({ events }) => events);
    return this.#sender.send(spanRequest(groups, this.#config, this.#worker));
  }

  #sendOverdue(): void {
    this.#sendingOverdue ??= this.#sendAllOverdue().finally(() => {
      this.#sendingOverdue = undefined;
    });
  }

  /** Sends one request at a time, so that a backlog does not overload a destination that has just returned. */
  async #sendAllOverdue(): Promise<void> {
    for (let due = this.#openSpans.due(); due.length > 0; due = this.#openSpans.due()) {
      for (let first = 0; first < due.length; first += OVERDUE_SPANS) {
        if (!(await this.#sendOverdueSpans(due.slice(first, first + OVERDUE_SPANS)))) return;
      }
    }
  }

  /** False during a shutdown: the queue still has the spans that were not sent. */
  async #sendOverdueSpans(ready: readonly ReadySpan[]): Promise<boolean> {
    let result: SendResult;
    try {
      result = await this.#sendSpans(ready);
    } catch (error) {
      if (error instanceof RetryableError) return false;
      for (const each of ready) this.#openSpans.settle(each, error);
      return true;
    }
    const errors = new Map<unknown, PermanentError>();
    for (const { request, code, message } of result.refused) {
      const error = new PermanentError(code, message);
      for (const event of request.sources ?? []) errors.set(event, error);
    }
    for (const each of ready) {
      const [error] = each.events.flatMap((event) => errors.get(event) ?? []);
      this.#openSpans.settle(each, error ?? partialSuccess(result, ready.length));
    }
    return true;
  }

  async #separateUnreadable(
    batch: SealedBatch,
    unreadable: readonly UnreadableEvent[],
  ): Promise<void> {
    for (const { position, message } of unreadable) {
      if (itemsOf(batch) === 1) throw new PermanentError('unreadable_event', message);
      await this.#appendPart(batch, [position]);
    }
  }

  async #appendPart(batch: SealedBatch, positions: readonly number[]): Promise<void> {
    const bytes = await this.#worker.cut({ batch, keep: positions, encoding: undefined });
    await this.#queue.appendPart(partOf(batch, positions, bytes));
  }

  /** Appends refused items to the queue as batches of their own, so that only they become dead letters. */
  async #settle(batch: SealedBatch, result: SendResult): Promise<void> {
    const items = itemsOf(batch);
    for (const { request, code, message } of result.refused) {
      const positions = request.sources
        ?.filter((source) => source.batch.id === batch.id)
        .map(({ position }) => position);
      if (positions === undefined || positions.length === items) {
        throw new PermanentError(code, message);
      }
      if (positions.length === 0) continue;
      this.#settings.logger.warn(
        { batch: batch.id, items: positions.length, code, reason: message },
        'Destination refused part of a batch; the part is queued on its own',
      );
      await this.#appendPart(batch, positions);
    }
    const error = partialSuccess(result, items);
    if (error !== undefined) throw error;
  }
}

/** A partial success does not say which spans were rejected, so the dead letter keeps the whole batch. */
function partialSuccess(result: SendResult, items: number): PermanentError | undefined {
  if (result.rejected === 0) return undefined;
  const reason = result.rejectedMessage === '' ? '' : `: ${result.rejectedMessage}`;
  return new PermanentError(
    'partial_success',
    `the destination rejected ${result.rejected} of ${items} spans${reason}`,
  );
}
