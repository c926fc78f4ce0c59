import type { Processor, Settings } from '../../src/component/component.ts';
import type { Batch, ObservationBatch } from '../../src/model/batch.ts';
import { observeEach } from '../../src/model/formats.ts';

/**
 * Raw items become observations: narrow fields are decoded, payloads stay in the raw batch, which goes
 * along as the observations' source.
 *
 *   raw batch ── its items, one by one ─┬─ observation ─────────────▶ observation batch ─▶ exporters
 *                                       └─ cannot be read: counted, logged, and its siblings go on
 */
export function createNormalization(settings: Settings): Processor {
  const failedItems = settings.metrics.counter(
    'tracectl_processor_normalization_failed_items_total',
    'Accepted items that could not be normalized; they stay in the raw batch.',
  );
  return {
    async start() {},
    async shutdown() {},
    process(batch: Batch): Batch {
      if (batch.kind === 'observations') return batch;
      const { observations, failures } = observeEach(batch);
      if (failures.length > 0) {
        failedItems.add(failures.length);
        const [first] = failures;
        settings.logger.warn(
          {
            batch: batch.id,
            format: batch.format,
            failed: failures.length,
            index: first?.index,
            error: first?.error,
          },
          'Items could not be normalized.',
        );
      }
      return { kind: 'observations', source: batch, observations } satisfies ObservationBatch;
    },
  };
}
