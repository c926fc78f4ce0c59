import { z } from 'zod';
import { byteSize, duration } from '../schema/fields.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import { serverTls } from '../schema/server-tls.ts';
import { proxyProtocol, trustedProxies } from '../schema/trusted-proxies.ts';
import type { BodyRate } from './body-pace.ts';
import type { ListenerSettings } from './listener.ts';

/** The least pace of request bodies, over HTTP and gRPC. */
export const bodyRateFields = {
  body_min_rate: byteSize('16KiB').describe(
    'Least bytes per second of a body, in each period of `body_rate_period`; a slower body is refused (408). 0: no limit.',
  ),
  body_rate_period: duration('5s').describe('Length of the periods of `body_min_rate`.'),
};

/** Bounds of the connections of a listener, over HTTP and gRPC. */
export const connectionFields = {
  max_connections: z
    .int()
    .min(1)
    .default(10_000)
    .describe(
      'Most open connections. A new one beyond them replaces the one that is idle for the longest time; if all are busy, one of an address with more than its share whose body arrives slowest (503); else it is closed.',
    ),
  max_connections_per_address: z
    .int()
    .min(1)
    .default(2_500)
    .describe(
      'Most open connections of an IPv4 address or an IPv6 /64. A new one beyond them replaces an idle one; if all are busy, it is closed. Not for `trusted_proxies`.',
    ),
};

export type BodyRateConfig = {
  /** Bytes per second. */
  readonly body_min_rate: number;
  /** Milliseconds. */
  readonly body_rate_period: number;
};

export function bodyRateOf({ body_min_rate, body_rate_period }: BodyRateConfig): BodyRate {
  return { bytesPerSecond: body_min_rate, period: body_rate_period };
}

/** Fields of all HTTP receivers; receivers that share an endpoint must agree on them. */
export const listenerFields = {
  read_header_timeout: duration('10s').describe(
    'Longest time for the head of a request; then it is answered 408. 0s: that of `read_timeout`.',
  ),
  read_timeout: duration('30m').describe(
    'Longest time for a whole request with its body; then it is answered 408. 0s: no limit.',
  ),
  write_timeout: duration('30s').describe(
    'Longest time in which a client takes no byte of its answer; then its connection is cut.',
  ),
  ...bodyRateFields,
  ...connectionFields,
  trusted_proxies: trustedProxies(),
  proxy_protocol: proxyProtocol(),
  tls: serverTls().optional().describe('Serves https. Default: plain http.'),
};

export const projectField = {
  project: z
    .string()
    .min(1)
    .optional()
    .describe('The project of received data in a pipeline without an `auth` processor.'),
};

/** Time-outs are in milliseconds. */
export type ListenerConfig = BodyRateConfig & {
  readonly read_header_timeout: number;
  readonly read_timeout: number;
  readonly write_timeout: number;
  readonly max_connections: number;
  readonly max_connections_per_address: number;
  readonly trusted_proxies: readonly string[];
  readonly proxy_protocol: boolean;
  readonly tls?: ServerTls | undefined;
};

export function listenerSettings(config: ListenerConfig): ListenerSettings {
  return {
    readHeaderTimeout: config.read_header_timeout,
    readTimeout: config.read_timeout,
    writeTimeout: config.write_timeout,
    bodyRate: bodyRateOf(config),
    maxConnections: config.max_connections,
    maxConnectionsPerAddress: config.max_connections_per_address,
    trustedProxies: config.trusted_proxies,
    proxyProtocol: config.proxy_protocol,
    tls: config.tls,
  };
}
