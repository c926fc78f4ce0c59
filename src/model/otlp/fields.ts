/**
 * The places of the `OTLP_STRIDE` numbers in a span's record of an `OtlpIndex`. Offsets count from the start of the
 * inflated body; an offset of 0 means absent or invalid, because no part of a span starts there.
 */
export const OtlpField = {
  /** The Span message's content, or its object from `{` to `}`: [START, END). */
  START: 0,
  END: 1,
  /** 16 bytes, or 32 hex digits in JSON; 0 unless it is a valid trace id. */
  TRACE_ID: 2,
  /** 8 bytes, or 16 hex digits in JSON; 0 unless it is a valid span id. */
  SPAN_ID: 3,
  /** 8 bytes, or 16 hex digits in JSON; 0 for a root span. */
  PARENT_ID: 4,
  /** The numbers of the span's resource and scope in `resources` and `scopes`. */
  RESOURCE: 5,
  SCOPE: 6,
  /** Bytes of its attributes and of its events that count as hourly usage. */
  ATTRIBUTE_BYTES: 7,
  EVENT_BYTES: 8,
  /** The numbers of its events and links. */
  EVENTS: 9,
  LINKS: 10,
  /** `OtlpFlag`s. */
  FLAGS: 11,
  /** The weight of its attributes, events and links; see `WEIGHT_OF_KEY`. */
  WEIGHT: 12,
} as const;

export const OTLP_STRIDE = 13;

/**
 * Decoding a message costs time for each of its elements, of which a body may have one in every two bytes. A key of an attribute or of a
 * kvlist has this weight, and a value of an array the weight 1. So has a field that is repeated although a message has one of it.
 */
export const WEIGHT_OF_KEY = 8;
/** The most that the attributes, events and links of a span may weigh, which take a tenth of a second to decode. */
export const MAX_WEIGHT = 32_768 * WEIGHT_OF_KEY;
/** The same for a resource and for a scope, which are decoded beside a span. */
export const MAX_SHARED_WEIGHT = MAX_WEIGHT / 4;
/**
 * The most that the spans of a request which are decoded on its arrival, or its log records, weigh together. Clients spend more than a
 * hundred bytes on each key, and eleven on each number of an embedding, of which a body of 25 MiB has 2.4 million.
 */
export const MAX_DECODED_WEIGHT = 10 * MAX_WEIGHT;
/** Fields of a message, beside those that it may repeat, that have no weight. */
export const FREE_FIELDS = 24;

export const OtlpFlag = {
  /** An attribute may have `custom_fields` as its value, whose type has to be checked. */
  CUSTOM_FIELDS: 1,
  /** The span has an invalid parent id. */
  BAD_PARENT: 2,
} as const;

/** The places in a resource's record of `OtlpIndex.resources`. Resources without spans have no record. */
export const ResourceField = {
  /** The ResourceSpans message's content or object. */
  START: 0,
  END: 1,
  /** Its Resource message's content or object; 0, 0 if it has none. */
  RESOURCE_START: 2,
  RESOURCE_END: 3,
  /** Its place in the request, counting resources without spans. */
  PLACE: 4,
  /** `OtlpFlag`s. */
  FLAGS: 5,
  /** The weight of its attributes. */
  WEIGHT: 6,
} as const;

export const RESOURCE_STRIDE = 7;

/** The places in a scope's record of `OtlpIndex.scopes`. Scopes without spans have no record. */
export const ScopeField = {
  /** The ScopeSpans message's content or object. */
  START: 0,
  END: 1,
  /** Its InstrumentationScope message's content or object; 0, 0 if it has none. */
  SCOPE_START: 2,
  SCOPE_END: 3,
  /** The number of its resource. */
  RESOURCE: 4,
  /** Its place within its ResourceSpans. */
  PLACE: 5,
  /** The position of its first span. */
  FIRST_SPAN: 6,
  /** The weight of its attributes. */
  WEIGHT: 7,
} as const;

export const SCOPE_STRIDE = 8;
