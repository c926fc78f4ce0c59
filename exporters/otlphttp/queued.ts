import type { Exporter, Settings } from '../../src/component/component.ts';
import type { RawBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { OtlpHttpConfig } from './config.ts';
import { eventsOf, type UnreadableItem } from './event.ts';
import { type Hold, MAX_HELD_EVENTS, OpenSpans, type Ready } from './open-spans.ts';
import { isOtlp, partOf, rawBatchOf } from './part.ts';
import { otlpPiece, spanPiece } from './piece.ts';
import { report } from './report.ts';
import type { Outcome, Sender } from './sender.ts';
import { DurableSendingQueue, type Slot } from './sending-queue.ts';

/** Answers when the queue has a batch; sends it from there. */
export class QueuedExporter implements Exporter {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #sender: Sender;
  readonly #queue: DurableSendingQueue;
  readonly #openSpans: OpenSpans;
  /** Spans whose time was up, on their way. */
  readonly #late = new Set<Promise<void>>();
  #unreport: (() => void) | undefined;

  constructor(settings: Settings, config: OtlpHttpConfig, storage: string, sender: Sender) {
    this.#settings = settings;
    this.#config = config;
    this.#sender = sender;
    this.#queue = new DurableSendingQueue({
      settings,
      config: { ...config.sending_queue, storage },
      held: MAX_HELD_EVENTS,
      deliver: (batch, slot) =>
        isOtlp(batch) ? this.#deliverOtlp(batch) : this.#deliverEvents(batch, slot),
    });
    this.#openSpans = new OpenSpans(settings.clock, config.open_span_timeout, () =>
      this.#sendDue(),
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

  async consume(batch: Parameters<Exporter['consume']>[0]): Promise<void> {
    await this.#queue.append(rawBatchOf(batch));
  }

  async shutdown(deadline: AbortSignal): Promise<void> {
    this.#unreport?.();
    this.#unreport = undefined;
    this.#sender.stopWaiting();
    this.#openSpans.clear();
    await this.#queue.close(deadline);
    await this.#sender.close();
    await Promise.all(this.#late);
  }

  async #deliverOtlp(batch: RawBatch): Promise<void> {
    await this.#settleOutcome(batch, await this.#sender.send(otlpPiece(batch, this.#config)));
  }

  /** Ends when every event of the batch has left; the slot is given back as soon as the rest only waits. */
  async #deliverEvents(batch: RawBatch, slot: Slot): Promise<void> {
    const { events, unreadable } = eventsOf(batch);
    const held = Promise.withResolvers<void>();
    // It may be told while nobody waits for it yet.
    held.promise.catch(() => undefined);
    const hold: Hold = {
      batch,
      left: 0,
      settle: (error) => (error === undefined ? held.resolve() : held.reject(error)),
    };
    const ready = this.#openSpans.take(events, hold);
    const isHeld = hold.left > 0;
    await this.#setAsideUnreadable(batch, unreadable);
    await this.#sendReady(batch, ready);
    if (!isHeld) return;
    slot.release();
    await held.promise;
  }

  async #sendReady(batch: RawBatch, ready: readonly Ready[]): Promise<void> {
    const groups = ready.map(({ events }) => events);
    let outcome: Outcome;
    try {
      outcome = await this.#sender.send(spanPiece(groups, this.#config));
    } catch (error) {
      for (const each of ready) this.#openSpans.restore(each);
      throw error;
    }
    // Starts whose finish was refused leave when their time is up, by themselves.
    const refused = new Set<unknown>(outcome.refused.flatMap(({ piece }) => piece.sources ?? []));
    for (const each of ready) {
      if (each.events.some((event) => refused.has(event))) this.#openSpans.restore(each);
      else this.#openSpans.settle(each);
    }
    await this.#settleOutcome(batch, outcome);
  }

  #sendDue(): void {
    for (const ready of this.#openSpans.due()) {
      const work = this.#sendLate(ready).finally(() => this.#late.delete(work));
      this.#late.add(work);
    }
  }

  async #sendLate(ready: Ready): Promise<void> {
    try {
      const outcome = await this.#sender.send(spanPiece([ready.events], this.#config));
      const [refused] = outcome.refused;
      const error =
        refused === undefined ? undefined : new PermanentError(refused.code, refused.message);
      this.#openSpans.settle(ready, error);
    } catch (error) {
      // At a stop the queue still has it.
      if (!(error instanceof RetryableError)) this.#openSpans.settle(ready, error);
    }
  }

  async #setAsideUnreadable(batch: RawBatch, unreadable: readonly UnreadableItem[]): Promise<void> {
    for (const { position, message } of unreadable) {
      if (itemsOf(batch) === 1) throw new PermanentError('unreadable_event', message);
      await this.#queue.appendPart(partOf(batch, [position]));
    }
  }

  /** What was refused goes back into the queue by itself, so that it alone ends in the dead letter. */
  async #settleOutcome(batch: RawBatch, outcome: Outcome): Promise<void> {
    const items = itemsOf(batch);
    for (const { piece, code, message } of outcome.refused) {
      const positions = piece.sources
        ?.filter((source) => source.batch.id === batch.id)
        .map(({ position }) => position);
      if (positions === undefined || positions.length === items) {
        throw new PermanentError(code, message);
      }
      if (positions.length === 0) continue;
      this.#settings.logger.warn(
        { batch: batch.id, items: positions.length, code, reason: message },
        'part of a batch is refused: it is set aside by itself',
      );
      await this.#queue.appendPart(partOf(batch, positions));
    }
    if (outcome.rejected === 0) return;
    const said = outcome.rejectedMessage === '' ? '' : `: ${outcome.rejectedMessage}`;
    throw new PermanentError(
      'partial_success',
      `the destination left out ${outcome.rejected} of ${items} spans${said}`,
    );
  }
}
