import { z } from 'zod';
import { listenerFields, projectField } from '../../src/http/config.ts';
import { endpoint } from '../../src/schema/fields.ts';
import { needsTrustedProxies } from '../../src/schema/trusted-proxies.ts';

export const config = z
  .strictObject({
    endpoint: endpoint('127.0.0.1:4318').describe(
      'Address to listen on. Receivers with the same endpoint share one listener.',
    ),
    ...projectField,
    ...listenerFields,
  })
  .superRefine(needsTrustedProxies);

export type RunsConfig = z.output<typeof config>;
