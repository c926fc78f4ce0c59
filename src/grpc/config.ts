import { z } from 'zod';
import type { BodyRate } from '../http/body-pace.ts';
import type { BodyRateConfig } from '../http/config.ts';
import { bodyRateFields, bodyRateOf, connectionFields } from '../http/config.ts';
import type { ProxySettings } from '../net/proxy-gate.ts';
import { duration } from '../schema/fields.ts';
import { type ServerTls, serverTls } from '../schema/server-tls.ts';
import { proxyProtocol, trustedProxies } from '../schema/trusted-proxies.ts';

/** Milliseconds for a new connection to finish its TLS handshake, and then to begin HTTP/2. */
export const HANDSHAKE_MS = 10_000;

/** The longest timeout of the library's timers. Milliseconds. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;

const serverParameters = z.strictObject({
  max_connection_idle: duration()
    .optional()
    .describe('A connection without a call for this time is asked to close. Default: never.'),
  max_connection_age: duration()
    .optional()
    .describe('A connection of this age is asked to close. Default: never.'),
  max_connection_age_grace: duration()
    .optional()
    .describe(
      'Longest time for the calls of such a connection; then it is cut. Default: no limit.',
    ),
  time: duration('2h').describe('A connection without traffic for this time gets a ping.'),
  timeout: duration('20s').describe('Longest wait for the answer to a ping.'),
});

/** Fields of all gRPC receivers, with the names of the Collector. */
export const grpcFields = {
  max_recv_msg_size_mib: z
    .int()
    .min(1)
    .max(25)
    .default(25)
    .describe('Largest message in MiB, as sent and inflated; a larger one is refused.'),
  max_concurrent_streams: z
    .int()
    .min(1)
    .max(100_000)
    .default(100)
    .describe('Most concurrent calls of a connection; more wait at the client.'),
  max_streams: z
    .int()
    .min(1)
    .default(4_096)
    .describe('Most concurrent calls of all connections; more are answered `UNAVAILABLE`.'),
  max_streams_per_address: z
    .int()
    .min(1)
    .default(1_024)
    .describe(
      'Most concurrent calls from an IPv4 address or an IPv6 /64; more are answered `UNAVAILABLE`. Not for `trusted_proxies`.',
    ),
  read_timeout: duration('30m').describe(
    'Longest time for a message to arrive; then the call ends with `DEADLINE_EXCEEDED`. 0s: no limit.',
  ),
  ...bodyRateFields,
  ...connectionFields,
  keepalive: z
    .strictObject({
      server_parameters: serverParameters
        .prefault({})
        .describe('Pings and lifetime of connections.'),
    })
    .prefault({})
    .describe('Keepalive of connections.'),
  trusted_proxies: trustedProxies(),
  proxy_protocol: proxyProtocol(),
  tls: serverTls().optional().describe('Serves TLS. Default: plain HTTP/2.'),
};

/** Limits of a listener. Times in milliseconds. */
export type GrpcLimits = ProxySettings & {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly maxStreams: number;
  readonly maxStreamsPerAddress: number;
  readonly maxConcurrentStreams: number;
  readonly readTimeout: number;
  readonly bodyRate: BodyRate;
  readonly maxConnectionIdle: number;
  readonly maxConnectionAge: number;
  readonly maxConnectionAgeGrace: number;
  readonly keepaliveTime: number;
  readonly keepaliveTimeout: number;
};

/** Times in milliseconds. */
export type GrpcListenerConfig = BodyRateConfig & {
  readonly max_concurrent_streams: number;
  readonly read_timeout: number;
  readonly max_connections: number;
  readonly max_connections_per_address: number;
  readonly max_streams: number;
  readonly max_streams_per_address: number;
  readonly trusted_proxies: readonly string[];
  readonly proxy_protocol: boolean;
  readonly tls?: ServerTls | undefined;
  readonly keepalive: { readonly server_parameters: z.output<typeof serverParameters> };
};

export function grpcLimitsOf(config: GrpcListenerConfig): GrpcLimits {
  const { max_connection_idle, max_connection_age, max_connection_age_grace, time, timeout } =
    config.keepalive.server_parameters;
  return {
    maxConnections: config.max_connections,
    maxConnectionsPerAddress: config.max_connections_per_address,
    maxStreams: config.max_streams,
    maxStreamsPerAddress: config.max_streams_per_address,
    trustedProxies: config.trusted_proxies,
    proxyProtocol: config.proxy_protocol,
    maxConcurrentStreams: config.max_concurrent_streams,
    readTimeout: bounded(config.read_timeout),
    bodyRate: bodyRateOf(config),
    maxConnectionIdle: bounded(max_connection_idle),
    maxConnectionAge: bounded(max_connection_age),
    maxConnectionAgeGrace: bounded(max_connection_age_grace),
    keepaliveTime: bounded(time),
    keepaliveTimeout: bounded(timeout),
  };
}

function bounded(milliseconds: number | undefined): number {
  // As in the Collector, 0 means no limit.
  return Math.min(milliseconds || LONGEST_TIMER_MS, LONGEST_TIMER_MS);
}
