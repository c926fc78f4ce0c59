import { randomBytes } from 'node:crypto';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../helper/otlp-proto.ts';

/** A request with every field of OTLP's spans, and with values that encoders easily lose. */
export function everyField(): { resourceSpans: object[] } {
  const traceId = hex(16);
  const parent = hex(8);
  const values = {
    text: 'Grüße, 世界 🌍\n"quoted" \\ \u0001',
    nothing: '',
    'with.nul': 'before\u0000after',
    yes: true,
    no: false,
    zero: 0n,
    largest: 9_223_372_036_854_775_807n,
    smallest: -9_223_372_036_854_775_808n,
    beyond_double: 9_007_199_254_740_993n,
    fraction: 0.1,
    tiny: 5e-324,
    bytes: randomBytes(33),
    no_bytes: Buffer.alloc(0),
    list: ['a', 1n, 0.5, true, ['deeper', {}], { key: 'value' }],
    empty_list: [],
    map: { a: 1n, 'b.c': { d: [false, ''] } },
    empty_map: {},
    unset: null,
    'gen_ai.input.messages': JSON.stringify([{ role: 'user', content: 'x'.repeat(20_000) }]),
  };
  const attributes = [...attributesOf(values), { key: 'huge', value: { doubleValue: 1.797e308 } }];
  const span = {
    traceId,
    spanId: parent,
    traceState: 'vendor=a:1,other=b',
    name: 'all fields ☃',
    kind: 3,
    startTimeUnixNano: '1767225600123456789',
    endTimeUnixNano: '1767225601987654321',
    attributes,
    droppedAttributesCount: 7,
    events: [
      {
        timeUnixNano: '1767225600223456789',
        name: 'first token',
        attributes,
        droppedAttributesCount: 1,
      },
      { timeUnixNano: '1767225600223456789', name: 'first token' },
      { name: '', timeUnixNano: '1' },
    ],
    droppedEventsCount: 2,
    links: [
      {
        traceId: hex(16),
        spanId: hex(8),
        traceState: 'l=1',
        attributes,
        droppedAttributesCount: 3,
        flags: 257,
      },
      { traceId: hex(16), spanId: hex(8) },
    ],
    droppedLinksCount: 4,
    status: { code: 2, message: 'kaputt: "so"' },
    flags: 769,
  };
  const bare = { traceId, spanId: hex(8) };
  const kinds = [0, 1, 2, 4, 5].map((kind) => ({
    ...bare,
    spanId: hex(8),
    parentSpanId: parent,
    name: `kind ${kind}`,
    kind,
    startTimeUnixNano: '1767225600000000000',
    endTimeUnixNano: '1767225600000000001',
    status: { code: kind % 3 },
  }));
  const scope = { name: 'scope', version: '1.2.3', attributes, droppedAttributesCount: 5 };
  return {
    resourceSpans: [
      {
        resource: {
          attributes: attributesOf({ 'service.name': 'shop', ...values }),
          droppedAttributesCount: 6,
        },
        schemaUrl: 'https://opentelemetry.io/schemas/1.37.0',
        scopeSpans: [
          { scope, schemaUrl: 'https://opentelemetry.io/schemas/1.36.0', spans: [span, ...kinds] },
          { scope: { name: 'other' }, spans: [bare] },
        ],
      },
      { scopeSpans: [{ spans: [{ ...bare, spanId: hex(8), name: 'no resource, no scope' }] }] },
    ],
  };
}

/** A small request with a trace of its own. */
export function smallRequest(spans: number): {
  traceId: string;
  request: { resourceSpans: object[] };
} {
  const traceId = hex(16);
  const request = requestOf(
    Array.from({ length: spans }, (_, i) => spanOf(i, { traceId, spanId: hex(8) })),
    { resource: { attributes: attributesOf({ 'service.name': 'faults' }) } },
  );
  return { traceId, request: { resourceSpans: request.resourceSpans ?? [] } };
}

/** The request in protobuf, with unknown fields at every level. */
export function withUnknownFields(request: { resourceSpans: object[] }): Buffer {
  // Field 1900 as text, field 1901 as a number. (1000 is taken: a Collector reads old spans from it.)
  const unknown = Buffer.from([0xe2, 0x76, 3, 0x61, 0x62, 0x63, 0xe8, 0x76, 42]);
  const span = Buffer.concat([
    Buffer.from([0x0a, 16]),
    randomBytes(16),
    Buffer.from([0x12, 8]),
    randomBytes(8),
    unknown,
  ]);
  const scopeSpans = Buffer.concat([nested(2, span), unknown]);
  const resourceSpans = Buffer.concat([nested(2, scopeSpans), unknown]);
  return Buffer.concat([encodeRequest(request), nested(1, resourceSpans), unknown]);
}

/** A field of fewer than 128 bytes. */
function nested(field: number, bytes: Buffer): Buffer {
  return Buffer.concat([Buffer.from([field * 8 + 2, bytes.length]), bytes]);
}

function hex(bytes: number): string {
  return randomBytes(bytes).toString('hex');
}
