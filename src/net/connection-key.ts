/** A part of a connection with its addresses: the socket, its TLS socket, or the one of an HTTP/2 session. */
export type ConnectionPart = {
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
};

/**
 * Names an open connection of a listener, the same for each of its parts. A peer may use one port for connections to several addresses of
 * this host.
 */
export function connectionKey({ remoteAddress, remotePort, localAddress }: ConnectionPart): string {
  return `${remoteAddress} ${remotePort} ${localAddress}`;
}
