/**
 * What an `OtlpIndex` records of a span: `OTLP_STRIDE` numbers a span, at these places. Offsets count
 * from the start of the inflated body; an offset of 0 says that there is no such (valid) thing, since
 * nothing of a span can stand there.
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
  /** Numbers of the span's resource and scope, in `resources` and `scopes`. */
  RESOURCE: 5,
  SCOPE: 6,
  /** Size of its attributes and of its events as they count toward hourly ingest. */
  ATTRIBUTE_BYTES: 7,
  EVENT_BYTES: 8,
  /** How many events and links it has. */
  PARTS: 9,
  /** `OtlpFlag`s. */
  FLAGS: 10,
} as const;

export const OTLP_STRIDE = 11;

export const OtlpFlag = {
  /** An attribute may hold `custom_fields` as a whole, so its type has to be looked at. */
  CUSTOM_FIELDS: 1,
  /** A parent id was sent that is none. */
  BAD_PARENT: 2,
} as const;

/** Per resource in `OtlpIndex.resources`; only resources that hold a span are recorded. */
export const ResourceField = {
  /** The ResourceSpans message's content or object. */
  START: 0,
  END: 1,
  /** Its Resource message's content or object; 0,0 where it has none. */
  RESOURCE_START: 2,
  RESOURCE_END: 3,
  /** Its place in the request, those without spans counted. */
  PLACE: 4,
  /** `OtlpFlag`s. */
  FLAGS: 5,
} as const;

export const RESOURCE_STRIDE = 6;

/** Per scope in `OtlpIndex.scopes`; only scopes that hold a span are recorded. */
export const ScopeField = {
  /** The ScopeSpans message's content or object. */
  START: 0,
  END: 1,
  /** Its InstrumentationScope message's content or object; 0,0 where it has none. */
  SCOPE_START: 2,
  SCOPE_END: 3,
  /** Its resource's number. */
  RESOURCE: 4,
  /** Its place within its ResourceSpans. */
  PLACE: 5,
  /** Position of its first span. */
  FIRST_SPAN: 6,
} as const;

export const SCOPE_STRIDE = 7;
