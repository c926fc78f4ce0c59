import type { Attributes, HrTime, SpanContext } from '@opentelemetry/api';
import type { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { unixNanosOf } from '../instant.ts';
import type { Instant } from '../observation.ts';

/**
 * A span that tracectl makes: of a native event, of a run, or as a sample. Plain data, so that it can cross
 * to a thread. Spans that arrive are never read into this form; see encode.ts for those.
 */
export type OwnSpan = {
  /** Lower-case hex, 32 and 16 digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: 'internal' | 'client';
  readonly start: Instant;
  /** Undefined for a span that has not ended: its end is 0 on the wire, which OTLP reads as unset. */
  readonly end: Instant | undefined;
  readonly attributes: Attributes;
  readonly events: readonly OwnSpanEvent[];
  readonly status: { readonly code: 0 | 1 | 2; readonly message?: string };
};

export type OwnSpanEvent = {
  readonly name: string;
  readonly time: Instant;
  readonly attributes: Attributes;
};

/** The `service.name` of the resource, and the name of the scope, of all spans in a request. */
export type SpanOrigin = { readonly service: string; readonly scope: string };

/**
 * An ExportTraceServiceRequest with these spans, written by OpenTelemetry's own serializers. They are loaded
 * with the first request: 100 ms and 28 MB in a fresh process (15 ms and 2 MB in a daemon, whose metrics
 * share most of the packages), which a process that only forwards OTLP never pays.
 */
export async function encodeOwnSpans(
  { service, scope }: SpanOrigin,
  spans: readonly OwnSpan[],
  encoding: 'proto' | 'json',
): Promise<Buffer> {
  const [{ JsonTraceSerializer, ProtobufTraceSerializer }, { resourceFromAttributes }] =
    await Promise.all([
      import('@opentelemetry/otlp-transformer'),
      import('@opentelemetry/resources'),
    ]);
  const common = {
    resource: resourceFromAttributes({ 'service.name': service }),
    instrumentationScope: { name: scope },
  };
  const serializer = encoding === 'json' ? JsonTraceSerializer : ProtobufTraceSerializer;
  const bytes = serializer.serializeRequest(
    spans.map((span) => ({ ...readableSpanOf(span), ...common })),
  );
  if (bytes === undefined) throw new Error('OpenTelemetry serialized no request');
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number];

/** OpenTelemetry's `SpanKind` and `TraceFlags`; the package that holds their values is loaded late. */
const KIND = { internal: 0, client: 2 } as const;
const SAMPLED = 1;

function readableSpanOf(span: OwnSpan): Omit<ReadableSpan, 'resource' | 'instrumentationScope'> {
  const { traceId, spanId, parentSpanId, start, end } = span;
  const contextOf = (id: string): SpanContext => ({ traceId, spanId: id, traceFlags: SAMPLED });
  return {
    name: span.name,
    kind: KIND[span.kind],
    spanContext: () => contextOf(spanId),
    ...(parentSpanId === undefined ? {} : { parentSpanContext: contextOf(parentSpanId) }),
    startTime: hrTimeOf(start),
    endTime: end === undefined ? NEVER : hrTimeOf(end),
    ended: end !== undefined,
    // Not serialized.
    duration: NEVER,
    attributes: span.attributes,
    events: span.events.map(({ time, ...event }) => ({ ...event, time: hrTimeOf(time) })),
    links: [],
    status: span.status,
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

const NEVER: HrTime = [0, 0];
const NANOS_PER_SECOND = 1_000_000_000n;
const MAX_UINT64 = 2n ** 64n - 1n;

/** OTLP has the instants from 1970 on that fit into 64 bits, to July 2554; others become the nearest. */
function hrTimeOf(instant: Instant): HrTime {
  const exact = unixNanosOf(instant);
  const nanos = exact < 0n ? 0n : exact > MAX_UINT64 ? MAX_UINT64 : exact;
  return [Number(nanos / NANOS_PER_SECOND), Number(nanos % NANOS_PER_SECOND)];
}
