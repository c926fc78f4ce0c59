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
import type {
  OtlpEvent,
  OtlpKeyValue,
  OtlpLink,
  OtlpResource,
  OtlpScope,
  OtlpSpan,
  OtlpValue,
} from './span.ts';
import { statusCode } from './span.ts';
import { WireWriter } from './wire-writer.ts';

/**
 * Spans that arrived, with their resources and scopes, in OTLP's JSON form. They are encoded here, because
 * OpenTelemetry's serializers cannot express all of them: integers above 2^53, doubles with an integral
 * value, NaN and the infinities in JSON, repeated keys, counts of dropped resource attributes, flags. Spans
 * that tracectl makes are encoded in own-span.ts.
 */
export type OtlpRequest = { readonly resourceSpans: readonly OtlpResourceSpans[] };
type OtlpResourceSpans = {
  readonly resource?: OtlpResource;
  readonly scopeSpans: readonly OtlpScopeSpans[];
  readonly schemaUrl?: string;
};
type OtlpScopeSpans = {
  readonly scope?: OtlpScope;
  readonly spans: readonly OtlpSpan[];
  readonly schemaUrl?: string;
};

/** An ExportTraceServiceRequest, as protobuf or in OTLP's JSON form. */
export function encodeOtlp(request: OtlpRequest, encoding: 'proto' | 'json'): Buffer {
  if (encoding === 'json') return Buffer.from(JSON.stringify(request, jsonValue));
  const writer = new WireWriter();
  for (const resourceSpans of request.resourceSpans) {
    writer.message(1, () => writeResourceSpans(writer, resourceSpans));
  }
  return writer.finish();
}

/** 64-bit integers are decimal digits in OTLP's JSON form. */
function jsonValue(_key: string, value: unknown): unknown {
  // A double such as 1e400, which JSON.stringify would print as null.
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  return typeof value === 'bigint' ? String(value) : value;
}

/** The spans at these positions of a scanned body, decoded with their resources and scopes. */
export function decodeSpansAt(index: OtlpIndex, positions: readonly number[]): OtlpRequest {
  const resources = new Map<number, OtlpResourceSpans & { scopeSpans: OtlpScopeSpans[] }>();
  const scopes = new Map<number, { spans: OtlpSpan[] }>();
  for (const position of positions) {
    const number = spanField(index, position, OtlpField.SCOPE);
    let scope = scopes.get(number);
    if (scope === undefined) {
      scope = scopeSpansOf(index, number);
      scopes.set(number, scope);
      const resource = spanField(index, position, OtlpField.RESOURCE);
      const known = resources.get(resource) ?? resourceSpansOf(index, resource);
      resources.set(resource, known);
      known.scopeSpans.push(scope);
    }
    scope.spans.push(spanAt(index, position));
  }
  return { resourceSpans: [...resources.values()] };
}

function resourceSpansOf(index: OtlpIndex, resource: number) {
  const start = resourceField(index, resource, ResourceField.START);
  const url = schemaUrlAt(index, start, resourceField(index, resource, ResourceField.END));
  const scopeSpans: OtlpScopeSpans[] = [];
  return {
    resource: resourceAt(index, resource),
    scopeSpans,
    ...(url ? { schemaUrl: url } : {}),
  };
}

function scopeSpansOf(index: OtlpIndex, scope: number) {
  const start = scopeField(index, scope, ScopeField.START);
  const url = schemaUrlAt(index, start, scopeField(index, scope, ScopeField.END));
  const spans: OtlpSpan[] = [];
  return { scope: scopeAt(index, scope), spans, ...(url ? { schemaUrl: url } : {}) };
}

function writeResourceSpans(
  writer: WireWriter,
  { resource, scopeSpans, schemaUrl }: OtlpResourceSpans,
) {
  if (resource !== undefined) {
    writer.message(1, () => {
      writeAttributes(writer, 1, resource.attributes);
      writer.uint(2, resource.droppedAttributesCount);
    });
  }
  for (const each of scopeSpans) writer.message(2, () => writeScopeSpans(writer, each));
  writer.text(3, schemaUrl);
}

