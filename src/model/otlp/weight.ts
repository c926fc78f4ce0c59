import type { OtlpIndex } from '../batch-index.ts';
import { resourceField, scopeField, spanField } from './context.ts';
import {
  MAX_SHARED_WEIGHT,
  MAX_WEIGHT,
  OTLP_STRIDE,
  OtlpField,
  RESOURCE_STRIDE,
  ResourceField,
  SCOPE_STRIDE,
  ScopeField,
  WEIGHT_OF_KEY,
} from './fields.ts';

/** The reason to refuse a span if it, its resource or its scope has too many elements. */
export function tooHeavy(index: OtlpIndex, position: number): string | undefined {
  if (spanField(index, position, OtlpField.WEIGHT) > MAX_WEIGHT) {
    return `${pathOfSpan(index, position)} has more than ${OF_SPAN}`;
  }
  const resource = spanField(index, position, OtlpField.RESOURCE);
  if (resourceField(index, resource, ResourceField.WEIGHT) > MAX_SHARED_WEIGHT) {
    const place = resourceField(index, resource, ResourceField.PLACE);
    return `resourceSpans[${place}].resource has more than ${OF_SHARED}`;
  }
  const scope = spanField(index, position, OtlpField.SCOPE);
  if (scopeField(index, scope, ScopeField.WEIGHT) > MAX_SHARED_WEIGHT) {
    const outer = resourceField(index, resource, ResourceField.PLACE);
    const inner = scopeField(index, scope, ScopeField.PLACE);
    return `resourceSpans[${outer}].scopeSpans[${inner}].scope has more than ${OF_SHARED}`;
  }
  return undefined;
}

/** The weight of all spans, resources and scopes. */
export function weightOf({ count, spans, resources, scopes }: OtlpIndex): number {
  let weight = 0;
  for (let i = 0; i < count; i++) weight += spans[i * OTLP_STRIDE + OtlpField.WEIGHT] ?? 0;
  for (let i = ResourceField.WEIGHT; i < resources.length; i += RESOURCE_STRIDE) {
    weight += resources[i] ?? 0;
  }
  for (let i = ScopeField.WEIGHT; i < scopes.length; i += SCOPE_STRIDE) weight += scopes[i] ?? 0;
  return weight;
}

const OF_SPAN = keysOfWeight(MAX_WEIGHT);
const OF_SHARED = keysOfWeight(MAX_SHARED_WEIGHT);

/** A weight in the words of an error. */
export function keysOfWeight(weight: number): string {
  return `${weight / WEIGHT_OF_KEY} keys of attributes, each ${WEIGHT_OF_KEY} values of arrays counted as one`;
}

/** The path of a span in its request. */
export function pathOfSpan(index: OtlpIndex, position: number): string {
  const resource = spanField(index, position, OtlpField.RESOURCE);
  const scope = spanField(index, position, OtlpField.SCOPE);
  const place = position - scopeField(index, scope, ScopeField.FIRST_SPAN);
  const outer = resourceField(index, resource, ResourceField.PLACE);
  const inner = scopeField(index, scope, ScopeField.PLACE);
  return `resourceSpans[${outer}].scopeSpans[${inner}].spans[${place}]`;
}
