import { z } from 'zod';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { byteSize, duration, ref } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z
  .strictObject({
    store: ref(STORE)
      .optional()
      .describe('The store that keeps the queue, in its table of raw batches.'),
    storage: ref(QUEUE_STORAGE)
      .optional()
      .describe('The `file_storage` that keeps the queue, for pipelines without a store.'),
    directory: z
      .string()
      .min(1)
      .optional()
      .describe(
        'A directory for this queue only, instead of `store` or `storage`. Its free space and its reserve are those that `file_storage` has by default.',
      ),
    max_bytes: byteSize('10GiB').describe(
      'Limit of the bodies that wait. At the limit new requests are refused (503); nothing is dropped.',
    ),
    max_backlog_age: duration('0s').describe(
      'Longest wait of a batch for its first delivery. A project whose oldest batch waits longer is refused (503) until it is delivered; other projects are not. 0 is without a limit: for exporters to other systems, so that the queue takes what comes while they are slow. Batches that are retried, and outages of an exporter, do not count.',
    ),
    num_consumers: z
      .int()
      .min(1)
      .max(1000)
      .default(2)
      .describe(
        'Batches in delivery at the same time, for each exporter behind the queue. An exporter into SQLite takes up to 8 small batches in the place of one. One more is delivered beside them if it is small and its project has none in delivery.',
      ),
    initial_interval: duration('1s').describe(
      'Wait before the first retry. Each further wait is twice as long.',
    ),
    max_interval: duration('30s').describe(
      'Longest wait between two attempts. Their number is not limited.',
    ),
  })
  .refine(
    ({ store, storage, directory }) => [store, storage, directory].filter(isNamed).length === 1,
    {
      error: 'set exactly one of `store`, `storage` and `directory`: the place of the queue',
    },
  );

function isNamed(place: string | undefined): boolean {
  return place !== undefined;
}

export type DiskQueueConfig = z.output<typeof config>;
