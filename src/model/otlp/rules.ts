import type { OtlpIndex } from '../batch-index.ts';
import { MAX_FIELD_BYTES } from '../json/fields.ts';
import { skipSpace, skipValue, textOf } from '../json/grammar.ts';
import { PAYLOAD_FIELDS, type PayloadField } from '../observation.ts';
import type { Rejection } from '../rejection.ts';
import { resourceAt, resourceField, scopeAt, scopeField, spanAt, spanField } from './context.ts';
import { wrongCustomFields } from './custom-fields.ts';
import { OtlpField, OtlpFlag, ResourceField, ScopeField } from './fields.ts';
import { payloadOfSpan } from './payload.ts';
import { entriesOf } from './value.ts';

/** The most bytes of a field's JSON that one byte of the body becomes, by encoding. */
const GROWTH = { otlp_proto: 6, otlp_json: 2 } as const;
/** Upper bounds of the names and brackets that a field adds for the span, and for each event or link. */
const FIXED_BYTES = 1024;
const PART_BYTES = 128;

/**
 * The index with the verdicts of the rules. They decode large spans, which takes seconds for a hostile body, so a
 * thread that scans a body also calls this.
 */
export function judged(index: OtlpIndex): OtlpIndex {
  const verdicts = {
    fields: otlpRejections(index),
    customFields: otlpCustomFieldRejections(index),
  };
  return { ...index, verdicts };
}

/** Rejections for invalid ids and for fields above 4 MiB. Their indexes are positions. */
export function otlpRejections(index: OtlpIndex): readonly Rejection[] {
  return index.verdicts?.fields ?? fieldRejections(index);
}

function fieldRejections(index: OtlpIndex): Rejection[] {
  const rejections: Rejection[] = [];
  const sizes = new Map<number, ResourceSize>();
  for (let position = 0; position < index.count; position++) {
    const wrongId = invalidId(index, position);
    if (wrongId !== undefined) {
      rejections.push({
        index: position,
        code: 'invalid_field',
        reason: `${pathOf(index, position)}.${wrongId}`,
      });
      continue;
    }
    const field = tooLargeField(index, position, sizes);
    if (field !== undefined) {
      rejections.push({
        index: position,
        code: 'payload_too_large',
        reason: `${pathOf(index, position)}: its ${field} are larger than ${MAX_FIELD_BYTES} bytes as JSON`,
      });
    }
  }
  return rejections;
}

/** Rejections for `custom_fields` that are no objects. Their indexes are positions. */
export function otlpCustomFieldRejections(index: OtlpIndex): readonly Rejection[] {
  return index.verdicts?.customFields ?? customFieldRejections(index);
}

function customFieldRejections(index: OtlpIndex): Rejection[] {
  const rejections: Rejection[] = [];
  const ofResources = new Map<number, string | undefined>();
  for (let position = 0; position < index.count; position++) {
    const resource = spanField(index, position, OtlpField.RESOURCE);
    let path: string | undefined;
    if ((spanField(index, position, OtlpField.FLAGS) & OtlpFlag.CUSTOM_FIELDS) !== 0) {
      path = wrongCustomFields(spanAt(index, position).attributes);
      if (path !== undefined) path = `${pathOf(index, position)}.attributes.${path}`;
    }
    if (path === undefined && !ofResources.has(resource)) {
      ofResources.set(resource, wrongOfResource(index, resource));
    }
    path ??= ofResources.get(resource);
    if (path === undefined) continue;
    rejections.push({
      index: position,
      code: 'invalid_custom_fields',
      reason: `${path} must be an object or null`,
    });
  }
  return rejections;
}

function wrongOfResource(index: OtlpIndex, resource: number): string | undefined {
  const flags = resourceField(index, resource, ResourceField.FLAGS);
  if ((flags & OtlpFlag.CUSTOM_FIELDS) === 0) return undefined;
  const path = wrongCustomFields(resourceAt(index, resource).attributes);
  if (path === undefined) return undefined;
  const place = resourceField(index, resource, ResourceField.PLACE);
  return `resourceSpans[${place}].resource.attributes.${path}`;
}

function invalidId(index: OtlpIndex, position: number): string | undefined {
  if (spanField(index, position, OtlpField.TRACE_ID) === 0) {
    return `traceId must be ${idSizes(index).trace}, not all zero`;
  }
  if (spanField(index, position, OtlpField.SPAN_ID) === 0) {
    return `spanId must be ${idSizes(index).span}, not all zero`;
  }
  if ((spanField(index, position, OtlpField.FLAGS) & OtlpFlag.BAD_PARENT) !== 0) {
    return `parentSpanId must be ${idSizes(index).span}, or empty`;
  }
  return undefined;
}

