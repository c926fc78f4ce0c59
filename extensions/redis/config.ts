import { z } from 'zod';
import { clientTls } from '../../src/schema/client-tls.ts';
import { duration, secret } from '../../src/schema/fields.ts';

const sentinel = z.strictObject({
  name: z.string().min(1).describe('Name of the primary in the configuration of the Sentinels.'),
  addresses: z
    .array(z.string().regex(/^.+:\d{1,5}$/, 'expected host:port, such as sentinel-1:26379'))
    .min(1)
    .describe('Addresses of the Sentinels, each as `host:port`.'),
  password: secret().optional().describe('Password of the Sentinels.'),
  tls: z
    .boolean()
    .optional()
    .describe('Whether the Sentinels use TLS, with the files of `tls`. Default: as the URL says.'),
});

export const config = z
  .strictObject({
    url: secret()
      .refine((url) => /^rediss?:\/\//.test(url) && URL.canParse(url), {
        error: 'expected a redis:// or rediss:// URL',
      })
      .describe(
        'Address of Redis: `redis://user:password@host:6379/0`, or `rediss://` for TLS. With `sentinel`, ' +
          'host and port are ignored.',
      ),
    key_prefix: z
      .string()
      .regex(/^[\w.-]{1,64}$/, 'expected 1 to 64 letters, digits, ".", "_" or "-"')
      .default('tracectl')
      .describe('Prefix of every key, in braces, so that all keys are in one slot of a Cluster.'),
    command_timeout: duration('1s')
      .refine((ms) => ms >= 50 && ms <= 1500, { error: 'expected 50ms to 1500ms' })
      .describe(
        'A command without an answer fails after this. At most 1500ms, so that no request waits for Redis.',
      ),
    tls: clientTls('Redis')
      .optional()
      .describe('Files for TLS. With this field TLS is used for redis:// URLs too.'),
    sentinel: sentinel.optional().describe('Sentinels that know the address of the primary.'),
    cluster: z
      .boolean()
      .default(false)
      .describe('Whether the URL is that of a Redis Cluster node.'),
  })
  .refine(({ sentinel, cluster }) => sentinel === undefined || !cluster, {
    error: 'a Redis Cluster has no Sentinels: set either `cluster` or `sentinel`',
    path: ['sentinel'],
  });

export type RedisConfig = z.output<typeof config>;
