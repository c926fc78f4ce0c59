"""Exports a few spans with the OpenTelemetry SDK to two destinations at once.

Usage: send.py {http|grpc} destination reference-destination
"""

import sys

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode


def exporter(protocol, destination):
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter(endpoint=destination, insecure=True)
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=destination + "/v1/traces", compression=Compression.Gzip)


def main():
    protocol, *destinations = sys.argv[1:]
    provider = TracerProvider(resource=Resource.create({"service.name": "python", "ratio": 0.5}))
    for destination in destinations:
        provider.add_span_processor(BatchSpanProcessor(exporter(protocol, destination)))
    tracer = provider.get_tracer("interop", "1.2.3", "https://opentelemetry.io/schemas/1.37.0", {"k": 1})
    with tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer:
        outer.set_attributes({"text": "Grüße 🌍", "number": 2**53 + 1, "flag": False, "list": [1, 2]})
        linked = Link(outer.get_span_context(), {"why": "because"})
        for i in range(20):
            with tracer.start_as_current_span(f"inner {i}", kind=SpanKind.CLIENT, links=[linked]) as inner:
                inner.add_event("first token", {"after": i})
                try:
                    if i == 7:
                        raise ValueError("no such city")
                    inner.set_status(Status(StatusCode.OK))
                except ValueError as error:
                    inner.record_exception(error)
                    inner.set_status(Status(StatusCode.ERROR, "kaputt"))
    if not provider.force_flush(10_000):
        sys.exit("not everything was exported")
    provider.shutdown()


main()
