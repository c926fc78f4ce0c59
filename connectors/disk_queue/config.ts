import { z } from 'zod';
import { QUEUE_STORAGE } from '../../src/queue/queue.ts';
import { byteSize, duration, ref } from '../../src/schema/fields.ts';
import { STORE } from '../../src/store/store.ts';

export const config = z
  .strictObject({
    store: ref(STORE)
      .optional()
      .describe('The store that keeps the queue: its own table of raw batches, nothing is copied.'),
    storage: ref(QUEUE_STORAGE)
      .optional()
      .describe('A `file_storage` that keeps the queue, for pipelines without a store.'),
    directory: z
      .string()
      .min(1)
      .optional()
      .describe("A directory of the queue's own, instead of `store` or `storage`."),
    max_bytes: byteSize('10GiB').describe(
      'Bodies that may wait. At the bound new requests are refused (503), nothing is dropped.',
    ),
    num_consumers: z
      .int()
      .min(1)
      .max(1000)
      .default(2)
      .describe('Batches that are delivered at the same time, for each exporter behind the queue.'),
    initial_interval: duration('1s').describe(
      'Wait before the first retry; then twice as long each.',
    ),
    max_interval: duration('30s').describe('The longest wait between two tries. They never end.'),
  })
  .refine(
    ({ store, storage, directory }) => [store, storage, directory].filter(isNamed).length === 1,
    {
      error: 'name exactly one of `store`, `storage` and `directory`, where the queue is kept',
    },
  );

function isNamed(place: string | undefined): boolean {
  return place !== undefined;
}

export type DiskQueueConfig = z.output<typeof config>;
