import { z } from 'zod';
import { clientTls } from '../../src/schema/client-tls.ts';
import { duration, secret } from '../../src/schema/fields.ts';
import { organization, plans } from '../../src/tenancy/plans.ts';
import { rejections } from '../../src/tenancy/rejections.ts';

/** With the defaults, no caller waits longer than 2 s for a connection or for a result. */
const callTimeout = (byDefault: string) =>
  duration(byDefault).refine((ms) => ms >= 50 && ms <= 60_000, { error: 'expected 50ms to 60s' });

export const config = z.strictObject({
  url: secret()
    .refine((url) => /^postgres(ql)?:\/\//.test(url) && URL.canParse(url), {
      error: 'expected a postgres:// URL',
    })
    .describe('Address of Postgres: `postgres://user:password@host:5432/database`. Never printed.'),
  max_connections: z
    .int()
    .min(2)
    .max(1000)
    .default(10)
    .describe(
      'Most connections of this process, plus one that listens for notices. Appends that arrive together share one transaction, so few are enough.',
    ),
  connect_timeout: callTimeout('1500ms').describe(
    'Longest wait for a connection; then the call fails.',
  ),
  query_timeout: callTimeout('1800ms').describe(
    'Longest run of a statement, here and at the server, and of the whole transaction that accepts a batch; then the connection is closed. How long a client waits is `answer_timeout` of the `bullmq` exporter.',
  ),
  migrate: z
    .enum(['auto', 'off'])
    .default('auto')
    .describe(
      'With `auto` a start migrates the tables, one process at a time. With `off` it only checks them, for a role that may not change tables.',
    ),
  group_timeout: duration('30s')
    .refine((ms) => ms >= 100, { error: 'expected at least 100ms' })
    .describe(
      'Longest run of a group: calls that share statements, such as appends, takes and acknowledgements. Then the group is abandoned, its calls are retried, and later calls proceed. Keep it above the time-outs of two statements.',
    ),
  plans: plans.describe(
    'Limits of each plan. A new organization has the plan `scale`. All processes need the same.',
  ),
  organization: organization.describe(
    "Limits of this organization, each in place of its plan's limit.",
  ),
  rejections,
  tls: clientTls('Postgres')
    .optional()
    .describe('TLS of the connection. Default: the `sslmode` of the URL.'),
});

export type PostgresConfig = z.output<typeof config>;
