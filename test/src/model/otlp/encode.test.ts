import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { STORED_LIMITS, scan } from '../../../../src/model/formats.ts';
import { decodeSpansAt, encodeOtlp } from '../../../../src/model/otlp/encode.ts';
import { WireWriter } from '../../../../src/model/otlp/wire-writer.ts';
import { decodeRequest, requestOf, spanOf } from '../../../helper/otlp-proto.ts';

t.test('keeps every field of OTLP from JSON to protobuf and back', async (t) => {
  const attributes = [
    { key: 'text', value: { stringValue: '' } },
    { key: 'yes', value: { boolValue: true } },
    { key: 'no', value: { boolValue: false } },
    { key: 'int', value: { intValue: '-9223372036854775808' } },
    { key: 'double', value: { doubleValue: 0.5 } },
    { key: 'nan', value: { doubleValue: 'NaN' } },
    { key: 'bytes', value: { bytesValue: 'AAEC' } },
    { key: 'list', value: { arrayValue: { values: [{ intValue: '1' }, { stringValue: 'x' }] } } },
    { key: 'map', value: { kvlistValue: { values: [{ key: 'k', value: { stringValue: 'v' } }] } } },
    { key: 'none', value: {} },
  ];
  const span = {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    traceState: 'a=b',
    parentSpanId: 'b7ad6b7169203332',
    name: 'größer '.repeat(40),
    kind: 3,
    startTimeUnixNano: '1768478398000000001',
    endTimeUnixNano: '18446744073709551615',
    attributes,
    droppedAttributesCount: 1,
    events: [{ timeUnixNano: '5', name: 'e', attributes, droppedAttributesCount: 2 }],
    droppedEventsCount: 3,
    links: [
      {
        traceId: '0af7651916cd43dd8448eb211c80319d',
        spanId: 'b7ad6b7169203333',
        traceState: 'c=d',
        attributes,
        droppedAttributesCount: 4,
        flags: 257,
      },
    ],
    droppedLinksCount: 5,
    status: { message: 'm', code: 2 },
    flags: 4_294_967_295,
  };
  const request = {
    resourceSpans: [
      {
        resource: { attributes, droppedAttributesCount: 6 },
        scopeSpans: [
          {
            scope: { name: 's', version: '1', attributes, droppedAttributesCount: 7 },
            spans: [span, { ...span, spanId: 'b7ad6b7169203339' }],
            schemaUrl: 'https://example.com/scope',
          },
        ],
        schemaUrl: 'https://example.com/resource',
      },
    ],
  };
  const json = scan('otlp_json', Buffer.from(JSON.stringify(request)), STORED_LIMITS) as OtlpIndex;
  const proto = encodeOtlp(decodeSpansAt(json, [0, 1]), 'proto');
  const index = scan('otlp_proto', proto, STORED_LIMITS) as OtlpIndex;
  t.same(decodeSpansAt(index, [0, 1]), request);
  const backToJson = encodeOtlp(decodeSpansAt(index, [0, 1]), 'json');
  t.same(JSON.parse(backToJson.toString()), request);
});

t.test('a span kind that is no number of an enumeration is unset in protobuf', async (t) => {
  const kindOf = (kind: unknown) => {
    const body = Buffer.from(JSON.stringify(requestOf([spanOf(0, { kind })])));
    const index = scan('otlp_json', body, STORED_LIMITS) as OtlpIndex;
    const proto = encodeOtlp(decodeSpansAt(index, [0]), 'proto');
    t.equal((scan('otlp_proto', proto, STORED_LIMITS) as OtlpIndex).count, 1);
    const [span] = decodeRequest(proto).resourceSpans[0]?.scopeSpans[0]?.spans ?? [];
    return (span as { kind?: number }).kind;
  };
  for (const kind of ['-1', '0.5', '1e30', '1e400', '-Infinity', 'Infinity', 'x', '', -1, null]) {
    t.equal(kindOf(kind), undefined, String(kind));
  }
  for (const kind of [3, '3', 'CLIENT', 'SPAN_KIND_CLIENT']) t.equal(kindOf(kind), 3);
  t.equal(kindOf(99), 99, 'a later version of OTLP may have more kinds');
});

t.test('writes only numbers of 32 bits as such', async (t) => {
  const bytesOf = (value: number | string | null) => {
    const writer = new WireWriter();
    writer.uint(1, value);
    return writer.finish().toString('hex');
  };
  for (const value of [-1, 0.5, 2 ** 32, 1e30, -Infinity, Infinity, NaN, '', 'x', '1e400', null]) {
    t.equal(bytesOf(value), '', String(value));
  }
  for (const value of [2 ** 32 - 1, '4294967295']) t.equal(bytesOf(value), '08ffffffff0f');
});

t.test('a double above the range stays infinite in JSON', async (t) => {
  const attributes = '[{"key":"k","value":{"doubleValue":-1e400}}]';
  const text = JSON.stringify(requestOf([spanOf(0, { attributes: 0 })]));
  const body = Buffer.from(text.replace('"attributes":0', `"attributes":${attributes}`));
  const index = scan('otlp_json', body, STORED_LIMITS) as OtlpIndex;
  const json = encodeOtlp(decodeSpansAt(index, [0]), 'json').toString();
  t.match(json, '{"doubleValue":"-Infinity"}');
});
