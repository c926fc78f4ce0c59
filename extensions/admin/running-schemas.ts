import { z } from 'zod';

const time = z.iso.datetime().describe('ISO 8601, UTC');
const count = z.int().nonnegative();
const counter = count.optional();
const seconds = z.number().nonnegative();
const byCode = z.record(z.string(), count);

const service = z
  .strictObject({
    version: z.string(),
    now: time,
    up_since: time,
    store: z.string().describe('The id of the store that this listener manages.'),
    endpoints: z
      .array(z.strictObject({ url: z.string(), routes: z.array(z.string()) }))
      .describe(
        'Where clients send and read. A wildcard address has the host of this request in its place.',
      ),
  })
  .meta({ id: 'Service' });

const branch = z.strictObject({
  exporter: z.string(),
  entries: count.describe('Waiting or in delivery.'),
  leased: count.describe('In delivery.'),
  items: count.nullable(),
  oldest_at: time.nullable().describe('When the oldest entry was received.'),
});

const queue = z.strictObject({
  entries: count,
  leased: count,
  items: count.nullable(),
  oldest_at: time.nullable(),
  bytes: count.nullable().describe('Null if the queue does not count them, as `items`.'),
  max_bytes: count.nullable(),
  dead_letters: count,
  dead_letter_items: count,
  quarantined: count.nullable().describe('Damaged entries.'),
  branches: z.array(branch).describe('One for each exporter behind the queue.'),
});

const latency = z.strictObject({
  count,
  sum_seconds: seconds,
  p50_seconds: seconds.nullable(),
  p95_seconds: seconds.nullable(),
  bounds_seconds: z.array(seconds),
  buckets: z
    .array(count)
    .describe('How many took up to each bound and more than the one before; last the longer ones.'),
});

const node = z.strictObject({
  id: z.string().meta({ examples: ['receiver:otlp', 'processor:traces/accept:auth'] }),
  kind: z.enum(['receiver', 'processor', 'exporter', 'connector']),
  name: z.string().describe('The id of the configuration.'),
  type: z.string(),
  pipeline: z.string().nullable().describe('Of a receiver or processor.'),
  counters: z.strictObject({
    requests: counter,
    failed_requests: counter,
    items_in: counter,
    items_out: counter,
    items_edited: counter,
    retries: counter,
    items_rejected: count,
    items_dropped: count,
    items_failed: count,
  }),
  codes: z.strictObject({
    rejected: byCode,
    refused: byCode.describe('Requests, not items.'),
    dropped: byCode,
    failed: byCode,
  }),
  latency: latency.nullable().describe('Since the start.'),
  queue: queue.nullable(),
  health: z
    .strictObject({
      ready: z.boolean(),
      healthy: z.boolean(),
      message: z.string().nullable(),
      details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()])),
    })
    .nullable(),
});

const pipelines = z
  .strictObject({
    at: time,
    since: time.describe('When the counters began. They only grow until it changes.'),
    processes: count.describe('The workers that these numbers are from.'),
    nodes: z.array(node),
    edges: z.array(z.strictObject({ from: z.string(), to: z.string(), pipeline: z.string() })),
  })
  .meta({ id: 'Pipelines' });

const deadLetter = z
  .strictObject({
    queue: z.string().meta({ examples: ['disk_queue', 'worker-1/otlphttp'] }),
    id: count,
    exporter: z.string(),
    batch_id: z.string(),
    project_id: z.string(),
    items: count,
    bytes: count,
    code: z.string(),
    message: z.string(),
    failed_at: time,
  })
  .meta({ id: 'DeadLetter' });

const someLetters = z
  .strictObject({
    queue: z.string().min(1).max(300).optional().describe('Required if there are several.'),
    ids: z.union([z.literal('all'), z.array(count).min(1).max(1000)], {
      error: 'must be "all", or a list of 1 to 1000 ids, which are whole numbers',
    }),
  })
  .meta({ id: 'SomeDeadLetters' });

/** The schemas of the running service: its endpoints, pipelines and dead letters. */
export const RUNNING_SCHEMAS = {
  service,
  pipelines,
  deadLetter,
  deadLetters: z.strictObject({ dead_letters: z.array(deadLetter) }).meta({ id: 'DeadLetters' }),
  someLetters,
  replayed: z.strictObject({ replayed: count }).meta({ id: 'Replayed' }),
  dropped: z.strictObject({ dropped: count }).meta({ id: 'Dropped' }),
};

const name = z.string().min(1).max(300).optional();
const wholeNumber = z.string().regex(/^\d{1,15}$/, { error: 'must be a whole number' });

export const DEAD_LETTER_QUERY = z.strictObject({
  queue: name,
  exporter: name,
  limit: z
    .string()
    .regex(/^([1-9]\d{0,2}|1000)$/, { error: 'must be 1 to 1000' })
    .optional()
    .meta({ type: 'integer', minimum: 1, maximum: 1000, default: 100 }),
  after: wholeNumber
    .optional()
    .describe('The last id of the page before; with `queue`.')
    .meta({ type: 'integer', minimum: 0 }),
});
