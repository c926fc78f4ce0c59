import type { BatchProcessor, Settings } from '../../src/component/component.ts';
import type { Batch, SealedBatch } from '../../src/model/batch.ts';
import type { BatchIndex, JsonIndex } from '../../src/model/batch-index.ts';
import { observeEach, SMALL_BODY_BYTES, smallIndexOf } from '../../src/model/formats.ts';
import { customFieldBytes } from '../../src/model/json/item.ts';
import { isJsonIndex, lengthAt } from '../../src/model/json/read.ts';
import { withinLimits } from '../../src/model/narrow-limits.ts';
import { NATIVE } from '../../src/model/native/fields.ts';
import { WEIGHT_OF_KEY } from '../../src/model/otlp/fields.ts';
import { weightOf } from '../../src/model/otlp/weight.ts';
import { RUN } from '../../src/model/runs/fields.ts';
import type { Observed } from './large.ts';
import { createLargeObserver, itemFailure } from './large.ts';

/**
 * Turns raw items into observations: decodes narrow fields and leaves payloads in the raw batch, the source of the
 * observations. A narrow field beyond its limit is cut. Large batches are normalized in a thread, and those with many keys.
 *
 *   raw batch ── its items, one by one ─┬─ observation ─────────────▶ observation batch ─▶ exporters
 *                                       └─ cannot be read: counted, logged, a dead letter of the queue
 */
export function createProcessor(settings: Settings): BatchProcessor<'raw'> {
  const failedItems = settings.metrics.counter(
    'tracectl_processor_normalization_failed_items_total',
    'Accepted items that could not be normalized; they stay in the raw batch.',
  );
  const large = createLargeObserver();

  function observe(batch: SealedBatch): Observed | Promise<Observed> {
    const index = smallIndexOf(batch, SMALL_BODY_BYTES);
    if (index === undefined || isDense(index)) return large.observe(batch);
    const { observations, failures } = observeEach(batch);
    return { observations: observations.map(withinLimits), failures: failures.map(itemFailure) };
  }

  function emit(source: SealedBatch, { observations, failures }: Observed, again: boolean): Batch {
    if (failures.length === 0) return { kind: 'observations', source, observations };
    if (!again) failedItems.add(failures.length);
    const [first] = failures;
    settings.logger.warn(
      { batch: source.id, format: source.format, failed: failures.length, ...first },
      'Items could not be normalized',
    );
    return { kind: 'observations', source, observations, failures };
  }

  return {
    async start() {},
    shutdown: () => large.close(),
    process(batch, again = false) {
      const observed = observe(batch);
      if (observed instanceof Promise) return observed.then((seen) => emit(batch, seen, again));
      return emit(batch, observed, again);
    },
  };
}

/** Custom fields or token counts of 512 KiB would hold the event loop for a tenth of a second. */
const MOST_FIELD_BYTES = 65_536;
/** Clients send token counts in up to 400 bytes an event. */
const USUAL_USAGE_BYTES = 512;
/** Usual counts in each of 1,000 events would hold it for half of that. A batch of this size has hardly more in its counts than in all else. */
const MOST_USAGE_BYTES = 131_072;
const USAGE_SLOTS = {
  native: [NATIVE.usage],
  runs: [RUN['outputs.usage_metadata'], RUN['outputs.usage'], RUN['extra.metadata.usage_metadata']],
} as const;
/** Keys of attributes, of which a new one takes three microseconds. Clients spend more than 60 bytes on each. */
const MOST_KEYS = 8_192;

/** The body is small and takes long all the same. */
function isDense(index: BatchIndex): boolean {
  if (isJsonIndex(index)) {
    const { all, unusual } = usageBytes(index);
    return all > MOST_USAGE_BYTES || customFieldBytes(index) + unusual > MOST_FIELD_BYTES;
  }
  return weightOf(index) > MOST_KEYS * WEIGHT_OF_KEY;
}

/** The bytes of token counts, and those beyond the usual ones of each item. */
function usageBytes(index: JsonIndex): { readonly all: number; readonly unusual: number } {
  let all = 0;
  let unusual = 0;
  for (let position = 0; position < index.count; position++) {
    for (const slot of USAGE_SLOTS[index.type]) {
      const bytes = lengthAt(index, position, slot);
      all += bytes;
      unusual += Math.max(0, bytes - USUAL_USAGE_BYTES);
    }
  }
  return { all, unusual };
}
