import type { Exporter, Settings } from '../../src/component/component.ts';
import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { hasItems } from '../../src/model/formats.ts';
import type { OtlpHttpConfig } from './config.ts';
import { createCutter } from './cutter.ts';
import { groupsOf } from './event.ts';
import { isOtlp, rawBatchOf } from './part.ts';
import { otlpPiece, type Piece, spanPiece } from './piece.ts';
import { createEventReader } from './reader.ts';
import { report } from './report.ts';
import type { Sender } from './sender.ts';

/** Answers when the destination has a batch. Nothing is held, because nobody would keep it. */
export class DirectExporter implements Exporter {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #sender: Sender;
  readonly #reader = createEventReader();
  readonly #cutter = createCutter();
  readonly #underWay = new Set<Promise<void>>();
  #isOpen = false;
  #unreport: (() => void) | undefined;

  constructor(settings: Settings, config: OtlpHttpConfig, sender: Sender) {
    this.#settings = settings;
    this.#config = config;
    this.#sender = sender;
  }

  async start(): Promise<void> {
    await this.#sender.open();
    this.#isOpen = true;
    this.#unreport = report(this.#settings, this.#config, undefined, this.#sender, undefined);
  }

  async consume(batch: Batch): Promise<void> {
    if (!this.#isOpen) throw new RetryableError('starting', `${this.#settings.id} is not open`);
    if (!hasItems(batch)) return;
    const work = this.#deliver(rawBatchOf(batch));
    this.#underWay.add(work);
    try {
      await work;
    } finally {
      this.#underWay.delete(work);
    }
  }

  async shutdown(deadline: AbortSignal): Promise<void> {
    this.#isOpen = false;
    this.#unreport?.();
    this.#unreport = undefined;
    this.#sender.stopWaiting();
    await endedOr(deadline, this.#underWay);
    await this.#sender.close();
    await Promise.allSettled(this.#underWay);
    await Promise.all([this.#reader.close(), this.#cutter.close()]);
  }

  async #deliver(batch: SealedBatch): Promise<void> {
    const outcome = await this.#sender.send(await this.#pieceOf(batch));
    const [refused] = outcome.refused;
    if (refused !== undefined) throw new PermanentError(refused.code, refused.message);
    if (outcome.rejected === 0) return;
    // Whoever sent it would send all of it again, which OTLP forbids.
    this.#settings.logger.warn(
      { batch: batch.id, rejected: outcome.rejected, reason: outcome.rejectedMessage },
      'the destination left spans out; without a queue there is no dead letter to keep them',
    );
  }

  async #pieceOf(batch: SealedBatch): Promise<Piece> {
    if (isOtlp(batch)) return otlpPiece(batch, this.#config, this.#cutter);
    const { events, unreadable } = await this.#reader.read(batch);
    const [first] = unreadable;
    if (first !== undefined) throw new PermanentError('unreadable_event', first.message);
    return spanPiece([...groupsOf(events).values()], this.#config);
  }
}

async function endedOr(deadline: AbortSignal, works: ReadonlySet<Promise<void>>): Promise<void> {
  if (deadline.aborted || works.size === 0) return;
  const aborted = Promise.withResolvers<void>();
  const onAbort = (): void => aborted.resolve();
  deadline.addEventListener('abort', onAbort, { once: true });
  await Promise.race([Promise.allSettled(works), aborted.promise]);
  deadline.removeEventListener('abort', onAbort);
}
