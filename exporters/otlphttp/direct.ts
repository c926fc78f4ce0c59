import type { Exporter, Settings } from '../../src/component/component.ts';
import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { hasItems } from '../../src/model/formats.ts';
import { BodyWorker } from './body-worker.ts';
import type { OtlpHttpConfig } from './config.ts';
import { groupsOf } from './observation-event.ts';
import {
  forwardRequest,
  isOtlp,
  type OutgoingRequest,
  sourceBatchOf,
  spanRequest,
} from './outgoing-request.ts';
import type { Sender } from './sender.ts';
import { report } from './telemetry.ts';

/** Answers when the destination has a batch. A start is sent at once, because there is no queue to keep it. */
export class DirectExporter implements Exporter {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #sender: Sender;
  readonly #worker = new BodyWorker();
  readonly #inFlight = new Set<Promise<void>>();
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
    const delivery = this.#deliver(sourceBatchOf(batch));
    this.#inFlight.add(delivery);
    try {
      await delivery;
    } finally {
      this.#inFlight.delete(delivery);
    }
  }

  async shutdown(deadline: AbortSignal): Promise<void> {
    this.#isOpen = false;
    this.#unreport?.();
    this.#unreport = undefined;
    this.#sender.stopWaiting();
    await settledOrAborted(this.#inFlight, deadline);
    await this.#sender.close();
    await Promise.allSettled(this.#inFlight);
    await this.#worker.close();
  }

  async #deliver(batch: SealedBatch): Promise<void> {
    const result = await this.#sender.send(await this.#requestOf(batch));
    const [refused] = result.refused;
    if (refused !== undefined) throw new PermanentError(refused.code, refused.message);
    if (result.rejected === 0) return;
    // An error would make the client send the whole batch again, which OTLP forbids.
    this.#settings.logger.warn(
      { batch: batch.id, rejected: result.rejected, reason: result.rejectedMessage },
      'Destination rejected spans; without a queue there is no dead letter to keep them',
    );
  }

  async #requestOf(batch: SealedBatch): Promise<OutgoingRequest> {
    if (isOtlp(batch)) return forwardRequest(batch, this.#config, this.#worker);
    const { events, unreadable } = await this.#worker.read(batch);
    const [first] = unreadable;
    if (first !== undefined) throw new PermanentError('unreadable_event', first.message);
    return spanRequest([...groupsOf(events).values()], this.#config, this.#worker);
  }
}

async function settledOrAborted(
  promises: ReadonlySet<Promise<void>>,
  deadline: AbortSignal,
): Promise<void> {
  if (deadline.aborted || promises.size === 0) return;
  const aborted = Promise.withResolvers<void>();
  const onAbort = (): void => aborted.resolve();
  deadline.addEventListener('abort', onAbort, { once: true });
  await Promise.race([Promise.allSettled(promises), aborted.promise]);
  deadline.removeEventListener('abort', onAbort);
}
