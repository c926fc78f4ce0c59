import type { OtlpIndex } from '../batch-index.ts';
import { MAX_FIELD_BYTES } from '../json/fields.ts';
import { PAYLOAD_FIELDS, type PayloadField } from '../observation.ts';
import type { Rejection } from '../rejection.ts';
import { resourceAt, resourceField, scopeAt, scopeField, spanAt, spanField } from './context.ts';
import { wrongFieldsInJson } from './custom-fields-json.ts';
import { wrongFieldsInWire } from './custom-fields-wire.ts';
import { MAX_DECODED_WEIGHT, OtlpField, OtlpFlag, ResourceField, ScopeField } from './fields.ts';
import type { ResourceMembers, SharedMembers } from './metadata-bytes.ts';
import { compactBytes, metadataBytes, resourceMembers, sharedMembers } from './metadata-bytes.ts';
import { factsOfSpan } from './observe.ts';
import { payloadOfSpan, RESOURCE_PREFIX } from './payload.ts';
import type { OtlpSpan } from './span.ts';
import { keysOfWeight, pathOfSpan, tooHeavy } from './weight.ts';

/** The most bytes of a field's JSON that one byte of the body becomes, by encoding. */
const GROWTH = { otlp_proto: 6, otlp_json: 2 } as const;
/** Upper bounds of the names and brackets that a field adds for the span, and for each event or link. */
const FIXED_BYTES = 1024;
const PART_BYTES = 128;
/** Lower bounds of the JSON of an event and of a link, each with a comma. */
const LEAST_EVENT_BYTES = '{"name":""},'.length;
const LEAST_LINK_BYTES = '{"trace_id":"","span_id":""},'.length;

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
  const measuring = new Measuring(index);
  for (let position = 0; position < index.count; position++) {
    const wrongId = invalidId(index, position);
    if (wrongId !== undefined) {
      rejections.push({
        index: position,
        code: 'invalid_field',
        reason: `${pathOfSpan(index, position)}.${wrongId}`,
      });
      continue;
    }
    const reason = tooHeavy(index, position) ?? tooLarge(index, position, measuring);
    if (reason !== undefined)
      rejections.push({ index: position, code: 'payload_too_large', reason });
  }
  return rejections;
}

const OF_MEASURED = keysOfWeight(MAX_DECODED_WEIGHT);

/** Rejections for `custom_fields` that are no objects, and for spans with too many elements to look. Their indexes are positions. */
export function otlpCustomFieldRejections(index: OtlpIndex): readonly Rejection[] {
  return index.verdicts?.customFields ?? customFieldRejections(index);
}

