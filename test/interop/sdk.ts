import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { OTLPTraceExporter as GrpcExporter } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtoExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from '@opentelemetry/sdk-trace';

export type SdkTransport = 'http/protobuf' | 'http/json' | 'grpc';

export type OtlpEndpoints = { readonly http: string; readonly grpc: string };

/** The spans that `exportSpans` exports to each destination with the SDK for JavaScript. */
export const SDK_SPANS = 21;

export async function exportSpans(
  transport: SdkTransport,
  destinations: readonly OtlpEndpoints[],
): Promise<void> {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'javascript', ratio: 0.5 }),
    spanProcessors: destinations.map(
      (destination) => new BatchSpanProcessor({ exporter: exporterOf(transport, destination) }),
    ),
  });
  const tracer = provider.getTracer('interop', '1.2.3');
  const outer = tracer.startSpan('outer', {
    kind: SpanKind.SERVER,
    attributes: {
      text: 'Grüße 🌍',
      number: 2 ** 40,
      flag: false,
      list: ['a', 'b'],
      weights: [0.5],
    },
  });
  const inside = trace.setSpan(context.active(), outer);
  for (let i = 1; i < SDK_SPANS; i++) {
    const links = [{ context: outer.spanContext(), attributes: { why: 'because' } }];
    const inner = tracer.startSpan(`inner ${i}`, { kind: SpanKind.CLIENT, links }, inside);
    inner.addEvent('first token', { after: i });
    if (i === 7) {
      inner.recordException(new TypeError('no such city'));
      inner.setStatus({ code: SpanStatusCode.ERROR, message: 'kaputt' });
    } else {
      inner.setStatus({ code: SpanStatusCode.OK });
    }
    inner.end();
  }
  outer.end();
  await provider.forceFlush();
  await provider.shutdown();
}

function exporterOf(transport: SdkTransport, { http, grpc }: OtlpEndpoints): SpanExporter {
  switch (transport) {
    case 'http/protobuf':
      return new ProtoExporter({ url: `${http}/v1/traces` });
    case 'http/json':
      return new JsonExporter({ url: `${http}/v1/traces` });
    case 'grpc':
      return new GrpcExporter({ url: `http://${grpc}` });
  }
}
