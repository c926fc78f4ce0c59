import type { RequestProcessor } from '../../src/component/component.ts';
import type { ReceivedBatch } from '../../src/model/batch.ts';
import type { JsonIndex } from '../../src/model/batch-index.ts';
import { COMMON } from '../../src/model/json/fields.ts';
import { isJsonIndex, pathOf, typeAt } from '../../src/model/json/read.ts';
import { otlpCustomFieldRejections } from '../../src/model/otlp/rules.ts';
import { isOpen, reject } from '../../src/model/verbs.ts';

/**
 * Spec 2.6: custom fields are an object or null at each of their places; an event with any other value is
 * rejected before it is durable. Normalization merges the places.
 */
export function createProcessor(): RequestProcessor {
  return {
    async start() {},
    async shutdown() {},
    process(batch) {
      const { index } = batch;
      if (isJsonIndex(index)) {
        rejectEvents(batch, index);
        return;
      }
      for (const { index: item, code, reason } of otlpCustomFieldRejections(index)) {
        reject(batch, item, code, reason);
      }
    },
  };
}

function rejectEvents(batch: ReceivedBatch, index: JsonIndex): void {
  for (let item = 0; item < index.count; item++) {
    const place = isOpen(batch, item) ? invalidPlace(index, item) : undefined;
    if (place === undefined) continue;
    const path = `${pathOf(index, item)}.${place}`;
    reject(batch, item, 'invalid_custom_fields', 'must be an object or null', path);
  }
}

/** In the order in which the first invalid place is reported. */
const PLACES = [
  'custom_fields',
  'metadata.custom_fields',
  'extra.metadata.custom_fields',
  'context_metadata.custom_fields',
] as const;
const SLOTS: readonly number[] = PLACES.map((place) => COMMON[place]);

function invalidPlace(index: JsonIndex, position: number): string | undefined {
  for (let i = 0; i < SLOTS.length; i++) {
    const type = typeAt(index, position, SLOTS[i] ?? 0);
    if (type !== 'absent' && type !== 'null' && type !== 'object') return PLACES[i];
  }
  return undefined;
}
