import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** The headers that name the site that a request is for, and the site that a browser sends it from. */
export type SiteHeaders = {
  readonly host?: string | undefined;
  readonly origin?: string | undefined;
};

/** Why a request is refused, and the header that says so. */
export type ForeignSite = { readonly header: 'host' | 'origin'; readonly reason: string };

/**
 * Returns a check of requests to a management listener against DNS rebinding and cross-site requests. The check
 * returns why a request is refused, or undefined.
 *
 * A rebinding attack needs a name that its author controls, so an IP address as `Host` is accepted; a name must be the
 * endpoint's, a loopback name or in `allowedHosts` (`*` accepts every name). HTTP/1.0 without `Host` comes from no browser.
 */
export function ownHostCheck(
  endpointHost: string,
  allowedHosts: readonly string[],
): (headers: SiteHeaders) => ForeignSite | undefined {
  const names = new Set(
    [endpointHost, 'localhost', ...allowedHosts].map((name) => name.toLowerCase()),
  );
  const acceptsAll = names.has('*');

  function isOwn(host: string): boolean {
    const name = nameOf(host);
    if (name === undefined) return false;
    return acceptsAll || isIP(name) !== 0 || names.has(name) || name.endsWith('.localhost');
  }

  return ({ host, origin }) => {
    if (host !== undefined && !isOwn(host)) {
      const reason = 'The Host header names another host. Add the name to allowed_hosts.';
      return { header: 'host', reason };
    }
    if (origin !== undefined && siteOf(origin) !== host?.toLowerCase()) {
      return { header: 'origin', reason: 'The Origin header names another site.' };
    }
    return undefined;
  };
}

/** True for a request that a proxy may have taken for another host than this process does; RFC 9112, 3.2. */
export function hasManyHosts({ headersDistinct }: IncomingMessage): boolean {
  return (headersDistinct.host?.length ?? 0) > 1;
}

/** `host:port` of an origin, in the form of a `Host` header; undefined for `null` and every other form. */
function siteOf(origin: string): string | undefined {
  return /^https?:\/\/([^\s/?#@]+)$/i.exec(origin)?.[1]?.toLowerCase();
}

/** The name or address of a `Host` header, without port and brackets; undefined if it is malformed. */
function nameOf(host: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/?#@[\]]+))(?::\d{1,5})?$/i.exec(host);
  const name = (match?.[1] ?? match?.[2])?.toLowerCase();
  return name?.replace(/\.$/, '');
}
