import { z } from 'zod';
import { clientTls } from '../../src/schema/client-tls.ts';
import { duration, secret } from '../../src/schema/fields.ts';

const sentinel = z.strictObject({
  name: z.string().min(1).describe('What the Sentinels call the primary.'),
  addresses: z
    .array(z.string().regex(/^.+:\d{1,5}$/, 'expected host:port, such as sentinel-1:26379'))
    .min(1)
    .describe('The Sentinels, `host:port` each.'),
  password: secret().optional().describe('For the Sentinels themselves.'),
  tls: z
    .boolean()
    .optional()
    .describe(
      'Whether the Sentinels are reached over TLS, with the files of `tls`. Left out, as the URL says.',
    ),
});

export const config = z
  .strictObject({
    url: secret()
      .refine((url) => /^rediss?:\/\//.test(url) && URL.canParse(url), {
        error: 'expected a redis:// or rediss:// URL',
      })
      .describe(
        'Where Redis is: `redis://user:password@host:6379/0`, or `rediss://` for TLS. With `sentinel`, ' +
          'its host and port do not matter.',
      ),
    key_prefix: z
      .string()
      .regex(/^[\w.-]{1,64}$/, 'expected 1 to 64 letters, digits, ".", "_" or "-"')
      .default('tracectl')
      .describe('Begins every key, in braces, so that all of them are in one slot of a Cluster.'),
    command_timeout: duration('1s')
      .refine((ms) => ms >= 50 && ms <= 1500, { error: 'expected 50ms to 1500ms' })
      .describe(
        'After this a command has failed, so that no request waits for Redis. At most 1500ms.',
      ),
    tls: clientTls('Redis').optional().describe('TLS, whatever the URL says, with these files.'),
    sentinel: sentinel.optional().describe('Sentinels that know where the primary is.'),
    cluster: z.boolean().default(false).describe('The URL is that of a node of a Redis Cluster.'),
  })
  .refine(({ sentinel, cluster }) => sentinel === undefined || !cluster, {
    error: 'a `cluster` has no Sentinels: name one of the two',
    path: ['sentinel'],
  });

export type RedisConfig = z.output<typeof config>;
