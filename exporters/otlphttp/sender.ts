import type { Backoff } from '../../src/component/backoff.ts';
import { backoff } from '../../src/component/backoff.ts';
import type { Settings } from '../../src/component/component.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import type { Transport } from '../../src/otlp-client/transport.ts';
import { openTransport } from '../../src/otlp-client/transport.ts';
import { type Verdict, verdictOn } from '../../src/otlp-client/verdict.ts';
import type { OtlpHttpConfig } from './config.ts';
import type { Piece } from './piece.ts';
import type { SendMetrics } from './send-metrics.ts';

/** What a destination did with what it was sent. What is not named here it has taken. */
export type Outcome = {
  /** Parts that it will never take, the smallest that are known. */
  readonly refused: { readonly piece: Piece; readonly code: string; readonly message: string }[];
  /** Spans that it said it left out, without saying which. */
  rejected: number;
  rejectedMessage: string;
};

/** Why nothing is sent: somebody has to mend a credential, a permission or an address. */
export type HeldState = {
  readonly since: number;
  readonly status: number;
  readonly message: string;
};

/** A client whose answer waits for the destination is answered within this. */
const REQUEST_PATIENCE_MS = 10_000;
/** A batch in a queue has been waiting anyhow: its retries end as `max_elapsed_time` says. */
const ELAPSED_WITHOUT_QUEUE_MS = 300_000;
const HOLD_LOG_INTERVAL_MS = 60_000;
/** A connection that broke may just have been idle for too long: the first retry comes soon. */
const BROKEN_CONNECTION_WAIT_MS = 100;

/**
 *   piece ─▶ encode ─▶ rest? ─▶ POST ─▶ verdict ─▶ delivered, partial success
 *              ▲                          ├─ 413: halves, each by itself
 *              └──── backoff, hold ───────┤
 *                                         └─ permanent: refused
 */
export class Sender {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #metrics: SendMetrics;
  readonly #isQueued: boolean;
  readonly #backoff: Backoff;
  /** Those who wait for their next try, to be woken when there is none any more. */
  readonly #sleepers = new Set<() => void>();
  #isStopped = false;
  #transport: Transport | undefined;
  /** Nothing is sent before this. */
  #restUntil = 0;
  #held: HeldState | undefined;
  #failingSince: number | undefined;
  #holdLoggedAt = Number.NEGATIVE_INFINITY;

