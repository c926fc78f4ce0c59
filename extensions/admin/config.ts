import { z } from 'zod';
import { allowedHosts } from '../../src/schema/allowed-hosts.ts';
import { endpoint, ref, secret } from '../../src/schema/fields.ts';
import { serverTls } from '../../src/schema/server-tls.ts';
import {
  needsTrustedProxies,
  proxyProtocol,
  trustedProxies,
} from '../../src/schema/trusted-proxies.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z
  .strictObject({
    endpoint: endpoint('127.0.0.1:4319').describe('Address to listen on.'),
    store: ref(STORE).describe('The store of the projects and keys.'),
    token: secret()
      .refine((token) => !token.startsWith('ws_'), {
        error: 'a project key cannot be the admin token; use a separate secret',
      })
      .refine((token) => /^[\x21-\x7e]*$/.test(token), {
        error: 'a token must have printable ASCII characters only, without spaces',
      })
      .default('')
      .describe(
        'The admin token. If it is absent or empty, the first start creates one in the data directory of the store; a store without a data directory then has no admin API.',
      ),
    allowed_hosts: allowedHosts(),
    trusted_proxies: trustedProxies(),
    proxy_protocol: proxyProtocol(),
    tls: serverTls().optional().describe('Serves https. Default: plain http.'),
  })
  .superRefine(needsTrustedProxies);

export type AdminConfig = z.output<typeof config>;
