import { z } from 'zod';
import { endpoint } from '../../src/schema/fields.ts';
import { serverTls } from '../../src/schema/server-tls.ts';
import {
  needsTrustedProxies,
  proxyProtocol,
  trustedTcpProxies,
} from '../../src/schema/trusted-proxies.ts';

export const config = z
  .strictObject({
    endpoint: endpoint('127.0.0.1:13133').describe('Address to listen on.'),
    path: z
      .string()
      .startsWith('/')
      .default('/')
      .describe('An additional path that answers as `/readyz` does.'),
    trusted_proxies: trustedTcpProxies(),
    proxy_protocol: proxyProtocol(),
    tls: serverTls().optional().describe('Serves https. Default: plain http.'),
  })
  .superRefine(needsTrustedProxies);

export type HealthCheckConfig = z.output<typeof config>;
