import type { Backoff } from '../component/backoff.ts';
import { backoff } from '../component/backoff.ts';
import type { Clock, Consumer, Logger } from '../component/component.ts';
import type { Waits } from '../component/waits.ts';
import { WaitTimeout } from '../component/waits.ts';
import type { Batch, ItemFailure } from '../model/batch.ts';
import { PermanentError, RetryableError } from '../model/errors.ts';
import { hasItems } from '../model/formats.ts';
import type { DeadLetterReason, DropReason } from './queue.ts';

/** Bounds of deliveries, for a queue whose process ends itself if deliveries come to a standstill. */
type DeliveryBounds = {
  readonly waits: Waits;
  /** Milliseconds until an attempt is abandoned and retried. */
  readonly attemptTimeout: number;
};

export type DeliveryPolicyOptions = {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Batches of one branch in delivery at the same time. */
  readonly concurrency: number;
  /** Milliseconds before the first retry; each further wait is twice as long, up to `maxInterval`. */
  readonly initialInterval: number;
  readonly maxInterval: number;
  /** From 0 to 1; spreads retries. */
  readonly random?: () => number;
  /** Without it, an attempt takes as long as its consumer does. */
  readonly bounds?: DeliveryBounds | undefined;
};

/** The queue's next step with a batch after an attempt to deliver it. */
export type DeliveryOutcome =
  | { readonly kind: 'ack' }
  | {
      readonly kind: 'retry';
      readonly afterMs: number;
      readonly reason: string;
      /** The attempt did not end within its bound. */
      readonly isTimeout: boolean;
    }
  | { readonly kind: 'dead_letter'; readonly reason: DeadLetterReason }
  | { readonly kind: 'discard'; readonly reason: DropReason }
  /** Another process has the batch; nothing was delivered. */
  | { readonly kind: 'lost' };

type DeliveryAttempt = {
  readonly batchId: string;
  /** Attempts that failed before this one. */
  readonly failures: number;
  readonly process: () => Promise<Batch>;
  /** Whether this process still may deliver the batch; undefined if no other process can. */
  readonly isHeld: (() => Promise<boolean>) | undefined;
  readonly consumer: Consumer;
};

/** Characters of a dead letter's message. */
const MAX_MESSAGE = 1000;

/**
 * The rules of delivery to one branch, for every kind of queue:
 *
 *   process ─▶ consume ─▶ ack, or dead letter if some items are undeliverable
 *      │          │ PermanentError: dead letter; discard if the project was deleted
 *      └──────────┴ any other error: retry after a backoff, without a limit
 *
 * When as many deliveries fail in a row as may be in delivery at the same time, the branch rests: its backlog is
 * not tried batch by batch against a destination that is away.
 */
export class DeliveryPolicy {
  readonly #branch: string;
  readonly #options: DeliveryPolicyOptions;
  readonly #backoff: Backoff;
  /** Failed attempts of any batch since the last success. */
  #failuresInRow = 0;
  #rest: { readonly since: number; readonly ms: number } | undefined;

  constructor(branch: string, options: DeliveryPolicyOptions) {
    this.#branch = branch;
    this.#options = options;
    const { initialInterval: first, maxInterval: max, random = Math.random } = options;
    this.#backoff = backoff({ first, max, jitter: [0.5, 1], random });
  }

