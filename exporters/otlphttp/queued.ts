import type { Exporter, Settings } from '../../src/component/component.ts';
import type { SealedBatch } from '../../src/model/batch.ts';
import { itemsOf } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { OtlpHttpConfig } from './config.ts';
import { createCutter } from './cutter.ts';
import type { UnreadableItem } from './event.ts';
import { type Hold, MAX_HELD_EVENTS, OpenSpans, type Ready } from './open-spans.ts';
import { isOtlp, partOf, rawBatchOf } from './part.ts';
import { otlpPiece, spanPiece } from './piece.ts';
import { createEventReader } from './reader.ts';
import { report } from './report.ts';
import type { Outcome, Sender } from './sender.ts';
import { DurableSendingQueue, type Slot } from './sending-queue.ts';

/** Spans whose time is up that leave in one request. */
const LATE_SPANS = 256;

/** Answers when the queue has a batch; sends it from there. */
export class QueuedExporter implements Exporter {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #sender: Sender;
  readonly #queue: DurableSendingQueue;
  readonly #openSpans: OpenSpans;
  readonly #reader = createEventReader();
  readonly #cutter = createCutter();
  /** Spans whose time is up, on their way. */
  #late: Promise<void> | undefined;
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
    this.#openSpans = new OpenSpans(
      settings.clock,
      config.open_span_timeout,
      () => this.#sendDue(),
      () => this.#queue.isPressed(),
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
    const raw = rawBatchOf(batch);
    // OTLP leaves as it came: what it was inflated to would only fill the memory until it is delivered.
    await this.#queue.append(isOtlp(raw) ? { ...raw } : raw);
  }

  async shutdown(deadline: AbortSignal): Promise<void> {
    this.#unreport?.();
    this.#unreport = undefined;
    this.#sender.stopWaiting();
    this.#openSpans.clear();
    await this.#queue.close(deadline);
    await this.#sender.close();
    await this.#late;
    await Promise.all([this.#reader.close(), this.#cutter.close()]);
  }

  async #deliverOtlp(batch: SealedBatch): Promise<void> {
    const piece = otlpPiece(batch, this.#config, this.#cutter);
    await this.#settleOutcome(batch, await this.#sender.send(piece));
  }

  /** Ends when every event of the batch has left; the slot is given back as soon as the rest only waits. */
  async #deliverEvents(batch: SealedBatch, slot: Slot): Promise<void> {
    const read = this.#reader.read(batch);
    const { events, unreadable } = read instanceof Promise ? await read : read;
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

  async #sendReady(batch: SealedBatch, ready: readonly Ready[]): Promise<void> {
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
    this.#late ??= this.#sendAllDue().finally(() => {
      this.#late = undefined;
    });
  }

  /** One request after the other, however much is due: a destination that is away is not besieged. */
  async #sendAllDue(): Promise<void> {
    for (let due = this.#openSpans.due(); due.length > 0; due = this.#openSpans.due()) {
      for (let first = 0; first < due.length; first += LATE_SPANS) {
        if (!(await this.#sendLate(due.slice(first, first + LATE_SPANS)))) return;
      }
    }
  }

  /** False at a stop: the queue still has what was not sent. */
  async #sendLate(ready: readonly Ready[]): Promise<boolean> {
    const groups = ready.map(({ events }) => events);
    let outcome: Outcome;
    try {
      outcome = await this.#sender.send(spanPiece(groups, this.#config));
    } catch (error) {
      if (error instanceof RetryableError) return false;
      for (const each of ready) this.#openSpans.settle(each, error);
      return true;
    }
    const errors = new Map<unknown, PermanentError>();
    for (const { piece, code, message } of outcome.refused) {
      for (const event of piece.sources ?? []) errors.set(event, new PermanentError(code, message));
    }
    for (const each of ready) {
      const [error] = each.events.flatMap((event) => errors.get(event) ?? []);
      this.#openSpans.settle(each, error ?? partialSuccess(outcome, ready.length));
    }
    return true;
  }

  async #setAsideUnreadable(
    batch: SealedBatch,
    unreadable: readonly UnreadableItem[],
  ): Promise<void> {
    for (const { position, message } of unreadable) {
      if (itemsOf(batch) === 1) throw new PermanentError('unreadable_event', message);
      await this.#appendPart(batch, [position]);
    }
  }

  async #appendPart(batch: SealedBatch, positions: readonly number[]): Promise<void> {
    const bytes = await this.#cutter.cut({ batch, keep: positions, encoding: undefined });
    await this.#queue.appendPart(partOf(batch, positions, bytes));
  }

  /** What was refused goes back into the queue by itself, so that it alone ends in the dead letter. */
  async #settleOutcome(batch: SealedBatch, outcome: Outcome): Promise<void> {
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
      await this.#appendPart(batch, positions);
    }
    const left = partialSuccess(outcome, items);
    if (left !== undefined) throw left;
  }
}

/** Nobody knows which they are: all that went with them is kept. */
function partialSuccess(outcome: Outcome, items: number): PermanentError | undefined {
  if (outcome.rejected === 0) return undefined;
  const said = outcome.rejectedMessage === '' ? '' : `: ${outcome.rejectedMessage}`;
  return new PermanentError(
    'partial_success',
    `the destination left out ${outcome.rejected} of ${items} spans${said}`,
  );
}
