import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, RequestHead } from '../component/component.ts';
import type { Refusal } from '../model/errors.ts';

/** What goes over the wire for one request. */
export type Answer = {
  readonly status: number;
  readonly contentType: string;
  readonly body: Buffer | string;
  /** Further headers, lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** How the requests of a route are refused: the native envelope, or OTLP's status in the request's encoding. */
export type RenderRefusal = (refusal: Refusal, head: RequestHead) => Answer;

/** One request on its way: its head, and the streams it is read from and answered on. */
export type Exchange = {
  readonly head: RequestHead;
  /** Decoded parts of the path, e.g. `id` of `/api/v1/runs/:id`. */
  readonly params: Readonly<Record<string, string>>;
  /** What stands after the `?`, undecoded. */
  readonly query: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** True once the listener stops: the connection is not kept. */
  readonly stopping: () => boolean;
  readonly clock: Clock;
};

/** Bytes of an unread body that are thrown away, so that its connection may be kept or end cleanly. */
const DRAIN_BYTES = 65_536;
/** How long a refused client may take to read its answer while its body is not read. Milliseconds. */
const LINGER_MS = 1_000;

/** Answers a request once; later calls, and calls after the client has left, do nothing. */
export function answer(exchange: Exchange, reply: Answer): void {
  const { response } = exchange;
  if (response.headersSent || response.destroyed) return;
  const keep = bodyIsReadOrSmall(exchange);
  const body = typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body;
  const headers = ['content-type', reply.contentType, 'content-length', String(body.length)];
  for (const name in reply.headers) headers.push(name, reply.headers[name] ?? '');
  if (!keep || exchange.stopping()) headers.push('connection', 'close');
  response.writeHead(reply.status, headers);
  // A client that still waits for `100 Continue` has sent nothing that could be in the way.
  const waits = exchange.expectsContinue && exchange.request.readableFlowing === null;
  if (keep || waits) response.end(body);
  else answerThenClose(exchange, body);
}

/** Headers that a refusal carries whatever shape its body has. */
export function refusalHeaders(refusal: Refusal): Record<string, string> {
  const headers: Record<string, string> = {};
  if (refusal.retryAfterMs !== undefined) {
    headers['retry-after'] = String(Math.max(1, Math.ceil(refusal.retryAfterMs / 1000)));
  }
  if (refusal.status === 401) headers['www-authenticate'] = 'Bearer';
  if (refusal.allow !== undefined) headers.allow = refusal.allow;
  return headers;
}

/** Node throws a small rest away by itself and goes on with the connection's next request. */
function bodyIsReadOrSmall(exchange: Exchange): boolean {
  if (exchange.request.complete) return true;
  const declared = exchange.head.declaredBytes;
  if (declared === 0) return true;
  return declared !== undefined && declared <= DRAIN_BYTES && !exchange.expectsContinue;
}

/**
 * Closing a connection with unread bytes resets it, and the reset can overtake the answer. So the answer
 * goes out whole, a little of the body is thrown away, and the client gets a moment to read and hang up
 * while the rest waits unread in its own buffers.
 */
function answerThenClose(exchange: Exchange, body: Buffer): void {
  const { request, response } = exchange;
  let left = DRAIN_BYTES;
  const discard = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left < 0 && !request.complete) request.pause();
  };
  const finish = (): void => {
    cancel();
    request.off('data', discard);
    response.end();
  };
  const cancel = exchange.clock.after(LINGER_MS, finish);
  response.write(body);
  request.on('data', discard);
  request.once('end', finish);
  request.once('close', finish);
  request.resume();
}
