import { backoff } from '../../component/backoff.ts';
import type { Clock } from '../../component/component.ts';
import { requestBody } from '../../otlp-client/body.ts';
import { type ClientConfig, clientConfig } from '../../otlp-client/config.ts';
import { judgeResponse } from '../../otlp-client/response.ts';
import { type ClientResponse, openTransport, type Transport } from '../../otlp-client/transport.ts';
import type { RequestSender, SendRequest } from './pump.ts';
import type { Stop } from './stop.ts';
import type { Tally } from './tally.ts';

/** The server, and how requests reach it. */
export type SendDestination = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** `native` also covers runs, which have the same responses. */
  readonly protocol: 'otlp_proto' | 'otlp_json' | 'native';
  readonly compression: 'gzip' | 'zstd' | 'none';
  readonly connections: number;
  readonly caFile: string | undefined;
  /** Milliseconds for retries of a request, from its first failure. */
  readonly retryFor: number;
};

export type HttpSenderParts = {
  readonly tally: Tally;
  readonly stop: Stop;
  readonly clock: Clock;
  /** Reports spans that the server did not accept: the lines, and the reason. */
  readonly onTrouble: (message: string) => void;
};

const REQUEST_TIMEOUT_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;
const retryWait = backoff({ first: 500, max: LONGEST_WAIT_MS, factor: 1.5, jitter: [0.5, 1.5] });
/** A broken connection may only have been idle for too long, so the first retry comes soon. */
const BROKEN_CONNECTION_WAIT_MS = 100;

/**
 *   request ─▶ encode ─▶ pause ─▶ POST ─▶ accepted, in full or in part
 *               ▲                  │ ├─ 413: halves, each sent on its own
 *               │                  │ ├─ any other status: refused
 *               └──── backoff ─────┘ └─ 401, 403, or no success for too long: stop
 */
export class HttpSender implements RequestSender {
  readonly #destination: SendDestination;
  readonly #config: ClientConfig;
  readonly #parts: HttpSenderParts;
  #transport: Transport | undefined;
  /** No request is sent before this instant. */
  #pausedUntil = 0;

  constructor(destination: SendDestination, parts: HttpSenderParts) {
    this.#destination = destination;
    this.#config = configOf(destination);
    this.#parts = parts;
  }

  async open(): Promise<void> {
    this.#transport = await openTransport(this.#config);
  }

  async close(): Promise<void> {
    const transport = this.#transport;
    this.#transport = undefined;
    await transport?.close();
  }

  async send(request: SendRequest): Promise<boolean> {
    const verdict = await this.#untilAnswered(request);
    if (verdict === undefined) return false;
    const { tally } = this.#parts;
    switch (verdict.kind) {
      case 'accepted': {
        const rejected = Math.min(verdict.rejected, request.spans);
        tally.requests++;
        tally.accepted += request.spans - rejected;
        tally.rejected += rejected;
        if (rejected > 0) this.#report(request, `${rejected} rejected: ${verdict.message}`);
        else if (verdict.message !== '') {
          this.#report(request, `accepted with a warning: ${verdict.message}`);
        }
        return true;
      }
      case 'too_large': {
        const parts = request.halves();
        for (const part of parts) {
          if (!(await this.send(part))) return false;
        }
        if (parts.length === 0) this.#refuse(request, verdict.message);
        return true;
      }
      case 'refused':
        this.#refuse(request, verdict.message);
        return true;
    }
  }

