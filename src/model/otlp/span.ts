/**
 * A span in OTLP's JSON form, into which both encodings are decoded off the hot path. Ids are hex, 64-bit integers
 * are decimal digits, or numbers if the JSON had exact ones.
 */
export type OtlpSpan = {
  traceId?: string;
  spanId?: string;
  traceState?: string;
  parentSpanId?: string;
  flags?: number;
  name?: string;
  kind?: number | string;
  startTimeUnixNano?: string | number;
  endTimeUnixNano?: string | number;
  attributes?: OtlpKeyValue[];
  droppedAttributesCount?: number;
  events?: OtlpEvent[];
  droppedEventsCount?: number;
  links?: OtlpLink[];
  droppedLinksCount?: number;
  status?: { message?: string; code?: number | string };
};

export type OtlpEvent = {
  timeUnixNano?: string | number;
  name?: string;
  attributes?: OtlpKeyValue[];
  droppedAttributesCount?: number;
};

export type OtlpLink = {
  traceId?: string;
  spanId?: string;
  traceState?: string;
  attributes?: OtlpKeyValue[];
  droppedAttributesCount?: number;
  flags?: number;
};

export type OtlpResource = { attributes?: OtlpKeyValue[]; droppedAttributesCount?: number };

export type OtlpScope = {
  name?: string;
  version?: string;
  attributes?: OtlpKeyValue[];
  droppedAttributesCount?: number;
};

/** JSON may have a null in the place of an absent member. */
export type OtlpKeyValue = { key?: string | null; value?: OtlpValue | null };

/** At most one member is set; none is set for a null. */
export type OtlpValue = {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: string | number | bigint;
  /** NaN and the infinities are strings. */
  doubleValue?: number | string;
  arrayValue?: { values?: OtlpValue[] };
  kvlistValue?: { values?: OtlpKeyValue[] };
  /** Base64. */
  bytesValue?: string;
};

/** The code of a status by number or name; 0 (unset) for any other value. */
export function statusCode(code: number | string | undefined): 0 | 1 | 2 {
  if (code === 1 || code === 'STATUS_CODE_OK') return 1;
  if (code === 2 || code === 'STATUS_CODE_ERROR') return 2;
  return 0;
}

const SPAN_KINDS = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'];

/** The short name of OTLP's span kind, or the received value if it is unknown; undefined if unset. */
export function spanKind(kind: number | string | undefined): string | undefined {
  if (kind === undefined || kind === null || kind === 0) return undefined;
  if (typeof kind === 'number') return SPAN_KINDS[kind] ?? String(kind);
  const name = kind.replace(/^SPAN_KIND_/, '');
  return name === 'UNSPECIFIED' ? undefined : name;
}
