import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Exchange } from '../http/exchange.ts';
import { answer } from '../http/exchange.ts';
import type { Read } from './reads.ts';

/** Characters of an answer that are sent together. */
const CHUNK_CHARACTERS = 65_536;

/** A text is held twice: as a string, and as the bytes that are sent. */
const COPIES = 2;

const JSON_TYPE = 'application/json';

/** A JSON answer in pieces. A short one is sent as a whole, so that it has a length. */
export type JsonAnswer = {
  /** Undefined: more fits. Else the promise resolves when the client takes more, or rejects once it is gone. */
  add(text: string): Promise<void> | undefined;
  /** Sends bytes, which the caller has reserved, and resolves as `add` does. */
  addBytes(bytes: Buffer): Promise<void>;
  end(text: string): void;
};

export function jsonAnswer(exchange: Exchange, read: Read): JsonAnswer {
  const { response } = exchange;
  let pending = '';

  async function send(): Promise<void> {
    if (!response.headersSent) beginAnswer(exchange, { 'content-type': JSON_TYPE });
    const text = pending;
    pending = '';
    await write(text);
  }

  async function write(part: string | Buffer): Promise<void> {
    if (response.write(part)) await nextTurn();
    else await clientDrained(exchange);
    read.signal.throwIfAborted();
  }

  return {
    add(text) {
      pending += text;
      if (pending.length < CHUNK_CHARACTERS) return undefined;
      read.hold(pending.length * COPIES);
      return send();
    },
    async addBytes(bytes) {
      if (bytes.length < CHUNK_CHARACTERS) return this.add(bytes.toString());
      if (!response.headersSent || pending !== '') await send();
      await write(bytes);
    },
    end(text) {
      if (response.headersSent) response.end(pending + text);
      else answerJson(exchange, read, pending + text);
    },
  };
}

/** An answer of bytes in pieces. A short one is sent as a whole, so that it has a length. */
export type BytesAnswer = {
  /** Resolves when the client takes more, or rejects once it is gone. The caller has reserved the bytes. */
  add(bytes: Buffer): Promise<void>;
  end(bytes: Buffer): void;
};

export function bytesAnswer(exchange: Exchange, read: Read, contentType: string): BytesAnswer {
  const { response } = exchange;
  let pending: Buffer[] = [];
  let size = 0;
  return {
    async add(bytes) {
      pending.push(bytes);
      size += bytes.length;
      if (size < CHUNK_CHARACTERS) return;
      if (!response.headersSent) beginAnswer(exchange, { 'content-type': contentType });
      const isTaken = response.write(Buffer.concat(pending));
      [pending, size] = [[], 0];
      if (isTaken) await nextTurn();
      else await clientDrained(exchange);
      read.signal.throwIfAborted();
    },
    end(bytes) {
      const rest = Buffer.concat([...pending, bytes]);
      if (response.headersSent) response.end(rest);
      else answer(exchange, { status: 200, contentType, body: rest });
    },
  };
}

/** Sends the whole answer at once. */
export function answerJson(exchange: Exchange, read: Read, body: string): void {
  read.hold(body.length * COPIES);
  answer(exchange, { status: 200, contentType: JSON_TYPE, body });
}

/** Sends the bytes of a JSON answer at once. */
export function answerBytes(exchange: Exchange, read: Read, body: Buffer): void {
  read.hold(body.length);
  answer(exchange, { status: 200, contentType: JSON_TYPE, body });
}

/**
 * Answers HEAD for an answer that has no length, and returns true; else does nothing. Node sends the head of such an
 * answer with its body, and allows HEAD no trailers.
 */
export function answerHead(exchange: Exchange, headers: Readonly<Record<string, string>>): boolean {
  if (exchange.head.method !== 'HEAD') return false;
  beginAnswer(exchange, headers);
  exchange.response.end();
  return true;
}

/** Writes the head of an answer of unknown length. */
export function beginAnswer(
  { response, stopping }: Exchange,
  headers: Readonly<Record<string, string>>,
): void {
  response.writeHead(200, { ...headers, ...(stopping() ? { connection: 'close' } : {}) });
}

/** Resolves when the socket takes more, or is closed. */
export function clientDrained({ response }: Exchange): Promise<void> {
  if (response.destroyed) return Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const settle = (): void => {
    response.off('drain', settle);
    response.off('close', settle);
    resolve();
  };
  response.on('drain', settle);
  response.on('close', settle);
  return promise;
}

/** The client of a request: the signal is aborted when it goes away before the end of its answer. */
export type ClientWatch = {
  readonly signal: AbortSignal;
  /** Resolves when the answer is sent, or the client is gone. */
  readonly closed: Promise<void>;
};

export function watchClient({ response }: Exchange): ClientWatch {
  const abort = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  const end = (): void => {
    if (!response.writableFinished) abort.abort();
    resolve();
  };
  // The client may have left while a listener looked its request up: no event comes then.
  if (response.destroyed) end();
  else response.once('close', end);
  return { signal: abort.signal, closed: promise };
}
