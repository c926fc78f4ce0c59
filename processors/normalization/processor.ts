import type { Processor, Settings } from '../../src/component/component.ts';
import type { Batch, ItemFailure } from '../../src/model/batch.ts';
import { PermanentError } from '../../src/model/errors.ts';
import type { UnreadableItem } from '../../src/model/formats.ts';
import { observeEach } from '../../src/model/formats.ts';

/**
 * Raw items become observations: narrow fields are decoded, payloads stay in the raw batch, which goes
 * along as the observations' source.
 *
 *   raw batch ── its items, one by one ─┬─ observation ─────────────▶ observation batch ─▶ exporters
 *                                       └─ cannot be read: counted, logged, set aside by the queue; its siblings go on
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
      return failures.length === 0
        ? { kind: 'observations', source: batch, observations }
        : {
            kind: 'observations',
            source: batch,
            observations,
            failures: failures.map(itemFailure),
          };
    },
  };
}

function itemFailure({ index, error }: UnreadableItem): ItemFailure {
  const message = error instanceof Error ? error.message : String(error);
  const code = error instanceof PermanentError ? error.code : 'unreadable_event';
  return { index, code, message };
}
