import { lookup } from 'node:dns/promises';
import { type AddressInfo, isIP, type ListenOptions, type Server } from 'node:net';

/** The address of a host name. An unknown name is returned as it is: opening it fails with a clear message. */
export async function addressOf(host: string): Promise<string> {
  if (isIP(host) !== 0) return host;
  try {
    return (await lookup(host)).address;
  } catch {
    return host.toLowerCase();
  }
}

/** Binds a server to an address. Rejects with the error of the system, for `cannotListen`. */
export function listenOn(
  server: Server,
  address: Pick<ListenOptions, 'host' | 'port' | 'reusePort'>,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(address, () => {
    server.off('error', reject);
    resolve();
  });
  return promise;
}

/** `host:port` of a server that listens on TCP, as URLs have it. */
export function boundAddress(server: Pick<Server, 'address'>): string {
  const { address, family, port } = server.address() as AddressInfo;
  return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`;
}

/** The error for a listener that could not be opened, with its reason. */
export function cannotListen(endpoint: string, error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  const why: Record<string, string> = {
    EADDRINUSE: 'another program listens there',
    EADDRNOTAVAIL: 'no interface of this machine has that address',
    EACCES: 'this user may not listen there',
    ENOTFOUND: 'the host name is unknown',
    ENOTSUP: 'processes cannot share a port on this system',
  };
  return new Error(`cannot listen on ${endpoint}: ${why[code ?? ''] ?? message}`, { cause: error });
}
