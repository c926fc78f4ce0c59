import type { IncomingMessage } from 'node:http';

/**
 * Whether the connection has to end with the answer to this request: Node drops the bytes behind a request with `Upgrade` that it has read
 * together with it, and the next ones may be the rest of a request.
 */
export function offersUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade !== undefined;
}