function writeScopeSpans(writer: WireWriter, { scope, spans, schemaUrl }: OtlpScopeSpans): void {
  if (scope !== undefined) {
    writer.message(1, () => {
      writer.text(1, scope.name);
      writer.text(2, scope.version);
      writeAttributes(writer, 3, scope.attributes);
      writer.uint(4, scope.droppedAttributesCount);
    });
  }
  for (const span of spans) writer.message(2, () => writeSpan(writer, span));
  writer.text(3, schemaUrl);
}

function writeSpan(writer: WireWriter, span: OtlpSpan): void {
  writer.hex(1, span.traceId);
  writer.hex(2, span.spanId);
  writer.text(3, span.traceState);
  writer.hex(4, span.parentSpanId);
  writer.text(5, span.name);
  writer.uint(6, spanKindNumber(span.kind));
  writer.fixed64(7, span.startTimeUnixNano);
  writer.fixed64(8, span.endTimeUnixNano);
  writeAttributes(writer, 9, span.attributes);
  writer.uint(10, span.droppedAttributesCount);
  for (const event of span.events ?? []) writer.message(11, () => writeEvent(writer, event));
  writer.uint(12, span.droppedEventsCount);
  for (const link of span.links ?? []) writer.message(13, () => writeLink(writer, link));
  writer.uint(14, span.droppedLinksCount);
  const { status } = span;
  if (status !== undefined && status !== null) {
    writer.message(15, () => {
      writer.text(2, status.message);
      writer.uint(3, statusCode(status.code));
    });
  }
  writer.fixed32(16, span.flags);
}

const SPAN_KIND_NAMES = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'];

/** JSON clients may send the names of the enumeration, or any other text. */
function spanKindNumber(kind: number | string | undefined): number | undefined {
  if (typeof kind !== 'string') return kind;
  const number = SPAN_KIND_NAMES.indexOf(kind.replace(/^SPAN_KIND_/, ''));
  return number === -1 ? Number(kind) : number;
}

function writeEvent(writer: WireWriter, event: OtlpEvent): void {
  writer.fixed64(1, event.timeUnixNano);
  writer.text(2, event.name);
  writeAttributes(writer, 3, event.attributes);
  writer.uint(4, event.droppedAttributesCount);
}

function writeLink(writer: WireWriter, link: OtlpLink): void {
  writer.hex(1, link.traceId);
  writer.hex(2, link.spanId);
  writer.text(3, link.traceState);
  writeAttributes(writer, 4, link.attributes);
  writer.uint(5, link.droppedAttributesCount);
  writer.fixed32(6, link.flags);
}

function writeAttributes(
  writer: WireWriter,
  field: number,
  attributes: readonly OtlpKeyValue[] | null | undefined,
): void {
  for (const { key, value } of attributes ?? []) {
    writer.message(field, () => {
      writer.text(1, key);
      if (value !== undefined && value !== null) {
        writer.message(2, () => writeValue(writer, value));
      }
    });
  }
}

/** An empty member of a oneof is written too, because the type of the value is the member that is set. */
function writeValue(writer: WireWriter, value: OtlpValue): void {
  if (isSet(value.stringValue)) writer.textAlways(1, value.stringValue);
  else if (isSet(value.boolValue)) writer.varintAlways(2, value.boolValue ? 1n : 0n);
  else if (isSet(value.intValue)) writer.varintAlways(3, BigInt(value.intValue));
  else if (isSet(value.doubleValue)) writer.doubleAlways(4, Number(value.doubleValue));
  else if (isSet(value.arrayValue)) {
    const values = value.arrayValue.values ?? [];
    writer.message(5, () => {
      for (const each of values) writer.message(1, () => writeValue(writer, each ?? {}));
    });
  } else if (isSet(value.kvlistValue)) {
    const values = value.kvlistValue.values;
    writer.message(6, () => writeAttributes(writer, 1, values));
  } else if (isSet(value.bytesValue)) {
    writer.bytesAlways(7, Buffer.from(value.bytesValue, 'base64'));
  }
}

function isSet<T>(value: T | null | undefined): value is T {
  return value !== undefined && value !== null;
}
