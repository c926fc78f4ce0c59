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
      .describe('Failed authentications of one address per minute, in the long run'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(200)
      .describe('Failed authentications of one address in a burst'),
    max_addresses: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Addresses in memory; the address that failed longest ago is evicted first'),
  })
  .prefault({})
  .describe(
    'A request from an address over these limits is refused (429) before its key is checked',
  );

const edge = z
  .strictObject({
    requests_per_second: z
      .number()
      .positive()
      .max(1_000_000)
      .optional()
      .describe('Requests of one key per second, in the long run. Default: unlimited'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of one key in a burst. Default: twice `requests_per_second`'),
    max_in_flight: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of one key in flight. Default: unlimited'),
    max_keys: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Keys in memory with their rate; the key used longest ago is evicted first'),
    failed_authentications: failedAuthentications,
  })
  .refine(({ requests_per_second, burst }) => !(requests_per_second === undefined && burst), {
    error: '`burst` extends `requests_per_second`; set both',
    path: ['burst'],
  })
  .prefault({})
  .describe('Limits on the requests of each key and each address');

export const config = z
  .strictObject({
    store: ref(STORE)
      .optional()
      .describe('The store with the plan of the organization and the usage ledger'),
    storage: ref(USAGE_COUNTERS)
      .optional()
      .describe('The `file_storage` with the usage ledger, for pipelines without a store'),
    counters: ref(REDIS)
      .optional()
      .describe('The `redis` with counters for all replicas; the ledger stays in the store'),
    monthly_events: z
      .int()
      .min(0)
      .optional()
      .describe('Accepted events in a calendar month (UTC). Replaces the limit of the plan'),
    hourly_bytes: byteSize()
      .optional()
      .describe('Payload bytes in a clock hour (UTC). Replaces the limit of the plan'),
    edge,
  })
  .refine(({ store, storage }) => (store === undefined) !== (storage === undefined), {
    error:
      'set either `store`, the store of the organization, or `storage`, a file_storage for the ledger',
  })
  .refine(({ counters, store }) => counters === undefined || store !== undefined, {
    error: '`counters` needs a `store` with the ledger of all replicas',
    path: ['counters'],
  });

export type QuotasConfig = z.output<typeof config>;
export type EdgeConfig = QuotasConfig['edge'];
