import type { Processor } from '../../src/component/component.ts';
import type { Batch, Rejection, SealedBatch } from '../../src/model/batch.ts';
import { reject } from '../../src/model/batch.ts';
import type { JsonIndex } from '../../src/model/batch-index.ts';
import { indexOf, itemId, requestIndexOf } from '../../src/model/formats.ts';
import { COMMON } from '../../src/model/json/fields.ts';
import { isJsonIndex, pathOf, typeAt } from '../../src/model/json/read.ts';
import { otlpCustomFieldRejections } from '../../src/model/otlp/rules.ts';

/**
 * Spec 2.6: in each of the places custom fields may stand in, only an object or null will do. Merging
 * them is normalization's work; this decides who is rejected, before anything is made durable.
 */
export function createProcessor(): Processor {
  return {
    async start() {},
    async shutdown() {},
    process(batch: Batch): Batch {
      if (batch.kind === 'raw') reject(batch, rejectionsOf(batch));
      return batch;
    },
  };
}

function rejectionsOf(batch: SealedBatch): readonly Rejection[] {
  const index = indexOf(batch);
  if (!isJsonIndex(index)) {
    return otlpCustomFieldRejections(index).map((rejection) => ({
      ...rejection,
      index: requestIndexOf(batch, rejection.index),
    }));
  }
  const rejections: Rejection[] = [];
  for (let position = 0; position < index.count; position++) {
    const path = invalidPath(index, position);
    if (path === undefined) continue;
    const id = itemId(index, position);
    rejections.push({
      index: requestIndexOf(batch, position),
      ...(id === undefined ? {} : { id }),
      code: 'invalid_custom_fields',
      reason: `${pathOf(index, position)}.${path} must be an object or null`,
    });
  }
  return rejections;
}

/** The places, in the order in which the first wrong one is named. */
const PLACES = [
  'custom_fields',
  'metadata.custom_fields',
  'extra.metadata.custom_fields',
  'context_metadata.custom_fields',
] as const;

function invalidPath(index: JsonIndex, position: number): string | undefined {
  for (const place of PLACES) {
    const type = typeAt(index, position, COMMON[place]);
    if (type !== 'absent' && type !== 'null' && type !== 'object') return place;
  }
  return undefined;
}
