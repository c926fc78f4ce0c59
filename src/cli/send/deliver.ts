import { requestBody } from '../../otlp-client/body.ts';
import { type ClientConfig, clientConfig } from '../../otlp-client/config.ts';
import { judgeResponse } from '../../otlp-client/response.ts';
import { type ClientResponse, openTransport, type Transport } from '../../otlp-client/transport.ts';
import type { Piece } from './piece.ts';
import type { Delivery } from './pump.ts';
import type { Stop } from './stop.ts';
import type { Tally } from './tally.ts';

/** Where it goes and how. */
export type Destination = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** `native` stands for runs too, whose answers are the same. */
  readonly protocol: 'otlp_proto' | 'otlp_json' | 'native';
  readonly compression: 'gzip' | 'zstd' | 'none';
  readonly connections: number;
  readonly caFile: string | undefined;
  /** Milliseconds from a request's first failure on. */
  readonly retryFor: number;
};

/** Told of what was not taken: where it stands, and why. */
export type OnTrouble = (message: string) => void;

export const REQUEST_TIMEOUT_MS = 60_000;
const FIRST_WAIT_MS = 500;
const WAIT_FACTOR = 1.5;
const LONGEST_WAIT_MS = 30_000;
/** A connection that broke may just have been idle for too long: the first retry comes soon. */
const BROKEN_CONNECTION_WAIT_MS = 100;

/**
 *   piece ─▶ encode ─▶ rest? ─▶ POST ─▶ taken, in whole or in part
 *              ▲                  │ ├─ 413: halves, each by itself
 *              │                  │ ├─ any other answer: refused
 *              └── backoff ───────┘ └─ 401, 403, or too long without success: the end
 */
export class Deliverer implements Delivery {
  readonly #destination: Destination;
  readonly #config: ClientConfig;
  readonly #tally: Tally;
  readonly #stop: Stop;
  readonly #onTrouble: OnTrouble;
  #transport: Transport | undefined;
  /** Nothing is sent before this. */
  #restUntil = 0;

  constructor(destination: Destination, tally: Tally, stop: Stop, onTrouble: OnTrouble) {
    this.#destination = destination;
    this.#config = configOf(destination);
    this.#tally = tally;
    this.#stop = stop;
    this.#onTrouble = onTrouble;
  }

  async open(): Promise<void> {
    this.#transport = await openTransport(this.#config);
  }

  async close(): Promise<void> {
    const transport = this.#transport;
    this.#transport = undefined;
    await transport?.close();
  }

  async deliver(piece: Piece): Promise<boolean> {
    const verdict = await this.#untilAnswered(piece);
    if (verdict === undefined) return false;
    const tally = this.#tally;
    switch (verdict.kind) {
      case 'taken': {
        const rejected = Math.min(verdict.rejected, piece.spans);
        tally.requests++;
        tally.accepted += piece.spans - rejected;
        tally.rejected += rejected;
        if (rejected > 0) this.#report(piece, `${rejected} rejected: ${verdict.message}`);
        else if (verdict.message !== '') this.#report(piece, `taken, with: ${verdict.message}`);
        return true;
      }
      case 'too_large': {
        const parts = piece.halves();
        for (const part of parts) {
          if (!(await this.deliver(part))) return false;
        }
        if (parts.length === 0) this.#refuse(piece, verdict.message);
        return true;
      }
      case 'refused':
        this.#refuse(piece, verdict.message);
        return true;
    }
  }

