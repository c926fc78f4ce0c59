import { z } from 'zod';
import { endpoint, ref, secret } from '../../src/schema/fields.ts';
import { serverTls } from '../../src/schema/server-tls.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z.strictObject({
  endpoint: endpoint('127.0.0.1:4319').describe('Where to listen'),
  store: ref(STORE).describe('The store whose projects and keys are managed'),
  token: secret()
    .refine((token) => !token.startsWith('ws_'), {
      error: 'a project key cannot be the admin token; take a secret of its own',
    })
    .refine((token) => /^[\x21-\x7e]*$/.test(token), {
      error: 'a token has printable ASCII characters alone, without spaces',
    })
    .default('')
    .describe(
      'The admin token. Without one, or with an empty one, it is made at the first start and kept in the data directory of the store; where the store has none, the API is not served',
    ),
  tls: serverTls().optional().describe('Serves https; plain http where it is left out'),
});

export type AdminConfig = z.output<typeof config>;