function idSizes({ type }: OtlpIndex): { readonly trace: string; readonly span: string } {
  if (type === 'otlp_proto') return { trace: '16 bytes', span: '8 bytes' };
  return { trace: '32 hex digits', span: '16 hex digits' };
}

/** The JSON size of a resource's attributes, and their keys. They are in the metadata of all its spans. */
type ResourceSize = { readonly bytes: number; readonly keys: ReadonlySet<string> };

/**
 * The name of a field above the limit. Fields are made and measured only if an upper bound of their size is above
 * the limit, which it is for few spans. A resource is measured once for all of its spans.
 */
function tooLargeField(
  index: OtlpIndex,
  position: number,
  sizes: Map<number, ResourceSize>,
): PayloadField | undefined {
  const resource = spanField(index, position, OtlpField.RESOURCE);
  const growth = GROWTH[index.type];
  const own = boundOfSpan(index, position) * growth + partBytes(index, position);
  const resourceBound =
    growth *
    (resourceField(index, resource, ResourceField.RESOURCE_END) -
      resourceField(index, resource, ResourceField.RESOURCE_START));
  if (own + resourceBound <= MAX_FIELD_BYTES) return undefined;
  const shared = sizes.get(resource) ?? sizeOfResource(index, resource);
  sizes.set(resource, shared);
  if (shared.bytes > MAX_FIELD_BYTES) return 'metadata';
  if (own + shared.bytes + shared.keys.size * RESOURCE_PREFIX.length <= MAX_FIELD_BYTES) {
    return undefined;
  }
  return measuredTooLarge(index, position, shared);
}

/** The prefix of a resource's key that a span has, too. */
const RESOURCE_PREFIX = 'resource.';

function measuredTooLarge(
  index: OtlpIndex,
  position: number,
  shared: ResourceSize,
): PayloadField | undefined {
  const span = spanAt(index, position);
  const scope = scopeAt(index, spanField(index, position, OtlpField.SCOPE));
  const payload = payloadOfSpan({ span, resource: {}, scope }, PAYLOAD_FIELDS);
  for (const field of PAYLOAD_FIELDS) {
    const text = payload[field];
    if (text === undefined) continue;
    let bytes = compactBytes(text);
    if (field === 'metadata' && shared.keys.size > 0) {
      const keys = new Set(span.attributes?.map((attribute) => attribute.key ?? ''));
      const covered = [...keys].filter((key) => shared.keys.has(key)).length;
      // Without the resource's brackets, with a comma if both have members.
      bytes += shared.bytes - 2 + (text === '{}' ? 0 : 1) + covered * RESOURCE_PREFIX.length;
    }
    if (bytes > MAX_FIELD_BYTES) return field;
  }
  return undefined;
}

function boundOfSpan(index: OtlpIndex, position: number): number {
  const scope = spanField(index, position, OtlpField.SCOPE);
  return (
    spanField(index, position, OtlpField.END) -
    spanField(index, position, OtlpField.START) +
    scopeField(index, scope, ScopeField.SCOPE_END) -
    scopeField(index, scope, ScopeField.SCOPE_START)
  );
}

function partBytes(index: OtlpIndex, position: number): number {
  return FIXED_BYTES + PART_BYTES * spanField(index, position, OtlpField.PARTS);
}

function sizeOfResource(index: OtlpIndex, resource: number): ResourceSize {
  const entries = entriesOf(resourceAt(index, resource).attributes);
  let bytes = 2;
  for (const [key, text] of entries) {
    bytes += Buffer.byteLength(JSON.stringify(key)) + Buffer.byteLength(text) + 2;
  }
  // There is one comma less than members.
  return { bytes: entries.size === 0 ? 2 : bytes - 1, keys: new Set(entries.keys()) };
}

/** The size without white space, which an input in JSON text may have. */
function compactBytes(json: string): number {
  const text = textOf(Buffer.from(json), Number.MAX_SAFE_INTEGER);
  return skipValue(text, skipSpace(text, 0), 0) - text.saved;
}

/** The path of a span in its request. */
function pathOf(index: OtlpIndex, position: number): string {
  const resource = spanField(index, position, OtlpField.RESOURCE);
  const scope = spanField(index, position, OtlpField.SCOPE);
  const place = position - scopeField(index, scope, ScopeField.FIRST_SPAN);
  const outer = resourceField(index, resource, ResourceField.PLACE);
  const inner = scopeField(index, scope, ScopeField.PLACE);
  return `resourceSpans[${outer}].scopeSpans[${inner}].spans[${place}]`;
}