  /** Milliseconds until the branch takes further batches; 0 if it does not rest. */
  restMs(): number {
    if (this.#rest === undefined) return 0;
    const { since, ms } = this.#rest;
    const rested = this.#options.clock.now() - since;
    // A clock that goes back ends the rest: how long it has lasted is unknown.
    return rested < 0 ? 0 : Math.max(0, ms - rested);
  }

  /** Makes one attempt; never rejects. */
  async attempt(attempt: DeliveryAttempt): Promise<DeliveryOutcome> {
    try {
      const failures = await this.#deliver(attempt);
      if (failures === undefined) return this.#lost(attempt);
      this.#failuresInRow = 0;
      this.#rest = undefined;
      return failures.length === 0 ? { kind: 'ack' } : this.#undeliverableItems(attempt, failures);
    } catch (error) {
      return this.#failed(attempt, error);
    }
  }

  #lost({ batchId }: DeliveryAttempt): DeliveryOutcome {
    const fields = { branch: this.#branch, batch: batchId };
    this.#options.logger.info(fields, 'Lease lost; another process delivers the batch');
    return { kind: 'lost' };
  }

  /** Undefined if another process has the batch. */
  #deliver(attempt: DeliveryAttempt): Promise<readonly ItemFailure[] | undefined> {
    const { bounds } = this.#options;
    if (bounds === undefined) return deliverOnce(attempt);
    const wait = `delivery to ${this.#branch}`;
    return bounds.waits.within(wait, bounds.attemptTimeout, () => deliverOnce(attempt));
  }

  /** The entry's other items are delivered. A replay of the entry writes their rows again, unchanged. */
  #undeliverableItems(
    { batchId }: DeliveryAttempt,
    failures: readonly ItemFailure[],
  ): DeliveryOutcome {
    const fields = { branch: this.#branch, batch: batchId, items: failures.length };
    this.#options.logger.error(fields, 'Items cannot be delivered; kept as a dead letter');
    return { kind: 'dead_letter', reason: reasonOf(failures) };
  }

  #failed({ batchId, failures }: DeliveryAttempt, error: unknown): DeliveryOutcome {
    const { logger } = this.#options;
    const message = error instanceof Error ? error.message : String(error);
    const fields = { branch: this.#branch, batch: batchId, attempts: failures + 1, err: error };
    if (error instanceof PermanentError) {
      if (error.code === 'project_deleted') return { kind: 'discard', reason: 'project_deleted' };
      logger.error(fields, 'Batch cannot be delivered; kept as a dead letter');
      return { kind: 'dead_letter', reason: { code: error.code, message: shortened(message) } };
    }
    const asked = error instanceof RetryableError ? (error.retryAfterMs ?? 0) : 0;
    const afterMs = Math.max(asked, this.#backoff(failures));
    logger.warn({ ...fields, delayMs: afterMs }, 'Delivery failed; retried after the delay');
    const isTimeout = error instanceof WaitTimeout;
    // A consumer that never answers delays the backlog enough, and a rest would hide that nothing ends.
    if (!isTimeout) this.#countFailure();
    return { kind: 'retry', afterMs, reason: message, isTimeout };
  }

  #countFailure(): void {
    this.#failuresInRow++;
    const { clock, concurrency } = this.#options;
    const beyond = this.#failuresInRow - concurrency;
    if (beyond >= 0) this.#rest = { since: clock.now(), ms: this.#backoff(beyond) };
  }
}

/**
 * Resolves with the undeliverable items: those that could not be read and those that the consumer rejected for
 * good. Undefined if another process has the batch. Rejects if no item was delivered.
 */
async function deliverOnce({
  process,
  isHeld,
  consumer,
}: DeliveryAttempt): Promise<readonly ItemFailure[] | undefined> {
  const batch = await process();
  if (isHeld !== undefined && !(await isHeld())) return undefined;
  const unreadable = (batch.kind === 'observations' ? batch.failures : undefined) ?? [];
  if (!hasItems(batch)) return unreadable;
  try {
    await consumer.consume(batch);
    return unreadable;
  } catch (error) {
    if (!(error instanceof PermanentError) || error.failures === undefined) throw error;
    return [...unreadable, ...error.failures];
  }
}

function reasonOf(failures: readonly ItemFailure[]): DeadLetterReason {
  const message = failures.map(({ index, message }) => `item ${index}: ${message}`).join('; ');
  const code = failures[0]?.code ?? 'invalid_item';
  return { code, message: shortened(message), items: failures.length };
}

function shortened(message: string): string {
  return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
}
