import { isIPv4, isIPv6 } from 'node:net';
import type { Clock } from '../../src/component/component.ts';
import type { EdgeConfig } from './config.ts';
import { tokenBuckets } from './token-buckets.ts';

/** Failed authentications of each address. Requests that do not fail cost nothing and are not limited. */
export type AddressLimits = {
  /** Milliseconds that the address has to wait, 0 where it may try. */
  wait(remoteAddress: string): number;
  failed(remoteAddress: string): void;
};

export function addressLimits(
  config: EdgeConfig['failed_authentications'],
  clock: Clock,
): AddressLimits {
  const { per_minute: perMinute, burst, max_addresses: maxNames } = config;
  const failures = tokenBuckets({ perSecond: perMinute / 60, burst, maxNames }, clock);
  return {
    wait: (remoteAddress) => (failures.size === 0 ? 0 : failures.wait(origin(remoteAddress))),
    failed: (remoteAddress) => void failures.take(origin(remoteAddress)),
  };
}

/**
 * What one party has to itself: an IPv4 address, also where a socket for both kinds shows it as IPv6, or
 * the /64 that an IPv6 host chooses its addresses from.
 */
export function origin(address: string): string {
  const plain = address.split('%', 1)[0] ?? '';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain)?.[1];
  if (mapped !== undefined) return mapped;
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const [before = '', after] = plain.split('::');
  const left = before === '' ? [] : before.split(':');
  const right = after === undefined || after === '' ? [] : after.split(':');
  const gap = after === undefined ? 0 : 8 - left.length - right.length;
  const groups = [...left, ...Array<string>(Math.max(0, gap)).fill('0'), ...right];
  const network = groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16));
  return `${network.join(':')}::/64`;
}
