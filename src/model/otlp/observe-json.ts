import type { OtlpIndex } from '../batch-index.ts';
import type { Observation } from '../observation.ts';
import { resourceFacts, scopeName, spanAt, spanField } from './context.ts';
import { OtlpField } from './fields.ts';
import { factsOfSpan, observationOfSpan, spanHeadOf } from './observe.ts';

/** A span in JSON as an observation. */
export function observeJson(index: OtlpIndex, position: number, requestIndex: number): Observation {
  const span = spanAt(index, position);
  const resource = resourceFacts(index, spanField(index, position, OtlpField.RESOURCE));
  const scope = scopeName(index, spanField(index, position, OtlpField.SCOPE));
  return observationOfSpan(spanHeadOf(span, scope), factsOfSpan(span), resource, requestIndex);
}
