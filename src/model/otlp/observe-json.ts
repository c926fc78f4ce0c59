import type { OtlpIndex } from '../batch-index.ts';
import type { Observation } from '../observation.ts';
import { resourceFacts, spanAt, spanField } from './context.ts';
import { OtlpField } from './fields.ts';
import { factsOfSpan, observationOfSpan, spanHeadOf } from './observe.ts';

/** A span in JSON as an observation. */
export function observeJson(index: OtlpIndex, position: number, requestIndex: number): Observation {
  const span = spanAt(index, position);
  const resource = resourceFacts(index, spanField(index, position, OtlpField.RESOURCE));
  return observationOfSpan(spanHeadOf(span), factsOfSpan(span), resource, requestIndex);
}
