import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, RequestHead } from '../component/component.ts';
import type { Refusal } from '../model/errors.ts';
import type { BodyRate } from './body-pace.ts';

/** The answer to one request. */
export type Answer = {
  readonly status: number;
  /** ASCII in one line; that of the status if absent. */
  readonly reasonPhrase?: string;
  readonly contentType: string;
  readonly body: Buffer | string;
  /** Additional headers, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** Renders a refusal in the shape of a route: the native envelope, or OTLP's status in the request's encoding. */
export type RenderRefusal = (refusal: Refusal, head: RequestHead) => Answer;

/** One HTTP request in progress: its head, and the streams for its body and its answer. */
export type Exchange = {
  readonly head: RequestHead;
  /** Decoded parts of the path, e.g. `id` of `/api/v1/runs/:id`. */
  readonly params: Readonly<Record<string, string>>;
  /** The query string, without `?` and not decoded. */
  readonly query: string;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** True once the listener stops: the connection closes after the answer. */
  readonly stopping: () => boolean;
  readonly clock: Clock;
  readonly bodyRate: BodyRate;
  /** While its client still sends: see `Occupancy`. Absent: the connection never gives way. */
  readonly yields?: (end: (refusal: Refusal) => void) => () => void;
};

/** Bytes of an unread body that are discarded, so that its connection is kept or ends cleanly. */
const DRAIN_BYTES = 65_536;
/** Milliseconds for a refused client to read its answer while its body is not read. */
const LINGER_MS = 1_000;

/** Answers a request once. Later calls, and calls after the client has disconnected, have no effect. */
export function answer(exchange: Exchange, reply: Answer): void {
  const { response } = exchange;
  if (response.headersSent || response.destroyed) return;
  const keep = bodyIsReadOrSmall(exchange);
  const { body } = reply;
  const length = Buffer.byteLength(body);
  const headers = ['content-type', reply.contentType, 'content-length', String(length)];
  for (const name in reply.headers) headers.push(name, reply.headers[name] ?? '');
  if (!keep || exchange.stopping()) headers.push('connection', 'close');
  if (reply.reasonPhrase !== undefined) response.statusMessage = reply.reasonPhrase;
  response.writeHead(reply.status, headers);
  // A client that waits for `100 Continue` has sent no body that would have to be discarded.
  const waits = exchange.expectsContinue && exchange.request.readableFlowing === null;
  if (!keep && !waits) answerThenClose(exchange, body);
  else if (length === 0) response.end();
  // Node sends a text in one piece with the head, and bytes in a piece of their own.
  else response.end(body);
}

/** The headers of a refusal, whatever the shape of its body. */
export function refusalHeaders(refusal: Refusal): Record<string, string> {
  const headers: Record<string, string> = {};
  if (refusal.retryAfterMs !== undefined) {
    headers['retry-after'] = String(Math.max(1, Math.ceil(refusal.retryAfterMs / 1000)));
  }
  if (refusal.status === 401) headers['www-authenticate'] = 'Bearer';
  if (refusal.allow !== undefined) headers.allow = refusal.allow;
  if (refusal.acceptEncoding !== undefined) headers['accept-encoding'] = refusal.acceptEncoding;
  return headers;
}

/** Node discards a small unread rest and continues with the connection's next request. */
function bodyIsReadOrSmall(exchange: Exchange): boolean {
  if (exchange.request.complete) return true;
  const declared = exchange.head.declaredBytes;
  if (declared === 0) return true;
  return declared !== undefined && declared <= DRAIN_BYTES && !exchange.expectsContinue;
}

/**
 * Closing a connection with unread bytes resets it, and the reset can overtake the answer. So the answer is sent
 * whole, a little of the body is discarded, and the client has a moment to read and disconnect while the rest
 * of its body waits unread in its own buffers.
 */
function answerThenClose(exchange: Exchange, body: Buffer | string): void {
  const { request, response } = exchange;
  let left = DRAIN_BYTES;
  const discard = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left < 0 && !request.complete) request.pause();
  };
  const finish = (): void => {
    cancel();
    keepPlace?.();
    request.off('data', discard);
    response.end();
  };
  const cancel = exchange.clock.after(LINGER_MS, finish);
  const keepPlace = exchange.yields?.(finish);
  response.write(body);
  request.on('data', discard);
  request.once('end', finish);
  request.once('close', finish);
  request.resume();
}
