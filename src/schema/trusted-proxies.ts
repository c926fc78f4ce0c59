import { isIP } from 'node:net';
import { z } from 'zod';

const HEADERS =
  'Addresses or CIDR blocks of proxies whose `X-Forwarded-For` or `Forwarded` header names the client. Headers of other peers are ignored.';

/** `trusted_proxies` of a listener. */
export function trustedProxies(description = HEADERS) {
  return z
    .array(
      z
        .string()
        .refine(isBlock, { error: 'must be an address or a CIDR block such as 10.0.0.0/8' }),
    )
    .default([])
    .describe(description);
}

/** `trusted_proxies` of a listener without a use for the headers of proxies. */
export function trustedTcpProxies() {
  return trustedProxies('Addresses or CIDR blocks of the proxies that `proxy_protocol` is about.');
}

/** `proxy_protocol` of a listener. */
export function proxyProtocol() {
  return z
    .boolean()
    .default(false)
    .describe(
      'Whether `trusted_proxies` begin each connection with a header of the PROXY protocol, version 1 or 2, which names the client. Other peers send none.',
    );
}

/** For `superRefine` of an object with both fields. */
export function needsTrustedProxies(
  value: { readonly proxy_protocol: boolean; readonly trusted_proxies: readonly string[] },
  context: z.RefinementCtx,
): void {
  if (!value.proxy_protocol || value.trusted_proxies.length > 0) return;
  context.addIssue({
    code: 'custom',
    path: ['proxy_protocol'],
    message: 'needs trusted_proxies: no other peer may name the client',
  });
}

function isBlock(text: string): boolean {
  const [address = '', bits, more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || address.includes('%') || more !== undefined) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
  );
}

/** The settings of a gate, from the fields of a listener. */
export function proxySettings({
  trusted_proxies: trustedProxies,
  proxy_protocol,
}: {
  readonly trusted_proxies: readonly string[];
  readonly proxy_protocol: boolean;
}): { readonly trustedProxies: readonly string[]; readonly proxyProtocol: boolean } {
  return { trustedProxies, proxyProtocol: proxy_protocol };
}
