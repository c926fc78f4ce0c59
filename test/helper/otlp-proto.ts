import protobuf from 'protobufjs';

/** OTLP's trace messages for protobufjs: an encoder and decoder that share no code with ours. */
const SCHEMA = `
syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; string schema_url = 3; }
message Resource { repeated KeyValue attributes = 1; uint32 dropped_attributes_count = 2; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; string schema_url = 3; }
message Scope { string name = 1; string version = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; bytes parent_span_id = 4;
  string name = 5; int32 kind = 6; fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8;
  repeated KeyValue attributes = 9; uint32 dropped_attributes_count = 10;
  repeated Event events = 11; uint32 dropped_events_count = 12;
  repeated Link links = 13; uint32 dropped_links_count = 14;
  Status status = 15; fixed32 flags = 16;
}
message Event { fixed64 time_unix_nano = 1; string name = 2; repeated KeyValue attributes = 3; uint32 dropped_attributes_count = 4; }
message Link { bytes trace_id = 1; bytes span_id = 2; string trace_state = 3; repeated KeyValue attributes = 4; uint32 dropped_attributes_count = 5; fixed32 flags = 6; }
message Status { string message = 2; int32 code = 3; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue {
  oneof value {
    string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4;
    ArrayValue array_value = 5; KeyValueList kvlist_value = 6; bytes bytes_value = 7;
  }
}
message ArrayValue { repeated AnyValue values = 1; }
message KeyValueList { repeated KeyValue values = 1; }
message Response { PartialSuccess partial_success = 1; }
message PartialSuccess { int64 rejected_spans = 1; string error_message = 2; }
message LogsRequest { repeated ResourceLogs resource_logs = 1; }
message ResourceLogs { Resource resource = 1; repeated ScopeLogs scope_logs = 2; string schema_url = 3; }
message ScopeLogs { Scope scope = 1; repeated LogRecord log_records = 2; string schema_url = 3; }
message LogRecord {
  fixed64 time_unix_nano = 1; int32 severity_number = 2; string severity_text = 3; AnyValue body = 5;
  repeated KeyValue attributes = 6; uint32 dropped_attributes_count = 7; fixed32 flags = 8;
  bytes trace_id = 9; bytes span_id = 10; fixed64 observed_time_unix_nano = 11; string event_name = 12;
}
message RpcStatus { int32 code = 1; string message = 2; }
`;

const root = protobuf.parse(SCHEMA).root;
const requestType = root.lookupType('Request');
const logsType = root.lookupType('LogsRequest');
const responseType = root.lookupType('Response');
const statusType = root.lookupType('RpcStatus');

/** A request in the JSON form of protobuf, ids as hex. */
export type RequestForm = { resourceSpans?: object[] };

/** A request in protobuf, from OTLP's JSON form. */
export function encodeRequest(request: RequestForm): Buffer {
  return Buffer.from(
    requestType.encode(requestType.fromObject(withBytes(request) as object)).finish(),
  );
}

/** The same for an export request of logs. */
export function encodeLogs(request: LogsForm): Buffer {
  return Buffer.from(logsType.encode(logsType.fromObject(withBytes(request) as object)).finish());
}

/** An export request of logs in OTLP's JSON form. */
export type LogsForm = { resourceLogs: object[] };

/** A request with these records under one resource and scope. */
export function logsOf(
  logRecords: readonly object[],
  { scope = {}, resource = {} }: { scope?: object; resource?: object } = {},
): LogsForm {
  return { resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords }] }] };
}

export function decodeLogs(bytes: Uint8Array): object {
  return logsType.toObject(logsType.decode(bytes), { longs: String, bytes: String, arrays: true });
}

/** A request as protobufjs reads it, in OTLP's JSON form; throws where it is broken. */
export function decodeRequest(bytes: Uint8Array): {
  resourceSpans: { scopeSpans: { spans: unknown[] }[] }[];
} {
  return requestType.toObject(requestType.decode(bytes), {
    longs: String,
    bytes: String,
    arrays: true,
  }) as ReturnType<typeof decodeRequest>;
}

export function decodeResponse(bytes: Uint8Array): unknown {
  return responseType.toObject(responseType.decode(bytes), { longs: Number });
}

export function decodeRpcStatus(bytes: Uint8Array): unknown {
  return statusType.toObject(statusType.decode(bytes));
}

/** Ids in hex become bytes, as do byte values in base64; all else stays. */
function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      if (/^(?:traceId|spanId|parentSpanId)$/.test(key)) {
        return [key, Buffer.from(String(member), 'hex')];
      }
      if (key === 'bytesValue') return [key, Buffer.from(String(member), 'base64')];
      if (key === 'doubleValue') return [key, Number(member)];
      return [key, withBytes(member)];
    }),
  );
}

/** A request with these spans under one resource and scope. */
export function requestOf(
  spans: readonly object[],
  around: { resource?: object; scope?: object } = {},
): RequestForm {
  const { resource, scope } = around;
  return {
    resourceSpans: [
      {
        ...(resource === undefined ? {} : { resource }),
        scopeSpans: [{ ...(scope === undefined ? {} : { scope }), spans }],
      },
    ],
  };
}

/** A span with valid ids that number `i` makes unique. */
export function spanOf(i: number, more: object = {}): object {
  return {
    traceId: (i + 1).toString(16).padStart(32, '0'),
    spanId: (i + 1).toString(16).padStart(16, '0'),
    name: `span ${i}`,
    kind: 1,
    startTimeUnixNano: '1704067200000000001',
    endTimeUnixNano: '1704067201000000002',
    ...more,
  };
}

/** An attribute list from plain values; integers become int values, objects kvlists. */
export function attributesOf(values: Record<string, unknown>): object[] {
  return Object.entries(values).map(([key, value]) => ({ key, value: anyValueOf(value) }));
}

export function anyValueOf(value: unknown): object {
  switch (typeof value) {
    case 'string':
      return { stringValue: value };
    case 'boolean':
      return { boolValue: value };
    case 'bigint':
      return { intValue: String(value) };
    case 'number':
      return Number.isInteger(value)
        ? { intValue: String(value) }
        : { doubleValue: Number.isFinite(value) ? value : String(value) };
    default:
      if (value === null || value === undefined) return {};
      if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValueOf) } };
      if (Buffer.isBuffer(value)) return { bytesValue: value.toString('base64') };
      return { kvlistValue: { values: attributesOf(value as Record<string, unknown>) } };
  }
}
