import protobuf from 'protobufjs';

/**
 * An independent description of the OTLP messages for a protobuf library, so that a test never uses the product to
 * read a request or an answer.
 */
const SCHEMA = `syntax = "proto3";
  message TracesData { repeated ResourceSpans resource_spans = 1; }
  message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
  message Resource { repeated KeyValue attributes = 1; }
  message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
  message Scope { string name = 1; string version = 2; repeated KeyValue attributes = 3; }
  message Span {
    bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4;
    string name = 5; int32 kind = 6;
    fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
    repeated KeyValue attributes = 9; repeated Event events = 11; Status status = 15;
  }
  message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; }
  message Status { string message = 2; int32 code = 3; }
  message KeyValue { string key = 1; AnyValue value = 2; }
  message AnyValue { oneof value {
    string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
    ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7;
  } }
  message ArrayValue { repeated AnyValue values = 1; }
  message KeyValueList { repeated KeyValue values = 1; }
  message LogsData { repeated ResourceLogs resource_logs = 1; }
  message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; }
  message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; }
  message LogRecord {
    fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5;
    repeated KeyValue attributes = 6; bytes trace_id = 9; bytes span_id = 10;
    fixed64 observed_time_unix_nano = 11; string event_name = 12;
  }
  message ExportResponse { PartialSuccess partial_success = 1; }
  message PartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
  message RpcStatus { int32 code = 1; string message = 2; }`;
const { root } = protobuf.parse(SCHEMA);
/** The library refuses invalid UTF-8 in strings, so strings are read as bytes. */
const lenient = protobuf.parse(SCHEMA.replaceAll(/\bstring (?=\w+ =)/g, 'bytes ')).root;

type WireValue = {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: string | number;
  doubleValue?: number | string;
  arrayValue?: { values?: WireValue[] };
  kvlistValue?: { values?: WireAttribute[] };
  bytesValue?: string;
};
export type WireAttribute = { key: string; value?: WireValue };
export type WireSpan = {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name?: string;
  startTimeUnixNano?: string;
  endTimeUnixNano?: string;
  attributes?: WireAttribute[];
  events?: { name?: string; attributes?: WireAttribute[] }[];
  status?: { code?: number | string; message?: string };
};
export type WireTraces = {
  resourceSpans?: {
    resource?: { attributes?: WireAttribute[] };
    scopeSpans?: { scope?: { name?: string; version?: string }; spans?: WireSpan[] }[];
  }[];
};

/** An export request in the form of its JSON encoding, ids in hex. */
export function decodeTraces(bytes: Uint8Array): WireTraces {
  const type = root.lookupType('TracesData');
  const message = type.toObject(type.decode(bytes), { longs: String, bytes: Buffer }) as WireTraces;
  for (const span of spansOf(message)) {
    span.traceId = hex(span.traceId);
    span.spanId = hex(span.spanId);
    if (span.parentSpanId !== undefined) span.parentSpanId = hex(span.parentSpanId);
  }
  return message;
}

/** The library's reader of export requests, with its message objects unconverted. */
export const TRACES_TYPE = root.lookupType('TracesData');

/** The number of spans in a protobuf request with any strings. Throws on an invalid message. */
export function countSpans(bytes: Uint8Array): number {
  const type = lenient.lookupType('TracesData');
  return spansOf(type.toObject(type.decode(bytes)) as WireTraces).length;
}

/** An export request of logs. */
export type WireLogs = {
  resourceLogs?: {
    scopeLogs?: {
      logRecords?: {
        eventName?: string;
        timeUnixNano?: string;
        body?: WireValue;
        attributes?: WireAttribute[];
      }[];
    }[];
  }[];
};

export function encodeWireLogs(logs: WireLogs): Buffer {
  const type = root.lookupType('LogsData');
  return Buffer.from(type.encode(type.fromObject(logs)).finish());
}

/** As `countSpans`, for the records of logs. */
export function countLogRecords(bytes: Uint8Array): number {
  const type = lenient.lookupType('LogsData');
  return logRecordsOf(type.toObject(type.decode(bytes)) as WireLogs).length;
}

export function logRecordsOf(logs: WireLogs): unknown[] {
  return (logs.resourceLogs ?? []).flatMap((resource) =>
    (resource.scopeLogs ?? []).flatMap((scope) => scope.logRecords ?? []),
  );
}

export function encodeTraces(traces: WireTraces): Buffer {
  const type = root.lookupType('TracesData');
  const copy = structuredClone(traces) as WireTraces;
  for (const span of spansOf(copy)) {
    Object.assign(span, {
      traceId: Buffer.from(span.traceId, 'hex'),
      spanId: Buffer.from(span.spanId, 'hex'),
      parentSpanId: Buffer.from(span.parentSpanId ?? '', 'hex'),
    });
  }
  return Buffer.from(type.encode(type.fromObject(copy)).finish());
}

export function spansOf(traces: WireTraces): WireSpan[] {
  return (traces.resourceSpans ?? []).flatMap((resource) =>
    (resource.scopeSpans ?? []).flatMap((scope) => scope.spans ?? []),
  );
}

/** The value of an attribute in JavaScript; integers beyond 2^53 stay strings. */
function plain(value: WireValue | undefined): unknown {
  if (value === undefined) return null;
  if (value.stringValue !== undefined) return value.stringValue;
  if (value.boolValue !== undefined) return value.boolValue;
  if (value.intValue !== undefined) {
    return Number.isSafeInteger(Number(value.intValue)) ? Number(value.intValue) : value.intValue;
  }
  if (value.doubleValue !== undefined) return value.doubleValue;
  if (value.arrayValue !== undefined) return (value.arrayValue.values ?? []).map(plain);
  if (value.kvlistValue !== undefined) return attributesOf(value.kvlistValue.values);
  if (value.bytesValue !== undefined)
    return Buffer.from(value.bytesValue, 'base64').toString('base64');
  return null;
}

export function attributesOf(attributes: WireAttribute[] | undefined): Record<string, unknown> {
  return Object.fromEntries((attributes ?? []).map(({ key, value }) => [key, plain(value)]));
}

export function decodeResponse(bytes: Uint8Array): { rejectedSpans: number; errorMessage: string } {
  const type = root.lookupType('ExportResponse');
  const message = type.toObject(type.decode(bytes), { longs: Number, defaults: true }) as {
    partialSuccess: { rejectedSpans: number; errorMessage: string } | null;
  };
  return message.partialSuccess ?? { rejectedSpans: 0, errorMessage: '' };
}

export function decodeStatus(bytes: Uint8Array): { code: number; message: string } {
  const type = root.lookupType('RpcStatus');
  return type.toObject(type.decode(bytes), { defaults: true }) as { code: number; message: string };
}

function hex(bytes: unknown): string {
  return Buffer.from(bytes as Uint8Array).toString('hex');
}
