import { type Backoff, backoff } from '../../src/component/backoff.ts';
import type { Settings } from '../../src/component/component.ts';
import { PermanentError, RetryableError } from '../../src/model/errors.ts';
import { judgeResponse, type ResponseVerdict } from '../../src/otlp-client/response.ts';
import { openTransport, type Transport } from '../../src/otlp-client/transport.ts';
import type { OtlpHttpConfig } from './config.ts';
import type { OutgoingRequest } from './outgoing-request.ts';
import type { SendMetrics } from './telemetry.ts';

/** The answers of the destination to one request or its parts. It accepted every span that is not listed. */
export type SendResult = {
  /** The smallest known parts that the destination refuses permanently. */
  readonly refused: {
    readonly request: OutgoingRequest;
    readonly code: string;
    readonly message: string;
  }[];
  /** Spans of partial successes, which do not say which spans they are. */
  rejected: number;
  rejectedMessage: string;
};

/** The destination refuses all requests until an operator corrects a credential, a permission, an address or an encoding. */
export type HeldState = {
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly status: number;
  readonly message: string;
};

/** The final verdicts: a retry would not change them. */
type FinalVerdict = Exclude<ResponseVerdict, { kind: 'retry' | 'hold' }>;
type BrokenRequest = { readonly kind: 'broken'; readonly code: string; readonly message: string };

/** Without a queue a client waits for the destination: it is answered within this time. */
const DIRECT_ANSWER_MS = 10_000;
/** The default of `max_elapsed_time` without a queue; with a queue there is no limit. */
const DIRECT_ELAPSED_MS = 300_000;
const HOLD_LOG_INTERVAL_MS = 60_000;
/** A broken connection may only have been idle for too long, so the first retry comes soon. */
const BROKEN_CONNECTION_WAIT_MS = 100;

/**
 *   request ─▶ encode ─▶ pause ─▶ POST ─▶ verdict ─▶ delivered, partial success
 *               ▲                            ├─ 413: halves, each sent on its own
 *               └────── backoff, hold ───────┤
 *                                            └─ permanent: refused
 */
export class Sender {
  readonly #settings: Settings;
  readonly #config: OtlpHttpConfig;
  readonly #metrics: SendMetrics;
  readonly #isQueued: boolean;
  readonly #backoff: Backoff;
  /** Ends the waits for the next attempt. */
  readonly #wakers = new Set<() => void>();
  #isStopped = false;
  #transport: Transport | undefined;
  /** No request is sent before this instant, unless the clock is set back. */
  #pausedUntil = 0;
  /** The length of that pause. */
  #pauseMs = 0;
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

  /** The first failure since the last final answer; undefined if there was none. */
  get failingSince(): number | undefined {
    return this.#failingSince;
  }

  async open(): Promise<void> {
    this.#transport = await openTransport(this.#config);
  }

  /** Ends all waits; requests in flight may finish until `close`. */
  stopWaiting(): void {
    this.#isStopped = true;
    for (const wake of this.#wakers) wake();
  }

  async close(): Promise<void> {
    this.stopWaiting();
    const transport = this.#transport;
    this.#transport = undefined;
    await transport?.close();
  }

  /** Whether nothing reads the bytes of answered requests any more; see `Transport`. */
  isSent(): boolean {
    return this.#transport?.isSent() ?? false;
  }

  /** Resolves when the destination has answered for every span. Rejects with `RetryableError`. */
  send(request: OutgoingRequest): Promise<SendResult> {
    return this.#send(request, { refused: [], rejected: 0, rejectedMessage: '' });
  }

  /** Resolves with `result`, to which it adds the answers. */
  async #send(request: OutgoingRequest, result: SendResult): Promise<SendResult> {
    if (request.items === 0) return result;
    const verdict = await this.#untilAnswered(request);
    switch (verdict.kind) {
      case 'delivered':
        this.#metrics.sent(request.items);
        if (verdict.warning !== undefined) this.#warn(verdict.warning);
        return result;
      case 'partial':
        this.#metrics.sent(Math.max(0, request.items - verdict.rejected));
        this.#metrics.rejected(verdict.rejected);
        result.rejected += verdict.rejected;
        result.rejectedMessage ||= verdict.message;
        return result;
      case 'too_large': {
        const parts = request.halves();
        if (parts.length === 0) {
          result.refused.push({ request, code: 'too_large', message: verdict.message });
          return result;
        }
        this.#metrics.split();
        for (const part of parts) await this.#send(part, result);
        return result;
      }
      case 'permanent':
        result.refused.push({ request, code: verdict.code, message: verdict.message });
        return result;
    }
  }

