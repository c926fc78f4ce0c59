import { gzipSync } from 'node:zlib';
import type {
  Encoding,
  Format,
  ObservationBatch,
  ReceivedBatch,
  SealedBatch,
  Tenant,
} from '../../src/model/batch.ts';
import { indexOf } from '../../src/model/formats.ts';
import type { Observation } from '../../src/model/observation.ts';
import type { KeyedAnswer, RequestContext } from '../../src/model/request-context.ts';
import { requestContext } from '../../src/model/request-context.ts';
import { ulid } from '../../src/model/ulid.ts';

const RECEIVED_AT = Date.UTC(2026, 0, 15, 12, 0, 0);

/** The project of the running test. Tests that share a store have one each. */
export let testProject = 'proj_test';
let projects = 0;

export function beginTestProject(): void {
  testProject = `proj_test_${++projects}`;
}

export function aTenant(more: Partial<Tenant> = {}): Tenant {
  return {
    organizationId: 'org_test',
    projectId: testProject,
    keyId: 'key_test',
    permissions: ['ingest:write', 'traces:read'],
    ...more,
  };
}

/** A sealed batch around a body, frozen: no consumer may change it. `requestItems` is what the body holds. */
export function rawBatch(
  format: Format,
  body: Buffer,
  requestItems: number,
  more: Partial<SealedBatch> = {},
): SealedBatch {
  const { rejections = [] } = more;
  return frozen({
    kind: 'raw',
    id: ulid(RECEIVED_AT),
    format,
    tenant: aTenant(),
    receivedAt: RECEIVED_AT,
    requestItems,
    body,
    encoding: 'identity',
    items: requestItems - rejections.length,
    positions: undefined,
    rejections,
    usage: { events: 0, bytes: 0 },
    ...more,
  });
}

/** Bytes cannot be frozen. */
function frozen(batch: SealedBatch): SealedBatch {
  for (const value of Object.values(batch)) {
    if (typeof value === 'object' && !Buffer.isBuffer(value)) Object.freeze(value);
  }
  return Object.freeze(batch);
}

/** A request whose answer is to be kept with its batch. */
export function answered(answer: KeyedAnswer): RequestContext {
  return { ...requestContext(), answer };
}

/** The same items as a request brings them: scanned, and not decided on. */
export function received(batch: SealedBatch): ReceivedBatch {
  const { id, format, tenant, receivedAt, requestItems, body, encoding } = batch;
  return {
    ...{ kind: 'received', id, format, tenant, receivedAt, requestItems, body, encoding },
    ...{ index: indexOf(batch), items: requestItems, rejections: [], changes: undefined },
  };
}

/** A valid native event; `more` covers or adds fields. */
export function nativeEvent(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    id: 'observation-1',
    trace_id: 'trace-1',
    kind: 'generation',
    operation: 'finish',
    name: 'chat',
    status: 'success',
    start_time: '2026-01-15T11:59:58.000Z',
    end_time: '2026-01-15T11:59:59.500Z',
    inputs: { messages: [{ role: 'user', content: 'hello' }] },
    outputs: { content: 'hi' },
    metadata: { custom_fields: { team: 'search' } },
    ...more,
  };
}

/** A native batch of `count` events, or of the events given. */
export function nativeBatch(
  events: number | readonly Record<string, unknown>[] = 1,
  more: Partial<SealedBatch> & { encoding?: Encoding } = {},
): SealedBatch {
  const list =
    typeof events === 'number'
      ? Array.from({ length: events }, (_, i) => nativeEvent({ id: `observation-${i + 1}` }))
      : events;
  const body = Buffer.from(JSON.stringify({ events: list }));
  const compressed = more.encoding === 'gzip' ? gzipSync(body) : body;
  return rawBatch('native', compressed, list.length, more);
}

export type TestSpan = {
  /** 16 bytes in hex. */
  traceId?: string;
  /** 8 bytes in hex. */
  spanId?: string;
  parentSpanId?: string;
  name?: string;
  startNano?: bigint;
  endNano?: bigint;
  /** String attributes alone; other types are the OTLP tests' own business. */
  attributes?: Readonly<Record<string, string>>;
  statusCode?: 0 | 1 | 2;
};

/** An OTLP batch in either encoding, one resource and one scope. */
export function otlpBatch(
  spans: number | readonly TestSpan[] = 1,
  more: Partial<SealedBatch> & { format?: 'otlp_proto' | 'otlp_json' } = {},
): SealedBatch {
  const list =
    typeof spans === 'number'
      ? Array.from({ length: spans }, (_, i) => ({
          spanId: (i + 1).toString(16).padStart(16, '0'),
        }))
      : spans;
  const format = more.format ?? 'otlp_proto';
  const body = format === 'otlp_proto' ? otlpProtoBody(list) : otlpJsonBody(list);
  const compressed = more.encoding === 'gzip' ? gzipSync(body) : body;
  return rawBatch(format, compressed, list.length, more);
}