  #refuse(piece: Piece, message: string): void {
    this.#tally.requests++;
    this.#tally.refused += piece.spans;
    this.#report(piece, message);
  }

  #report({ name }: Piece, message: string): void {
    this.#onTrouble(`${name}: ${message}`);
  }

  /** Tries until there is an answer that more tries would not change; undefined at the end. */
  async #untilAnswered(piece: Piece): Promise<Final | undefined> {
    if (this.#stop.reason !== undefined) return undefined;
    const { protocol } = this.#destination;
    let encoded: Buffer;
    try {
      encoded = await piece.encode();
    } catch (error) {
      return { kind: 'refused', message: `it cannot be encoded: ${reasonOf(error)}` };
    }
    const format = protocol === 'otlp_proto' ? 'proto' : 'json';
    const body = await requestBody(encoded, 'identity', format, this.#config);
    let failingSince: number | undefined;
    for (let failures = 0; ; failures++) {
      await this.#rested();
      if (this.#stop.reason !== undefined) return undefined;
      const verdict = await this.#attempt(body.bytes, body.headers);
      if (verdict.kind !== 'retry') {
        if (verdict.kind === 'unauthorized') this.#refuseAll(verdict.message);
        else this.#tally.trouble = undefined;
        return verdict.kind === 'unauthorized' ? undefined : verdict;
      }
      failingSince ??= Date.now();
      const wait = this.#waitAfter(verdict, failures);
      if (Date.now() - failingSince + wait > this.#destination.retryFor) {
        this.#giveUp(verdict.message, wait);
        return undefined;
      }
      this.#tally.trouble = verdict.message;
      this.#tally.retries++;
      await this.#stop.sleep(wait);
    }
  }

  async #attempt(bytes: Buffer, headers: Readonly<Record<string, string>>): Promise<Verdict> {
    const transport = this.#transport;
    if (transport === undefined) return { kind: 'retry', message: 'broken off', isBroken: true };
    const sending = transport.send(bytes, headers);
    this.#tally.bytesSent += bytes.length;
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      sending.abort();
    }, REQUEST_TIMEOUT_MS);
    try {
      return await judge(await sending.response, this.#destination, this.#config);
    } catch (error) {
      const message = isLate ? 'no answer in time' : reasonOf(error);
      return { kind: 'retry', message, isBroken: !isLate };
    } finally {
      clearTimeout(timer);
    }
  }

  #waitAfter({ retryAfterMs, isBroken }: Retry, failures: number): number {
    if (isBroken === true && failures === 0) return BROKEN_CONNECTION_WAIT_MS * Math.random();
    const grown = FIRST_WAIT_MS * WAIT_FACTOR ** Math.min(failures, 100);
    const wait = Math.min(grown, LONGEST_WAIT_MS) * (0.5 + Math.random());
    if (retryAfterMs === undefined) return wait;
    // What it asks of one is meant for all.
    this.#restUntil = Math.max(this.#restUntil, Date.now() + retryAfterMs);
    return Math.max(wait, retryAfterMs);
  }

  async #rested(): Promise<void> {
    const { reason } = this.#stop;
    if (reason !== undefined) return;
    for (let ms = this.#restUntil - Date.now(); ms > 0; ms = this.#restUntil - Date.now()) {
      await this.#stop.sleep(ms);
      if (this.#stop.reason !== undefined) return;
    }
  }

  #refuseAll(message: string): void {
    const where = this.#shownUrl();
    const text = `${where}: ${message} (the key is given with --key or TRACECTL_KEY)`;
    this.#stop.begin('unauthorized', text);
  }

  #giveUp(message: string, wait: number): void {
    const { retryFor } = this.#destination;
    const isAsked = wait > retryFor && wait > LONGEST_WAIT_MS * 1.5;
    const why = isAsked
      ? `it asks to wait for ${Math.ceil(wait / 1000)} s, longer than --retry-for`
      : `not taken within --retry-for, ${retryFor / 1000} s`;
    this.#stop.begin('unreachable', `${this.#shownUrl()}: ${message} (${why})`);
  }

  /** Without what may be secret in it. */
  #shownUrl(): string {
    const { origin, pathname } = new URL(this.#destination.url);
    return `${origin}${pathname}`;
  }
}

type Final =
  | { readonly kind: 'taken'; readonly rejected: number; readonly message: string }
  | { readonly kind: 'too_large' | 'refused'; readonly message: string };
type Retry = {
  readonly kind: 'retry';
  readonly message: string;
  readonly retryAfterMs?: number | undefined;
  /** There was no answer at all. */
  readonly isBroken?: boolean;
};
type Verdict = Final | Retry | { readonly kind: 'unauthorized'; readonly message: string };

async function judge(
  reply: ClientResponse,
  { protocol }: Destination,
  config: ClientConfig,
): Promise<Verdict> {
  if (protocol === 'native' && reply.status >= 200 && reply.status < 300)
    return judgeEnvelope(reply);
  const verdict = await judgeResponse(reply, config, Date.now());
  switch (verdict.kind) {
    case 'delivered':
      return { kind: 'taken', rejected: 0, message: verdict.warning ?? '' };
    case 'partial':
      return { kind: 'taken', rejected: verdict.rejected, message: verdict.message };
    case 'retry':
      return verdict;
    case 'hold':
      return { kind: 'unauthorized', message: verdict.message };
    case 'too_large':
      return verdict;
    case 'permanent':
      return { kind: 'refused', message: verdict.message };
  }
}

/** What the native and the run endpoints answer: how many they took, and why not the others. */
function judgeEnvelope({ body }: ClientResponse): Final {
  try {
    const { rejected, results } = JSON.parse(body.toString()) as {
      rejected: number;
      results: { status: string; code?: string; reason?: string }[];
    };
    const first = results.find(({ status }) => status === 'rejected');
    const message = first === undefined ? '' : `${first.code}: ${first.reason}`;
    return { kind: 'taken', rejected: Number.isSafeInteger(rejected) ? rejected : 0, message };
  } catch {
    return { kind: 'refused', message: 'the answer is none of the native endpoints' };
  }
}

function configOf(destination: Destination): ClientConfig {
  const { url, headers, compression, connections, caFile } = destination;
  return clientConfig.parse({
    traces_endpoint: url,
    headers,
    compression,
    max_conns_per_host: connections,
    timeout: `${REQUEST_TIMEOUT_MS}ms`,
    // A person looks on: an address that is wrong is told of, not waited for.
    on_permanent_error: { 404: 'dead_letter' },
    ...(caFile === undefined ? {} : { tls: { ca_file: caFile } }),
  });
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  return error instanceof Error ? error.message : String(error);
}
