import type { Socket } from 'node:net';

/** The parser of a connection of an HTTP server. It is not public; without one, the requests are parsed to the end. */
type Parsing = { readonly parser?: { onIncoming?: () => number } | null };

/** Node's answer of a parser that hands the connection over to another protocol: the parser stops. */
const STOP = 2;

/**
 * Destroys a connection that brings too many requests, and stops its parser. Node would begin every further request of the chunk that it
 * has read (64 KiB, so 1,500 requests), at 35 µs each, though none of them is looked at.
 */
export function cutRequests(socket: Socket): void {
  const { parser } = socket as Parsing;
  if (parser?.onIncoming !== undefined) parser.onIncoming = () => STOP;
  socket.destroy();
}
