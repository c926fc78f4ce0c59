import { z } from 'zod';
import { duration, ref, secret } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';

const fixedKey = z.strictObject({
  token: secret().min(1).describe('The key that clients send.'),
  project: z.string().min(1).describe('The project of requests with this key.'),
  permissions: z
    .array(z.enum(['ingest:write', 'traces:read']))
    .min(1)
    .default(['ingest:write', 'traces:read'])
    .describe('Permissions of the key.'),
});

export const config = z
  .strictObject({
    store: ref(STORE).optional().describe('The store with the projects and keys.'),
    keys: z.array(fixedKey).min(1).optional().describe('Fixed keys, instead of a store.'),
    cache_ttl: duration('5s').describe(
      'How long a key of the store is cached. A key that another process revokes is refused after at most this time.',
    ),
  })
  .refine(({ store, keys }) => (store === undefined) !== (keys === undefined), {
    error: 'name either a store or fixed keys',
  })
  .refine(({ keys = [] }) => new Set(keys.map(({ token }) => token)).size === keys.length, {
    error: 'two fixed keys have the same token',
    path: ['keys'],
  });

export type AuthConfig = z.output<typeof config>;
