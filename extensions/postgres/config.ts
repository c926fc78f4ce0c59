import { z } from 'zod';
import { clientTls } from '../../src/schema/client-tls.ts';
import { duration, secret } from '../../src/schema/fields.ts';
import { payloadSearch } from '../../src/schema/payload-search.ts';
import { organization, plans } from '../../src/tenancy/plans.ts';
import { rejections } from '../../src/tenancy/rejections.ts';

/** With the defaults, no client waits longer than 2 s for a connection or for a result. */
const callTimeout = (byDefault: string) =>
  duration(byDefault).refine((ms) => ms >= 50 && ms <= 60_000, { error: 'expected 50ms to 60s' });

/** For work that no open request waits for. */
const workTimeout = (byDefault: string) =>
  duration(byDefault).refine((ms) => ms >= 50 && ms <= 3_600_000, {
    error: 'expected 50ms to 1h',
  });

const timeouts = z.strictObject({
  accept: callTimeout('1800ms').describe(
    'Statements that the request of a client waits for: its key, its limits, and the whole transaction that accepts a batch. How long the client waits is `answer_timeout` of the `bullmq` exporter.',
  ),
  write: workTimeout('5s').describe('Deliveries: leases, observations, outcomes.'),
  read: workTimeout('10s').describe(
    'The read API, lists and sums. A slower one is answered with 504 (`query_timeout`).',
  ),
  verify: workTimeout('30s').describe('A step of `usage verify`.'),
  rebuild: workTimeout('30s').describe(
    'A step that sums the ledger up for lost quota counters, and the longest wait for transactions in flight.',
  ),
  housekeeping: workTimeout('30s').describe('A step that removes data or sums usage up.'),
});

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
      'Most connections of this process for accepting, and again for delivering. Appends that arrive together share one transaction, so few are enough. Up to 3 more do background work, and one listens for notices.',
    ),
  read_connections: z
    .int()
    .min(1)
    .max(1000)
    .default(4)
    .describe(
      'Most connections of this process for reading, so that reading never holds up accepting.',
    ),
  connect_timeout: callTimeout('1500ms').describe(
    'Longest wait for a connection; then the call fails.',
  ),
  timeouts: timeouts
    .prefault({})
    .describe('Longest run of a statement, by purpose. Then the server cancels it.'),
  query_timeout: duration()
    .refine((ms) => ms >= 50 && ms <= 60_000, { error: 'expected 50ms to 60s' })
    .optional()
    .describe('Former name of `timeouts.accept`; counts instead of it if set.'),
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
  stale_after: duration('24h').describe(
    'A trace without an end is `interrupted` instead of `running` if its newest time is older. An end that arrives later ends it.',
  ),
  trace_partitions: z
    .enum(['1d', '7d', '30d'])
    .optional()
    .describe(
      'Days of a partition of traces and observations. Retention drops whole partitions, so that an expired trace stays on the disk, out of reach of readers, for up to so many days and 26 hours. Shorter ones cost more: a page of a listing takes 0.1 to 0.5 ms for each partition. Default: `1d` if no project keeps traces for more than 14 days, `7d` up to 98 days, else `30d`. A change is for new partitions.',
    ),
  search: payloadSearch.describe(
    'Text search in payloads. All processes need the same; the one that starts last decides.',
  ),
  rejections,
  tls: clientTls('Postgres')
    .optional()
    .describe('TLS of the connection. Default: the `sslmode` of the URL.'),
});

export type PostgresConfig = z.output<typeof config>;
