import { isIP } from 'node:net';
import { z } from 'zod';

/** `trusted_proxies` of a listener. */
export function trustedProxies() {
  return z
    .array(
      z
        .string()
        .refine(isBlock, { error: 'must be an address or a CIDR block such as 10.0.0.0/8' }),
    )
    .default([])
    .describe(
      'Addresses or CIDR blocks of proxies whose `X-Forwarded-For` or `Forwarded` header names the client. Headers of other peers are ignored.',
    );
}

function isBlock(text: string): boolean {
  const [address = '', bits, more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || address.includes('%') || more !== undefined) return false;
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32))
  );
}
