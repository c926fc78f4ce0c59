import { z } from 'zod';
import { clientTls } from '../../src/schema/client-tls.ts';
import { duration, secret } from '../../src/schema/fields.ts';
import { organization, plans } from '../../src/tenancy/plans.ts';
import { rejections } from '../../src/tenancy/rejections.ts';

/** No caller waits longer than 2 s in all: for a connection, or for an answer. */
const patience = (byDefault: string) =>
  duration(byDefault).refine((ms) => ms >= 50 && ms <= 60_000, { error: 'expected 50ms to 60s' });

export const config = z.strictObject({
  url: secret()
    .refine((url) => /^postgres(ql)?:\/\//.test(url) && URL.canParse(url), {
      error: 'expected a postgres:// URL',
    })
    .describe('Where Postgres is: `postgres://user:password@host:5432/database`.'),
  max_connections: z
    .int()
    .min(2)
    .max(1000)
    .default(10)
    .describe('Connections of this process at the most.'),
  connect_timeout: patience('1500ms').describe(
    'How long a caller waits for a connection; then it is told that Postgres is away.',
  ),
  query_timeout: patience('1800ms').describe(
    'How long a statement may take, here and at the server; then its connection is given up.',
  ),
  migrate: z
    .enum(['auto', 'off'])
    .default('auto')
    .describe(
      'auto: the start brings the tables up to date, one process at a time. off: it only checks, for a role that may not change tables.',
    ),
  plans: plans.describe('What each plan allows. An organization starts on `scale`.'),
  organization: organization.describe(
    "This organization's own limits, each in place of its plan's.",
  ),
  rejections,
  tls: clientTls('Postgres')
    .optional()
    .describe('How the connection is secured. Without it, what the URL says (`sslmode`).'),
});

export type PostgresConfig = z.output<typeof config>;