  #warn(reason: string): void {
    this.#settings.logger.warn({ reason }, 'Destination accepted all spans with a warning');
  }

  async #untilAnswered(request: OutgoingRequest): Promise<FinalVerdict> {
    const startedAt = this.#settings.clock.now();
    const encoding = request.encode();
    const body = encoding instanceof Promise ? await encoding : encoding;
    for (let failures = 0; ; failures++) {
      if (this.#isStopped) throw shuttingDown();
      if (this.#pauseLeft() > 0) await this.#waitWhilePaused(startedAt);
      const verdict = await this.#attempt(body.bytes, body.headers);
      if (verdict.kind === 'broken') {
        this.#failed(verdict.code);
        const isFirst = failures === 0 && verdict.code === 'connection_failed';
        const wait = isFirst ? BROKEN_CONNECTION_WAIT_MS * Math.random() : this.#backoff(failures);
        await this.#waitBefore(wait, startedAt, verdict.code, verdict.message);
      } else if (verdict.kind === 'retry') {
        this.#failed('destination_unavailable');
        const wait = Math.max(this.#backoff(failures), verdict.retryAfterMs ?? 0);
        // Retry-After of one response holds back every request.
        if (verdict.retryAfterMs !== undefined) this.#pauseFor(verdict.retryAfterMs);
        await this.#waitBefore(wait, startedAt, 'destination_unavailable', verdict.message);
      } else if (verdict.kind === 'hold') {
        this.#hold(verdict);
        if (!this.#isQueued) throw refusesAll(verdict.message, this.#config);
        this.#pauseFor(this.#config.retry_on_failure.max_interval);
      } else {
        this.#succeeded();
        return verdict;
      }
    }
  }

  async #attempt(
    bytes: Buffer,
    headers: Readonly<Record<string, string>>,
  ): Promise<ResponseVerdict | BrokenRequest> {
    const { clock } = this.#settings;
    const transport = this.#transport;
    if (transport === undefined) throw shuttingDown();
    const pending = transport.send(bytes, headers);
    let isLate = false;
    const cancel = clock.after(this.#config.timeout, () => {
      isLate = true;
      pending.abort();
    });
    try {
      const response = await pending.response;
      this.#metrics.answered(response.status);
      const verdict = judgeResponse(response, this.#config, headers, clock.now());
      return verdict instanceof Promise ? await verdict : verdict;
    } catch (error) {
      if (this.#transport === undefined) throw shuttingDown();
      if (isLate) {
        const message = 'the destination did not answer within the timeout';
        return { kind: 'broken', code: 'destination_timeout', message };
      }
      return { kind: 'broken', code: 'connection_failed', message: reasonOf(error) };
    } finally {
      cancel();
    }
  }

  /** Waits until the next attempt; rejects if there is none within the time limit. */
  async #waitBefore(ms: number, startedAt: number, code: string, message: string): Promise<void> {
    const { enabled, max_elapsed_time } = this.#config.retry_on_failure;
    const elapsed = this.#settings.clock.now() - startedAt;
    if (this.#isQueued) {
      const limit = max_elapsed_time ?? 0;
      if (limit > 0 && elapsed + ms > limit) {
        const reason = `not delivered within max_elapsed_time; last failure: ${message}`;
        throw new PermanentError('retries_exhausted', reason);
      }
    } else {
      const limit = max_elapsed_time ?? DIRECT_ELAPSED_MS;
      const longest = limit === 0 ? DIRECT_ANSWER_MS : Math.min(DIRECT_ANSWER_MS, limit);
      if (!enabled || elapsed + ms > longest) {
        throw new RetryableError(code, message, { retryAfterMs: Math.max(1000, ms) });
      }
    }
    await this.#sleep(ms);
  }

  #failed(code: string): void {
    this.#metrics.retried(code);
    this.#failingSince ??= this.#settings.clock.now();
  }

  #pauseFor(ms: number): void {
    if (ms <= this.#pauseLeft()) return;
    this.#pauseMs = ms;
    this.#pausedUntil = this.#settings.clock.now() + ms;
  }

  /** A clock that is set back makes the pause begin again, and not longer. */
  #pauseLeft(): number {
    const now = this.#settings.clock.now();
    this.#pausedUntil = Math.min(this.#pausedUntil, now + this.#pauseMs);
    return this.#pausedUntil - now;
  }

  async #waitWhilePaused(startedAt: number): Promise<void> {
    const { clock } = this.#settings;
    for (let ms = this.#pauseLeft(); ms > 0; ms = this.#pauseLeft()) {
      if (!this.#isQueued && clock.now() - startedAt + ms > DIRECT_ANSWER_MS) {
        throw new RetryableError('destination_unavailable', 'the destination asks to wait', {
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
          this.#wakers.delete(wake);
          resolve();
        };
        const cancel = this.#settings.clock.after(ms, wake);
        this.#wakers.add(wake);
      });
    }
    if (this.#isStopped) throw shuttingDown();
  }

  /** Logs at once and then once a minute, because an operator has to act. */
  #hold({ status, message }: { status: number; message: string }): void {
    const { clock, logger } = this.#settings;
    const now = clock.now();
    this.#metrics.held(status);
    this.#held = { since: this.#held?.since ?? now, status, message };
    if (now - this.#holdLoggedAt < HOLD_LOG_INTERVAL_MS) return;
    this.#holdLoggedAt = now;
    logger.error(
      { status, reason: message, since: new Date(this.#held.since).toISOString() },
      'Destination refuses all requests; data is held until its configuration is corrected',
    );
  }

  #succeeded(): void {
    this.#failingSince = undefined;
    if (this.#held === undefined) return;
    this.#settings.logger.info({ status: this.#held.status }, 'Destination accepts data again');
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

/** The message of the system, without the request that it was about. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
