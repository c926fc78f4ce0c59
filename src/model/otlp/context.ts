import type { OtlpIndex } from '../batch-index.ts';
import { decodeResource, decodeScope, decodeSpan } from './decode.ts';
import type { SpanFacts } from './facts.ts';
import {
  OTLP_STRIDE,
  OtlpField,
  RESOURCE_STRIDE,
  ResourceField,
  SCOPE_STRIDE,
  ScopeField,
} from './fields.ts';
import { factsOfAttributes } from './observe.ts';
import { parseResource, parseScope, parseSpan } from './parse.ts';
import type { OtlpResource, OtlpScope, OtlpSpan } from './span.ts';

/** A number of the record of a span, resource or scope. */
export function spanField(index: OtlpIndex, position: number, field: number): number {
  return index.spans[position * OTLP_STRIDE + field] ?? 0;
}

export function resourceField(index: OtlpIndex, resource: number, field: number): number {
  return index.resources[resource * RESOURCE_STRIDE + field] ?? 0;
}

export function scopeField(index: OtlpIndex, scope: number, field: number): number {
  return index.scopes[scope * SCOPE_STRIDE + field] ?? 0;
}

export function spanAt(index: OtlpIndex, position: number): OtlpSpan {
  const start = spanField(index, position, OtlpField.START);
  const end = spanField(index, position, OtlpField.END);
  return index.type === 'otlp_proto'
    ? decodeSpan(index.bytes, start, end)
    : parseSpan(index, start, end);
}

export function resourceAt(index: OtlpIndex, resource: number): OtlpResource {
  const start = resourceField(index, resource, ResourceField.RESOURCE_START);
  const end = resourceField(index, resource, ResourceField.RESOURCE_END);
  return index.type === 'otlp_proto'
    ? decodeResource(index.bytes, start, end)
    : parseResource(index, start, end);
}

export function scopeAt(index: OtlpIndex, scope: number): OtlpScope {
  const start = scopeField(index, scope, ScopeField.SCOPE_START);
  const end = scopeField(index, scope, ScopeField.SCOPE_END);
  return index.type === 'otlp_proto'
    ? decodeScope(index.bytes, start, end)
    : parseScope(index, start, end);
}

/** What an index's resources amount to, made when the first of their spans asks. */
const factsOfResources = new WeakMap<OtlpIndex, (SpanFacts | undefined)[]>();

export function resourceFacts(index: OtlpIndex, resource: number): SpanFacts {
  let all = factsOfResources.get(index);
  if (all === undefined) {
    all = [];
    factsOfResources.set(index, all);
  }
  const known = all[resource];
  if (known !== undefined) return known;
  const facts = factsOfAttributes(resourceAt(index, resource).attributes);
  all[resource] = facts;
  return facts;
}