function customFieldRejections(index: OtlpIndex): Rejection[] {
  const rejections: Rejection[] = [];
  const ofResources = new Map<number, string | undefined>();
  for (let position = 0; position < index.count; position++) {
    const heavy = tooHeavy(index, position);
    if (heavy !== undefined) {
      rejections.push({ index: position, code: 'payload_too_large', reason: heavy });
      continue;
    }
    const resource = spanField(index, position, OtlpField.RESOURCE);
    let path: string | undefined;
    if ((spanField(index, position, OtlpField.FLAGS) & OtlpFlag.CUSTOM_FIELDS) !== 0) {
      const start = spanField(index, position, OtlpField.START);
      const end = spanField(index, position, OtlpField.END);
      path = wrongCustomFields(index, start, end, SPAN_ATTRIBUTES);
      if (path !== undefined) path = `${pathOfSpan(index, position)}.attributes.${path}`;
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
  const start = resourceField(index, resource, ResourceField.RESOURCE_START);
  const end = resourceField(index, resource, ResourceField.RESOURCE_END);
  const path = wrongCustomFields(index, start, end, RESOURCE_ATTRIBUTES);
  if (path === undefined) return undefined;
  const place = resourceField(index, resource, ResourceField.PLACE);
  return `resourceSpans[${place}].resource.attributes.${path}`;
}

/** The tags of attributes in protobuf. */
const SPAN_ATTRIBUTES = 74;
const RESOURCE_ATTRIBUTES = 10;

/** The path from the attributes of the span or resource at [start, end) to its first wrong `custom_fields`. */
function wrongCustomFields(
  { type, bytes }: OtlpIndex,
  start: number,
  end: number,
  attributesTag: number,
): string | undefined {
  if (type === 'otlp_proto') return wrongFieldsInWire(bytes, start, end, attributesTag);
  return wrongFieldsInJson(bytes, start);
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

/**
 * Measures the fields of spans, and bounds what it decodes for that. The metadata that spans share is read once: the spans of a scope
 * follow one another, and so do the scopes of a resource.
 */
class Measuring {
  readonly #index: OtlpIndex;
  #weight = 0;
  #resource: { readonly number: number; readonly members: ResourceMembers } | undefined;
  #scope: { readonly number: number; readonly members: SharedMembers } | undefined;

  constructor(index: OtlpIndex) {
    this.#index = index;
  }

  /** Only a span of some 700 KB or more is measured, or one with a resource of that size: clients spend more than 100 bytes on each key. */
  get isOver(): boolean {
    return this.#weight > MAX_DECODED_WEIGHT;
  }

  /** The name of a field of the span that is above the limit. */
  fieldOf(position: number): PayloadField | undefined {
    this.#weight += spanField(this.#index, position, OtlpField.WEIGHT);
    return measuredTooLarge(spanAt(this.#index, position), this.shared(position));
  }

  /** The members that the span has of its resource and its scope. */
  shared(position: number): SharedMembers {
    const number = spanField(this.#index, position, OtlpField.SCOPE);
    if (this.#scope?.number !== number) {
      const resource = this.#resourceOf(position);
      this.#weight += scopeField(this.#index, number, ScopeField.WEIGHT);
      const members = sharedMembers(resource, scopeAt(this.#index, number));
      this.#scope = { number, members };
    }
    return this.#scope.members;
  }

  #resourceOf(position: number): ResourceMembers {
    const number = spanField(this.#index, position, OtlpField.RESOURCE);
    if (this.#resource?.number !== number) {
      const members = resourceMembers(resourceAt(this.#index, number));
      this.#weight += resourceField(this.#index, number, ResourceField.WEIGHT);
      this.#resource = { number, members };
    }
    return this.#resource.members;
  }
}

/**
 * The reason to refuse a span with a field above the limit. Fields are made and measured only if an upper bound of their size is above
 * the limit, which it is for few spans. The lower bound of its events and links refuses a span unread.
 */
function tooLarge(index: OtlpIndex, position: number, measuring: Measuring): string | undefined {
  const events = spanField(index, position, OtlpField.EVENTS);
  const links = spanField(index, position, OtlpField.LINKS);
  // To make the JSON of millions of them takes minutes, and gigabytes of memory.
  if (events * LEAST_EVENT_BYTES > MAX_FIELD_BYTES) return above(index, position, 'events');
  if (links * LEAST_LINK_BYTES > MAX_FIELD_BYTES) return above(index, position, 'metadata');
  const growth = GROWTH[index.type];
  const own = growth * lengthOfSpan(index, position) + partBytes(events + links);
  if (own + growth * lengthAround(index, position) <= MAX_FIELD_BYTES) return undefined;
  if (measuring.isOver) {
    return `${pathOfSpan(index, position)}: the large spans of the request have more than ${OF_MEASURED}`;
  }
  const shared = measuring.shared(position);
  const prefixes = shared.resource.values.size * RESOURCE_PREFIX.length;
  if (own + shared.bytes + prefixes <= MAX_FIELD_BYTES) return undefined;
  const field = measuring.fieldOf(position);
  return field === undefined ? undefined : above(index, position, field);
}

function above(index: OtlpIndex, position: number, field: PayloadField): string {
  return `${pathOfSpan(index, position)}: its ${field} are larger than ${MAX_FIELD_BYTES} bytes as JSON`;
}

function measuredTooLarge(span: OtlpSpan, shared: SharedMembers): PayloadField | undefined {
  const facts = factsOfSpan(span);
  // The metadata of an embedded observation is a text of the span.
  const isEmbedded = facts.embedded !== undefined;
  const made = isEmbedded ? PAYLOAD_FIELDS : PAYLOAD_FIELDS.filter((field) => field !== 'metadata');
  const payload = payloadOfSpan({ span, resource: {}, scope: {} }, made);
  return PAYLOAD_FIELDS.find((field) => {
    const text = payload[field];
    if (text !== undefined) return compactBytes(text) > MAX_FIELD_BYTES;
    if (field !== 'metadata' || isEmbedded) return false;
    return metadataBytes(span, facts, shared) > MAX_FIELD_BYTES;
  });
}

function lengthOfSpan(index: OtlpIndex, position: number): number {
  return spanField(index, position, OtlpField.END) - spanField(index, position, OtlpField.START);
}

/** The bytes of the resource and the scope of a span. */
function lengthAround(index: OtlpIndex, position: number): number {
  const scope = spanField(index, position, OtlpField.SCOPE);
  const resource = spanField(index, position, OtlpField.RESOURCE);
  return (
    scopeField(index, scope, ScopeField.SCOPE_END) -
    scopeField(index, scope, ScopeField.SCOPE_START) +
    resourceField(index, resource, ResourceField.RESOURCE_END) -
    resourceField(index, resource, ResourceField.RESOURCE_START)
  );
}

function partBytes(parts: number): number {
  return FIXED_BYTES + PART_BYTES * parts;
}
