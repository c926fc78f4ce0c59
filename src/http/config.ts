import { z } from 'zod';
import { duration } from '../schema/fields.ts';
import type { ServerTls } from '../schema/server-tls.ts';
import { serverTls } from '../schema/server-tls.ts';
import type { ListenerSettings } from './listener.ts';

/** What the HTTP receivers have in common; receivers that share an endpoint must agree on it. */
export const listenerFields = {
  read_header_timeout: duration('10s').describe(
    'How long the head of a request may take; then it is answered 408',
  ),
  read_timeout: duration('60s').describe(
    'How long a request may take in all, body included; then it is answered 408',
  ),
  max_connections: z
    .int()
    .min(1)
    .default(10_000)
    .describe('Connections beyond this are closed as they come'),
  tls: serverTls().optional().describe('Serves https; plain http where it is left out'),
};

export const projectField = {
  project: z
    .string()
    .min(1)
    .optional()
    .describe('The project of what comes in, where the pipeline has no auth processor'),
};

export type ListenerConfig = {
  readonly read_header_timeout: number;
  readonly read_timeout: number;
  readonly max_connections: number;
  readonly tls?: ServerTls | undefined;
};

export function listenerSettings(config: ListenerConfig): ListenerSettings {
  return {
    readHeaderTimeout: config.read_header_timeout,
    readTimeout: config.read_timeout,
    maxConnections: config.max_connections,
    tls: config.tls,
  };
}
