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
      .describe('Failed authentications per minute that an address may make on average.'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(200)
      .describe('Failed authentications that an address may make at once.'),
    max_addresses: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Addresses to track. The one that failed longest ago is evicted first.'),
  })
  .prefault({})
  .describe(
    'Further requests without a valid key from an address over these limits get 429 instead of 401. Requests with a valid key are not affected.',
  );

const edge = z
  .strictObject({
    requests_per_second: z
      .number()
      .positive()
      .max(1_000_000)
      .optional()
      .describe('Requests of a key on average, reading ones included. Default: unlimited.'),
    burst: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of a key at once. Default: twice `requests_per_second`.'),
    max_in_flight: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe('Requests of a key in flight, reading ones included. Default: unlimited.'),
    max_keys: z
      .int()
      .min(1)
      .max(1_000_000)
      .default(10_000)
      .describe('Keys to track. The least recently used one is evicted first.'),
    failed_authentications: failedAuthentications,
  })
  .refine(({ requests_per_second, burst }) => !(requests_per_second === undefined && burst), {
    error: '`burst` is the tolerance of `requests_per_second`; set both',
    path: ['burst'],
  })
  .prefault({})
  .describe('Limits on requests, per key and per address.');

export const config = z
  .strictObject({
    store: ref(STORE)
      .optional()
      .describe('The store with the organization, its plan and the ledger.'),
    storage: ref(USAGE_COUNTERS)
      .optional()
      .describe('A `file_storage` that keeps the ledger, for pipelines without a store.'),
    counters: ref(REDIS)
      .optional()
      .describe(
        'A `redis` with counters that all replicas share. The ledger remains in the store.',
      ),
    monthly_events: z
      .int()
      .min(0)
      .optional()
      .describe("Accepted events per calendar month (UTC), instead of the plan's limit."),
    hourly_bytes: byteSize()
      .optional()
      .describe("Payload bytes per clock hour (UTC), instead of the plan's limit."),
    edge,
  })
  .refine(({ store, storage }) => (store === undefined) !== (storage === undefined), {
    error:
      'name either `store`, which has the organization, or `storage`, a file_storage that keeps the ledger',
  })
  .refine(({ counters, store }) => counters === undefined || store !== undefined, {
    error: '`counters` needs a `store` that keeps the ledger for all replicas',
    path: ['counters'],
  });

export type QuotasConfig = z.output<typeof config>;
export type EdgeConfig = QuotasConfig['edge'];
