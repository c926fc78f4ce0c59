import { z } from 'zod';
import { duration } from '../schema/fields.ts';
import { type ServerTls, serverTls } from '../schema/server-tls.ts';
import type { GrpcLimits } from './server.ts';

/** More would be lost in the timers of the library. Milliseconds. */
const LONGEST = 2 ** 31 - 1;

const serverParameters = z.strictObject({
  max_connection_idle: duration()
    .optional()
    .describe('A connection without a call for so long is asked to go; never where not given'),
  max_connection_age: duration()
    .optional()
    .describe('A connection of this age is asked to go; never where not given'),
  max_connection_age_grace: duration()
    .optional()
    .describe('How long its calls may take then, before it is cut; without limit where not given'),
  time: duration('2h').describe('A connection that is silent for so long is sent a ping'),
  timeout: duration('20s').describe('How long the ping may stay without an answer'),
});

/** What the gRPC receivers have in common, named as in the Collector where it has a name. */
export const grpcFields = {
  max_recv_msg_size_mib: z
    .int()
    .min(1)
    .max(25)
    .default(25)
    .describe('MiB of a message, as sent and inflated; a larger one is refused'),
  max_concurrent_streams: z
    .int()
    .min(1)
    .max(100_000)
    .default(100)
    .describe('Calls of one connection at a time; more wait at the client'),
  read_timeout: duration('60s').describe('How long a message may take to arrive'),
  max_connections: z
    .int()
    .min(1)
    .default(10_000)
    .describe('Connections beyond this are closed as they come'),
  keepalive: z
    .strictObject({
      server_parameters: serverParameters
        .prefault({})
        .describe('How connections are looked after, and when they end'),
    })
    .prefault({})
    .describe('What keeps connections alive'),
  tls: serverTls().optional().describe('Serves TLS; plain HTTP/2 where it is left out'),
};

export type GrpcListenerConfig = {
  readonly max_concurrent_streams: number;
  readonly read_timeout: number;
  readonly max_connections: number;
  readonly tls?: ServerTls | undefined;
  readonly keepalive: { readonly server_parameters: z.output<typeof serverParameters> };
};

export function grpcLimitsOf(config: GrpcListenerConfig): GrpcLimits {
  const { max_connection_idle, max_connection_age, max_connection_age_grace, time, timeout } =
    config.keepalive.server_parameters;
  return {
    maxConnections: config.max_connections,
    maxConcurrentStreams: config.max_concurrent_streams,
    readTimeout: config.read_timeout,
    maxConnectionIdle: bounded(max_connection_idle),
    maxConnectionAge: bounded(max_connection_age),
    maxConnectionAgeGrace: bounded(max_connection_age_grace),
    keepaliveTime: bounded(time),
    keepaliveTimeout: bounded(timeout),
  };
}

function bounded(milliseconds: number | undefined): number {
  // As in the Collector, 0 stands for no limit.
  return Math.min(milliseconds || LONGEST, LONGEST);
}
