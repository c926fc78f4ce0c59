/**
 * A span as OTLP's JSON form has it: what both encodings are read into where speed does not matter. Ids
 * are lower-case hex, 64-bit integers decimal digits (JSON numbers are kept as sent where they are exact).
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

export type OtlpKeyValue = { key?: string; value?: OtlpValue };

/** One of these is set, or none for a null. */
export type OtlpValue = {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: string | number | bigint;
  /** A string for NaN and the infinities. */
  doubleValue?: number | string;
  arrayValue?: { values?: OtlpValue[] };
  kvlistValue?: { values?: OtlpKeyValue[] };
  /** Base64. */
  bytesValue?: string;
};

/** The status a span has, by number or by name; what is neither is as unset. */
export function statusCode(code: number | string | undefined): 0 | 1 | 2 {
  if (code === 1 || code === 'STATUS_CODE_OK') return 1;
  if (code === 2 || code === 'STATUS_CODE_ERROR') return 2;
  return 0;
}

const SPAN_KINDS = ['UNSPECIFIED', 'INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'];

/** OTLP's own span kind as its short name, or what was sent; undefined where none was. */
export function spanKind(kind: number | string | undefined): string | undefined {
  if (kind === undefined || kind === null || kind === 0) return undefined;
  if (typeof kind === 'number') return SPAN_KINDS[kind] ?? String(kind);
  const name = kind.replace(/^SPAN_KIND_/, '');
  return name === 'UNSPECIFIED' ? undefined : name;
}
