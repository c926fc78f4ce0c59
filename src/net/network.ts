import { isIPv4, isIPv6 } from 'node:net';

/**
 * The network that one client controls: its IPv4 address, also in IPv6 notation, or the /64 network of its IPv6 address, from which a host
 * chooses its addresses freely. Any other text is returned unchanged.
 */
export function clientNetwork(address: string): string {
  const plain = plainAddress(address.split('%', 1)[0] ?? '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const network = groupsOf(plain).slice(0, 4);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}

/** The IPv4 address of one in IPv6 notation, such as `::ffff:192.0.2.1` and `0:0:0:0:0:ffff:c000:201`; any other text unchanged. */
export function plainAddress(address: string): string {
  // As Node writes the peers of a listener for both families.
  const dotted = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  if (!/^[0:]*:ffff:/i.test(address) || !isIPv6(address)) return address;
  const groups = groupsOf(address);
  if (!MAPPED.every((group, i) => groups[i] === group)) return address;
  const [high = 0, low = 0] = groups.slice(MAPPED.length);
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

const MAPPED = [0, 0, 0, 0, 0, 0xffff];

/** The eight groups of an IPv6 address. */
function groupsOf(address: string): number[] {
  const [text = ''] = address.split('%', 1);
  const [before = '', after] = withoutDots(text).split('::');
  const left = before === '' ? [] : before.split(':');
  const right = after === undefined || after === '' ? [] : after.split(':');
  const gap = after === undefined ? 0 : 8 - left.length - right.length;
  const groups = [...left, ...Array<string>(Math.max(0, gap)).fill('0'), ...right];
  return groups.map((group) => Number.parseInt(group, 16));
}

/** Writes the last two groups, which may be an IPv4 address, in hexadecimal digits. */
function withoutDots(address: string): string {
  return address.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, (_, ...[a, b, c, d]: string[]) => {
    const group = (high = '', low = ''): string => (Number(high) * 256 + Number(low)).toString(16);
    return `${group(a, b)}:${group(c, d)}`;
  });
}
