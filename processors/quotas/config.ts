import { z } from 'zod';
import { REDIS } from '../../src/redis/redis.ts';
import { byteSize, ref } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';
import { USAGE_COUNTERS } from '../../src/tenancy/contract.ts';

const failedAuthentications = z
  .strictObject({
    per_minute: z
      .number()
      .positive()
      .max(1_000_000)
      .default(600)
      .describe('Failed authentications that one address may make in the long run'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(200)
      .describe('How many of them it may make at once'),
    max_addresses: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe(
        'Addresses that are remembered; the one that failed longest ago is forgotten first',
      ),
  })
  .prefault({})
  .describe('An address that exceeds this is refused (429) before its key is looked at');

const edge = z
  .strictObject({
    requests_per_second: z
      .number()
      .positive()
      .max(1_000_000)
      .optional()
      .describe('Requests of one key in the long run; unlimited where it is left out'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of one key at once; twice `requests_per_second` where it is left out'),
    max_in_flight: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of one key under way at the same time; unlimited where it is left out'),
    max_keys: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Keys whose rate is remembered; the one used longest ago is forgotten first'),
    failed_authentications: failedAuthentications,
  })
  .refine(({ requests_per_second, burst }) => !(requests_per_second === undefined && burst), {
    error: '`burst` says how far `requests_per_second` may be exceeded; set that too',
    path: ['burst'],
  })
  .prefault({})
  .describe('Limits on requests, for each key and each address');

export const config = z
  .strictObject({
    store: ref(STORE)
      .optional()
      .describe('The store whose organization has the plan, and whose ledger is counted'),
    storage: ref(USAGE_COUNTERS)
      .optional()
      .describe('A `file_storage` that keeps the ledger, for pipelines without a store'),
    counters: ref(REDIS)
      .optional()
      .describe('A `redis` in which all replicas count together; the ledger stays in the store'),
    monthly_events: z
      .int()
      .min(0)
      .optional()
      .describe('Accepted events in a calendar month (UTC), instead of what the plan allows'),
    hourly_bytes: byteSize()
      .optional()
      .describe('Payload bytes in a clock hour (UTC), instead of what the plan allows'),
    edge,
  })
  .refine(({ store, storage }) => (store === undefined) !== (storage === undefined), {
    error:
      'name either `store`, whose organization is counted, or `storage`, a file_storage that keeps the ledger',
  })
  .refine(({ counters, store }) => counters === undefined || store !== undefined, {
    error: '`counters` needs a `store` that keeps the ledger for all replicas',
    path: ['counters'],
  });

export type QuotasConfig = z.output<typeof config>;
export type EdgeConfig = QuotasConfig['edge'];