/** An ExportTraceServiceRequest as protobuf. */
export function otlpProtoBody(
  spans: readonly TestSpan[],
  resource: Readonly<Record<string, string>> = { 'service.name': 'test' },
): Buffer {
  const scope = message(1, [text(1, 'test-scope'), text(2, '1.0.0')]);
  const scopeSpans = message(2, [scope, ...spans.map((span) => message(2, spanFields(span)))]);
  const resourceField = message(1, attributeFields(1, resource));
  return message(1, [resourceField, scopeSpans]);
}

function spanFields(span: TestSpan): Buffer[] {
  const full = withDefaults(span);
  return [
    bytes(1, Buffer.from(full.traceId, 'hex')),
    bytes(2, Buffer.from(full.spanId, 'hex')),
    ...(full.parentSpanId === '' ? [] : [bytes(4, Buffer.from(full.parentSpanId, 'hex'))]),
    text(5, full.name),
    Buffer.concat([varint(6n << 3n), varint(1n)]),
    fixed64(7, full.startNano),
    fixed64(8, full.endNano),
    ...attributeFields(9, full.attributes),
    message(15, full.statusCode === 0 ? [] : [varint(3n << 3n), varint(BigInt(full.statusCode))]),
  ];
}

function attributeFields(field: number, attributes: Readonly<Record<string, string>>): Buffer[] {
  return Object.entries(attributes).map(([key, value]) =>
    message(field, [text(1, key), message(2, [text(1, value)])]),
  );
}

/** An ExportTraceServiceRequest as OTLP's JSON. */
export function otlpJsonBody(
  spans: readonly TestSpan[],
  resource: Readonly<Record<string, string>> = { 'service.name': 'test' },
): Buffer {
  const request = {
    resourceSpans: [
      {
        resource: { attributes: attributeList(resource) },
        scopeSpans: [
          { scope: { name: 'test-scope', version: '1.0.0' }, spans: spans.map(spanObject) },
        ],
      },
    ],
  };
  return Buffer.from(JSON.stringify(request));
}

function spanObject(span: TestSpan): object {
  const full = withDefaults(span);
  return {
    traceId: full.traceId,
    spanId: full.spanId,
    ...(full.parentSpanId === '' ? {} : { parentSpanId: full.parentSpanId }),
    name: full.name,
    kind: 1,
    startTimeUnixNano: String(full.startNano),
    endTimeUnixNano: String(full.endNano),
    attributes: attributeList(full.attributes),
    status: full.statusCode === 0 ? {} : { code: full.statusCode },
  };
}

function attributeList(attributes: Readonly<Record<string, string>>): object[] {
  return Object.entries(attributes).map(([key, stringValue]) => ({ key, value: { stringValue } }));
}

function withDefaults(span: TestSpan): Required<TestSpan> {
  return {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    parentSpanId: '',
    name: 'chat',
    startNano: 1_768_478_398_000_000_000n,
    endNano: 1_768_478_399_500_000_000n,
    attributes: {},
    statusCode: 1,
    ...span,
  };
}

/** An observation batch; the observations are minimal unless `more` says otherwise. */
export function observationBatch(
  source: SealedBatch = nativeBatch(1),
  more: Partial<Observation> = {},
): ObservationBatch {
  const observations = Array.from({ length: source.items }, (_, i) => ({
    ...anObservation(),
    id: `observation-${i + 1}`,
    index: i,
    ...more,
  }));
  return Object.freeze({ kind: 'observations', source, observations });
}

export function anObservation(more: Partial<Observation> = {}): Observation {
  return {
    id: 'observation-1',
    traceId: 'trace-1',
    parentId: null,
    index: 0,
    operation: 'finish',
    version: '0',
    name: 'chat',
    kind: 'generation',
    status: 'success',
    startTime: { ms: Date.UTC(2026, 0, 15, 11, 59, 58), ns: 0 },
    endTime: { ms: Date.UTC(2026, 0, 15, 11, 59, 59, 500), ns: 0 },
    ended: true,
    model: null,
    usage: null,
    sessionId: null,
    userId: null,
    error: null,
    customFields: { team: 'search' },
    external: null,
    details: null,
    payloadMask: 0b01011,
    ...more,
  };
}

function message(field: number, parts: readonly Buffer[]): Buffer {
  return bytes(field, Buffer.concat(parts));
}

function text(field: number, value: string): Buffer {
  return bytes(field, Buffer.from(value));
}

function bytes(field: number, value: Buffer): Buffer {
  return Buffer.concat([varint((BigInt(field) << 3n) | 2n), varint(BigInt(value.length)), value]);
}

function fixed64(field: number, value: bigint): Buffer {
  const number = Buffer.alloc(8);
  number.writeBigUInt64LE(value);
  return Buffer.concat([varint((BigInt(field) << 3n) | 1n), number]);
}

function varint(value: bigint): Buffer {
  const out: number[] = [];
  let rest = value;
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    out.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Buffer.from(out);
}