  constructor(settings: Settings, config: OtlpHttpConfig, isQueued: boolean, metrics: SendMetrics) {
    this.#settings = settings;
    this.#config = config;
    this.#isQueued = isQueued;
    this.#metrics = metrics;
    const { initial_interval, max_interval, multiplier, randomization_factor } =
      config.retry_on_failure;
    this.#backoff = backoff({
      first: initial_interval,
      max: max_interval,
      factor: multiplier,
      jitter: [1 - randomization_factor, 1 + randomization_factor],
    });
  }

  get held(): HeldState | undefined {
    return this.#held;
  }

  /** Since when nothing but failures that may pass came back; undefined while it goes well. */
  get failingSince(): number | undefined {
    return this.#failingSince;
  }

  async open(): Promise<void> {
    this.#transport = await openTransport(this.#config);
  }

  /** Ends waits at once; requests under way may finish until the transport is closed. */
  stopWaiting(): void {
    this.#isStopped = true;
    for (const wake of this.#sleepers) wake();
  }

  async close(): Promise<void> {
    this.stopWaiting();
    const transport = this.#transport;
    this.#transport = undefined;
    await transport?.close();
  }

  /** Resolves when the destination has answered for everything. Rejects with `RetryableError`. */
  async send(piece: Piece): Promise<Outcome> {
    const outcome: Outcome = { refused: [], rejected: 0, rejectedMessage: '' };
    await this.#send(piece, outcome);
    return outcome;
  }

  async #send(piece: Piece, outcome: Outcome): Promise<void> {
    if (piece.items === 0) return;
    const verdict = await this.#untilAnswered(piece);
    switch (verdict.kind) {
      case 'delivered':
        this.#metrics.sent(piece.items);
        if (verdict.warning !== undefined) this.#warn({ message: verdict.warning });
        return;
      case 'partial':
        this.#metrics.sent(Math.max(0, piece.items - verdict.rejected));
        this.#metrics.rejected(verdict.rejected);
        outcome.rejected += verdict.rejected;
        outcome.rejectedMessage ||= verdict.message;
        return;
      case 'too_large': {
        const parts = piece.halves();
        if (parts.length === 0) {
          outcome.refused.push({ piece, code: 'too_large', message: verdict.message });
          return;
        }
        this.#metrics.split();
        for (const part of parts) await this.#send(part, outcome);
        return;
      }
      case 'permanent':
        outcome.refused.push({ piece, code: verdict.code, message: verdict.message });
        return;
    }
  }

  #warn(fields: object): void {
    this.#settings.logger.warn(fields, 'the destination took everything, with a warning');
  }

  /** Tries until there is an answer that more tries would not change. */
  async #untilAnswered(piece: Piece): Promise<Exclude<Verdict, { kind: 'retry' | 'hold' }>> {
    const { clock } = this.#settings;
    const startedAt = clock.now();
    const body = await piece.encode();
    for (let failures = 0; ; failures++) {
      await this.#rested(startedAt);
      const verdict = await this.#attempt(body.bytes, body.headers);
      if (verdict.kind === 'broken') {
        this.#failed(verdict.code);
        const isFirst = failures === 0 && verdict.code === 'connection_failed';
        const wait = isFirst ? BROKEN_CONNECTION_WAIT_MS * Math.random() : this.#backoff(failures);
        await this.#waitBefore(wait, startedAt, verdict.code, verdict.message);
      } else if (verdict.kind === 'retry') {
        this.#failed('destination_unavailable');
        const wait = Math.max(this.#backoff(failures), verdict.retryAfterMs ?? 0);
        // What it asks of one is meant for all.
        if (verdict.retryAfterMs !== undefined) this.#rest(verdict.retryAfterMs);
        await this.#waitBefore(wait, startedAt, 'destination_unavailable', verdict.message);
      } else if (verdict.kind === 'hold') {
        this.#hold(verdict);
        if (!this.#isQueued) throw refusesAll(verdict.message, this.#config);
        this.#rest(this.#config.retry_on_failure.max_interval);
      } else {
        this.#released();
        return verdict;
      }
    }
  }

  async #attempt(
    bytes: Buffer,
    headers: Readonly<Record<string, string>>,
  ): Promise<Verdict | { kind: 'broken'; code: string; message: string }> {
    const { clock } = this.#settings;
    const transport = this.#transport;
    if (transport === undefined) throw shuttingDown();
    const sending = transport.send(bytes, headers);
    let isLate = false;
    const cancel = clock.after(this.#config.timeout, () => {
      isLate = true;
      sending.abort();
    });
    try {
      const reply = await sending.reply;
      this.#metrics.answered(reply.status);
      return await verdictOn(reply, this.#config, clock.now());
    } catch (error) {
      if (this.#transport === undefined) throw shuttingDown();
      if (isLate) {
        return { kind: 'broken', code: 'destination_timeout', message: 'no answer in time' };
      }
      return { kind: 'broken', code: 'connection_failed', message: reasonOf(error) };
    } finally {
      cancel();
    }
  }

  /** Waits for the next try, or rejects where there is none. */
  async #waitBefore(ms: number, startedAt: number, code: string, message: string): Promise<void> {
    const { enabled, max_elapsed_time } = this.#config.retry_on_failure;
    const elapsed = this.#settings.clock.now() - startedAt;
    if (this.#isQueued) {
      const limit = max_elapsed_time ?? 0;
      if (limit > 0 && elapsed + ms > limit) {
        const tried = `not delivered within max_elapsed_time; at last: ${message}`;
        throw new PermanentError('retries_exhausted', tried);
      }
    } else {
      const limit = max_elapsed_time ?? ELAPSED_WITHOUT_QUEUE_MS;
      const patience = Math.min(
        REQUEST_PATIENCE_MS,
        limit === 0 ? Number.POSITIVE_INFINITY : limit,
      );
      if (!enabled || elapsed + ms > patience) {
        throw new RetryableError(code, message, { retryAfterMs: Math.max(1000, ms) });
      }
    }
    await this.#sleep(ms);
  }

  #failed(code: string): void {
    this.#metrics.retried(code);
    this.#failingSince ??= this.#settings.clock.now();
  }

  #rest(ms: number): void {
    this.#restUntil = Math.max(this.#restUntil, this.#settings.clock.now() + ms);
  }

  async #rested(startedAt: number): Promise<void> {
    if (this.#isStopped) throw shuttingDown();
    const { clock } = this.#settings;
    for (let ms = this.#restUntil - clock.now(); ms > 0; ms = this.#restUntil - clock.now()) {
      if (!this.#isQueued && clock.now() - startedAt + ms > REQUEST_PATIENCE_MS) {
        throw new RetryableError('destination_unavailable', 'it asked to wait', {
          retryAfterMs: ms,
        });
      }
      await this.#sleep(ms);
    }
  }

  async #sleep(ms: number): Promise<void> {
    if (!this.#isStopped) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          cancel();
          this.#sleepers.delete(wake);
          resolve();
        };
        const cancel = this.#settings.clock.after(ms, wake);
        this.#sleepers.add(wake);
      });
    }
    if (this.#isStopped) throw shuttingDown();
  }

  /** Said at once, and again once a minute: this needs a person. */
  #hold({ status, message }: { status: number; message: string }): void {
    const { clock, logger } = this.#settings;
    const now = clock.now();
    this.#metrics.held(status);
    this.#held = { since: this.#held?.since ?? now, status, message };
    if (now - this.#holdLoggedAt < HOLD_LOG_INTERVAL_MS) return;
    this.#holdLoggedAt = now;
    logger.error(
      { status, reason: message, since: new Date(this.#held.since).toISOString() },
      'the destination refuses us: nothing is sent until its key, permission or address is mended',
    );
  }

  #released(): void {
    this.#failingSince = undefined;
    if (this.#held === undefined) return;
    this.#settings.logger.info({ status: this.#held.status }, 'the destination takes data again');
    this.#held = undefined;
    this.#holdLoggedAt = Number.NEGATIVE_INFINITY;
  }
}

function refusesAll(message: string, config: OtlpHttpConfig): RetryableError {
  return new RetryableError('destination_holds', message, {
    retryAfterMs: config.retry_on_failure.max_interval,
  });
}

function shuttingDown(): RetryableError {
  return new RetryableError('shutting_down', 'the exporter is shutting down');
}

/** What the system says, without the request it was about. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
