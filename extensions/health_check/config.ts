import { z } from 'zod';
import { endpoint } from '../../src/schema/fields.ts';
import { serverTls } from '../../src/schema/server-tls.ts';

export const config = z.strictObject({
  endpoint: endpoint('127.0.0.1:13133').describe('Where to listen'),
  path: z
    .string()
    .startsWith('/')
    .default('/')
    .describe('The path that answers as /readyz does, for checks that take no other'),
  tls: serverTls().optional().describe('Serves https; plain http where it is left out'),
});

export type HealthCheckConfig = z.output<typeof config>;