  #refuse(request: SendRequest, message: string): void {
    this.#parts.tally.requests++;
    this.#parts.tally.refused += request.spans;
    this.#report(request, message);
  }

  #report({ name }: SendRequest, message: string): void {
    this.#parts.onTrouble(`${name}: ${message}`);
  }

  /** Retries until a final verdict; undefined if the run stopped before. */
  async #untilAnswered(request: SendRequest): Promise<FinalVerdict | undefined> {
    const { stop, tally, clock } = this.#parts;
    if (this.#isStopped()) return undefined;
    let encoded: Buffer;
    try {
      encoded = await request.encode();
    } catch (error) {
      return { kind: 'refused', message: `the request cannot be encoded: ${reasonOf(error)}` };
    }
    const format = this.#destination.protocol === 'otlp_proto' ? 'proto' : 'json';
    const body = await requestBody(encoded, 'identity', format, this.#config);
    let failingSince: number | undefined;
    for (let failures = 0; ; failures++) {
      await this.#pause();
      if (this.#isStopped()) return undefined;
      const verdict = await this.#attempt(body.bytes, body.headers);
      if (verdict.kind === 'unauthorized') {
        this.#stopUnauthorized(verdict.message);
        return undefined;
      }
      if (verdict.kind !== 'retry') {
        tally.trouble = undefined;
        return verdict;
      }
      failingSince ??= clock.now();
      const wait = this.#waitAfter(verdict, failures);
      if (clock.now() - failingSince + wait > this.#destination.retryFor) {
        this.#stopUnreachable(verdict.message, wait);
        return undefined;
      }
      tally.trouble = verdict.message;
      tally.retries++;
      await stop.sleep(wait);
    }
  }

  async #attempt(bytes: Buffer, headers: Readonly<Record<string, string>>): Promise<SendVerdict> {
    const { clock, tally } = this.#parts;
    const transport = this.#transport;
    if (transport === undefined) return { kind: 'retry', message: 'aborted', isBroken: true };
    const pending = transport.send(bytes, headers);
    tally.bytesSent += bytes.length;
    let isLate = false;
    const cancel = clock.after(REQUEST_TIMEOUT_MS, () => {
      isLate = true;
      pending.abort();
    });
    try {
      const response = await pending.response;
      return await this.#judge(response, headers);
    } catch (error) {
      const message = isLate ? 'no response within 60 s' : reasonOf(error);
      return { kind: 'retry', message, isBroken: !isLate };
    } finally {
      cancel();
    }
  }

  async #judge(
    response: ClientResponse,
    sent: Readonly<Record<string, string>>,
  ): Promise<SendVerdict> {
    const isSuccess = response.status >= 200 && response.status < 300;
    if (this.#destination.protocol === 'native' && isSuccess) return judgeEnvelope(response);
    const verdict = await judgeResponse(response, this.#config, sent, this.#parts.clock.now());
    switch (verdict.kind) {
      case 'delivered':
        return { kind: 'accepted', rejected: 0, message: verdict.warning ?? '' };
      case 'partial':
        return { kind: 'accepted', rejected: verdict.rejected, message: verdict.message };
      case 'retry':
        return verdict;
      case 'hold':
        // A key does not help against a success without an OTLP server.
        return { kind: isSuccess ? 'refused' : 'unauthorized', message: verdict.message };
      case 'too_large':
        return verdict;
      case 'permanent':
        return { kind: 'refused', message: verdict.message };
    }
  }

  #waitAfter({ retryAfterMs, isBroken }: RetryVerdict, failures: number): number {
    if (isBroken === true && failures === 0) return BROKEN_CONNECTION_WAIT_MS * Math.random();
    const wait = retryWait(failures);
    if (retryAfterMs === undefined) return wait;
    // Retry-After of one response holds back every request.
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#parts.clock.now() + retryAfterMs);
    return Math.max(wait, retryAfterMs);
  }

  /** Waits while requests are paused, or until the stop. */
  async #pause(): Promise<void> {
    const { stop, clock } = this.#parts;
    if (this.#isStopped()) return;
    for (let ms = this.#pausedUntil - clock.now(); ms > 0; ms = this.#pausedUntil - clock.now()) {
      await stop.sleep(ms);
      if (this.#isStopped()) return;
    }
  }

  #isStopped(): boolean {
    return this.#parts.stop.reason !== undefined;
  }

  #stopUnauthorized(message: string): void {
    const where = this.#shownUrl();
    const text = `${where}: ${message} (pass the key with --key or TRACECTL_KEY)`;
    this.#parts.stop.begin('unauthorized', text);
  }

  #stopUnreachable(message: string, wait: number): void {
    const { retryFor } = this.#destination;
    const isRequested = wait > retryFor && wait > LONGEST_WAIT_MS * 1.5;
    const reason = isRequested
      ? `the server asks to wait ${Math.ceil(wait / 1000)} s, longer than --retry-for`
      : `no success within --retry-for, ${retryFor / 1000} s`;
    this.#parts.stop.begin('unreachable', `${this.#shownUrl()}: ${message} (${reason})`);
  }

  /** Without the parts that may be secret. */
  #shownUrl(): string {
    const { origin, pathname } = new URL(this.#destination.url);
    return `${origin}${pathname}`;
  }
}

type FinalVerdict =
  | { readonly kind: 'accepted'; readonly rejected: number; readonly message: string }
  | { readonly kind: 'too_large' | 'refused'; readonly message: string };
type RetryVerdict = {
  readonly kind: 'retry';
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
  /** The server did not respond at all. */
  readonly isBroken?: boolean;
};
type SendVerdict =
  | FinalVerdict
  | RetryVerdict
  | { readonly kind: 'unauthorized'; readonly message: string };

/** A success of the native and run endpoints counts the rejected items and names their reasons. */
function judgeEnvelope({ body }: ClientResponse): FinalVerdict {
  try {
    const { rejected, results } = JSON.parse(body.toString()) as {
      rejected: number;
      results: { status: string; code?: string; reason?: string }[];
    };
    const first = results.find(({ status }) => status === 'rejected');
    const message = first === undefined ? '' : `${first.code}: ${first.reason}`;
    return { kind: 'accepted', rejected: Number.isSafeInteger(rejected) ? rejected : 0, message };
  } catch {
    return { kind: 'refused', message: 'the response is not that of a native or run endpoint' };
  }
}

function configOf(destination: SendDestination): ClientConfig {
  const { url, headers, compression, connections, caFile } = destination;
  return clientConfig.parse({
    traces_endpoint: url,
    headers,
    compression,
    max_conns_per_host: connections,
    timeout: `${REQUEST_TIMEOUT_MS}ms`,
    // A wrong address or compression is reported at once, because a person waits for the command.
    on_permanent_error: { 404: 'dead_letter', 415: 'dead_letter' },
    ...(caFile === undefined ? {} : { tls: { ca_file: caFile } }),
  });
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
