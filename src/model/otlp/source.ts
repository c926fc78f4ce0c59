import type { OtlpIndex } from '../batch-index.ts';
import {
  resourceAt,
  resourceField,
  schemaUrlAt,
  scopeAt,
  scopeField,
  spanAt,
  spanField,
} from './context.ts';
import { OtlpField, ResourceField, ScopeField } from './fields.ts';

/**
 * One span with its resource and scope as an export request in OTLP's JSON form: the received text for JSON, all
 * known fields for protobuf.
 */
export function sourceOfSpan(index: OtlpIndex, position: number): string {
  const resource = spanField(index, position, OtlpField.RESOURCE);
  const scope = spanField(index, position, OtlpField.SCOPE);
  const scopeSpans = objectOf({
    scope: scopeText(index, scope),
    spans: `[${spanText(index, position)}]`,
    schemaUrl: schemaUrlText(
      index,
      scopeField(index, scope, ScopeField.START),
      scopeField(index, scope, ScopeField.END),
    ),
  });
  const resourceSpans = objectOf({
    resource: resourceText(index, resource),
    scopeSpans: `[${scopeSpans}]`,
    schemaUrl: schemaUrlText(
      index,
      resourceField(index, resource, ResourceField.START),
      resourceField(index, resource, ResourceField.END),
    ),
  });
  return objectOf({ resourceSpans: `[${resourceSpans}]` });
}

function spanText(index: OtlpIndex, position: number): string {
  if (index.type === 'otlp_proto') return JSON.stringify(spanAt(index, position));
  const start = spanField(index, position, OtlpField.START);
  return index.bytes.toString('utf8', start, spanField(index, position, OtlpField.END));
}

function scopeText(index: OtlpIndex, scope: number): string | undefined {
  const start = scopeField(index, scope, ScopeField.SCOPE_START);
  if (start === 0) return undefined;
  if (index.type === 'otlp_proto') return JSON.stringify(scopeAt(index, scope));
  return index.bytes.toString('utf8', start, scopeField(index, scope, ScopeField.SCOPE_END));
}

function resourceText(index: OtlpIndex, resource: number): string | undefined {
  const start = resourceField(index, resource, ResourceField.RESOURCE_START);
  if (start === 0) return undefined;
  if (index.type === 'otlp_proto') return JSON.stringify(resourceAt(index, resource));
  const end = resourceField(index, resource, ResourceField.RESOURCE_END);
  return index.bytes.toString('utf8', start, end);
}

function schemaUrlText(index: OtlpIndex, start: number, end: number): string | undefined {
  const url = schemaUrlAt(index, start, end);
  return url ? JSON.stringify(url) : undefined;
}

function objectOf(members: Record<string, string | undefined>): string {
  const texts: string[] = [];
  for (const [key, text] of Object.entries(members)) {
    if (text !== undefined) texts.push(`"${key}":${text}`);
  }
  return `{${texts.join(',')}}`;
}
