import { isIPv4, isIPv6 } from 'node:net';
import { plainAddress } from './network.ts';

/** The beginning of a connection that a proxy opened. */
export type ProxyHeader =
  /** `length` bytes; the client's address is undefined for a connection of the proxy itself. */
  | { readonly state: 'whole'; readonly length: number; readonly client: string | undefined }
  | { readonly state: 'incomplete' }
  | { readonly state: 'malformed' };

/** The longest header of version 1, with its line break. */
export const MAX_V1_BYTES = 107;
/** The longest addresses and extensions of version 2. HAProxy and cloud load balancers send a few hundred bytes. */
export const MAX_V2_BYTES = 4096;

const V1 = Buffer.from('PROXY ');
const V2 = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
const V2_HEAD_BYTES = 16;
const INCOMPLETE = { state: 'incomplete' } as const;
const MALFORMED = { state: 'malformed' } as const;

/**
 * Reads the header of the PROXY protocol, version 1 or 2, at the beginning of the received bytes. Bytes that cannot become a
 * header are malformed as soon as they differ.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader {
  if (startsWith(bytes, V1)) return readV1(bytes);
  if (startsWith(bytes, V2)) return readV2(bytes);
  return MALFORMED;
}

/** Whether the bytes start with `prefix`, as far as they have arrived. */
function startsWith(bytes: Buffer, prefix: Buffer): boolean {
  const length = Math.min(bytes.length, prefix.length);
  return bytes.subarray(0, length).equals(prefix.subarray(0, length));
}

/** `PROXY TCP4 198.51.100.1 203.0.113.7 35646 443\r\n`. */
function readV1(bytes: Buffer): ProxyHeader {
  const line = bytes.subarray(0, MAX_V1_BYTES).toString('latin1');
  const end = line.indexOf('\r\n');
  if (end < 0) return bytes.length < MAX_V1_BYTES ? INCOMPLETE : MALFORMED;
  const [, family, client = '', server = '', ...ports] = line.slice(0, end).split(' ');
  const length = end + 2;
  if (family === 'UNKNOWN') return { state: 'whole', length, client: undefined };
  const isAddress = family === 'TCP4' ? isIPv4 : family === 'TCP6' ? isIPv6 : undefined;
  const isValid =
    isAddress?.(client) === true &&
    isAddress(server) &&
    !client.includes('%') &&
    ports.length === 2 &&
    ports.every(isPort);
  return isValid
    ? { state: 'whole', length, client: plainAddress(client.toLowerCase()) }
    : MALFORMED;
}

function isPort(text: string): boolean {
  return /^(0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
}

function readV2(bytes: Buffer): ProxyHeader {
  if (bytes.length < V2_HEAD_BYTES) return INCOMPLETE;
  const command = bytes.readUInt8(12);
  const family = bytes.readUInt8(13);
  const rest = bytes.readUInt16BE(14);
  const isLocal = command === 0x20;
  if ((!isLocal && command !== 0x21) || rest > MAX_V2_BYTES) return MALFORMED;
  // The family of a connection of the proxy itself has no meaning.
  const size = isLocal ? 0 : FAMILIES.get(family);
  if (size === undefined || rest < size) return MALFORMED;
  const length = V2_HEAD_BYTES + rest;
  if (bytes.length < length) return INCOMPLETE;
  const addresses = bytes.subarray(V2_HEAD_BYTES, length);
  return { state: 'whole', length, client: isLocal ? undefined : clientOf(family, addresses) };
}

const TCP4 = 0x11;
const TCP6 = 0x21;
/** Bytes of the addresses, by family and transport: unspecified, TCP and Unix stream. */
const FAMILIES: ReadonlyMap<number, number> = new Map([
  [0x00, 0],
  [TCP4, 12],
  [TCP6, 36],
  [0x31, 216],
]);

function clientOf(family: number, addresses: Buffer): string | undefined {
  if (family === TCP4) return addresses.subarray(0, 4).join('.');
  if (family !== TCP6) return undefined;
  const groups = Array.from({ length: 8 }, (_, i) => addresses.readUInt16BE(2 * i).toString(16));
  // A proxy with a listener for both families sends IPv4 clients as IPv6.
  return plainAddress(groups.join(':'));
}
