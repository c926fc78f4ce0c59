import fc from 'fast-check';
import t from 'tap';
import { otlpProto } from '../../../../src/model/otlp/format.ts';
import { MAX_MERGED_FIELDS } from '../../../../src/model/otlp/merge-repeated.ts';
import { scanProtoLogs } from '../../../../src/model/otlp/scan.ts';
import {
  attributesOf,
  decodeLogs,
  decodeRequest,
  encodeRequest,
  requestOf,
  spanOf,
} from '../../../helper/otlp-proto.ts';
import { LIMITS } from './reading.ts';

/** A field of wire type 2. */
function field(number: number, ...content: Buffer[]): Buffer {
  const all = Buffer.concat(content);
  return Buffer.concat([varint(number * 8 + 2), varint(all.length), all]);
}

function varint(value: number | bigint, least = 1): Buffer {
  const bytes: number[] = [];
  for (
    let rest = BigInt.asUintN(64, BigInt(value));
    rest > 0n || bytes.length < least;
    rest >>= 7n
  ) {
    bytes.push(Number(rest & 127n) | 128);
  }
  bytes.push((bytes.pop() ?? 0) & 127);
  return Buffer.from(bytes);
}

const text = (number: number, value: string): Buffer => field(number, Buffer.from(value));
const id = (number: number, bytes: number): Buffer => field(number, Buffer.alloc(bytes, 7));
const attribute = (number: number, key: string, ...values: Buffer[]): Buffer =>
  field(number, text(1, key), ...values.map((value) => field(2, value)));
const span = (...fields: Buffer[]): Buffer => field(2, id(1, 16), id(2, 8), ...fields);

t.test('merges messages that a message has once', async (t) => {
  const body = field(
    1,
    field(1, attribute(1, 'service.name', text(1, 'a'))),
    field(2, field(1, text(1, 'name')), span(text(5, 'x')), field(1, text(2, '1.0'))),
    field(1, attribute(1, 'deployment.environment', text(1, 'b'))),
  );
  const index = otlpProto.scan(body, LIMITS);
  t.equal(otlpProto.observe(index, 0, 0).details?.environment, 'b');
  const { metadata = '' } = otlpProto.payload(index, 0, ['metadata']);
  t.match(JSON.parse(metadata), {
    'service.name': 'a',
    'deployment.environment': 'b',
    'scope.name': 'name',
    'scope.version': '1.0',
  });
});

t.test('merges the status of a span, and the values of an attribute', async (t) => {
  const array = (...values: string[]): Buffer =>
    field(5, ...values.map((each) => field(1, text(1, each))));
  const status = [field(15, text(2, 'failed')), field(15, Buffer.from([24, 2]))];
  const body = field(
    1,
    field(
      2,
      span(
        ...status,
        attribute(9, 'empty', text(1, 'stays'), Buffer.alloc(0)),
        attribute(9, 'lists', array('a'), array('b')),
        attribute(9, 'other', Buffer.concat([array('a'), text(1, 'b'), array('c')])),
      ),
    ),
  );
  const index = otlpProto.scan(body, LIMITS);
  t.equal(otlpProto.observe(index, 0, 0).error?.message, 'failed');
  const { metadata = '' } = otlpProto.payload(index, 0, ['metadata']);
  t.match(JSON.parse(metadata), { empty: 'stays', lists: ['a', 'b'], other: ['c'] });
});

t.test('reads a negative kind as a negative number', async (t) => {
  const kind = Buffer.concat([Buffer.from([48]), varint(-1)]);
  const index = otlpProto.scan(field(1, field(2, span(kind))), LIMITS);
  const { metadata = '' } = otlpProto.payload(index, 0, ['metadata']);
  t.equal(JSON.parse(metadata)['otel.span.kind'], '-1');
});

t.test('leaves a request without repeated messages as it is', async (t) => {
  const body = encodeRequest(requestOf([spanOf(0, { attributes: attributesOf({ a: [1, 'b'] }) })]));
  t.equal(otlpProto.scan(body, LIMITS).bytes, body);
});

t.test('merges the resource of a request with as many keys as a large one has', async (t) => {
  const key = attribute(9, 'some.key', text(1, 'some value'));
  const keys = Buffer.concat(Array(20).fill(key));
  const spans = Buffer.concat(Array(2_000).fill(span(keys)));
  const resource = (name: string): Buffer => field(1, attribute(1, name, text(1, 'a')));
  const body = field(1, resource('first'), field(2, spans), resource('second'));
  const index = otlpProto.scan(body, { maxItems: 2_000 });
  const { metadata = '' } = otlpProto.payload(index, 0, ['metadata']);
  t.match(JSON.parse(metadata), { first: 'a', second: 'a' });
});

t.test('refuses to merge a request with too many fields', async (t) => {
  const empty = (count: number, tag: number): Buffer =>
    Buffer.alloc(count * 2, Buffer.from([tag, 0]));
  for (const [name, body] of [
    ['resources', (count: number) => field(1, empty(count, 10), field(2, span()))],
    ['scopes', (count: number) => field(1, field(2, empty(count, 10), span()))],
    ['keys', (count: number) => field(1, field(1, empty(count, 10)), field(1), field(2, span()))],
    [
      'requests',
      (count: number) => Buffer.concat([field(1, field(1), field(1)), empty(count, 10)]),
    ],
  ] as const) {
    t.throws(
      () => otlpProto.scan(body(MAX_MERGED_FIELDS), LIMITS),
      { code: 'invalid_request' },
      name,
    );
  }
});

/** Fields of a message: some repeated, in any order, among unknown ones. */
function fieldsOf(...fields: fc.Arbitrary<Buffer>[]): fc.Arbitrary<Buffer> {
  const unknown = fc.constantFrom(
    Buffer.concat([varint(99 * 8), varint(5)]),
    Buffer.concat([varint(99 * 8 + 3), varint(8 * 3), varint(1), varint(99 * 8 + 4)]),
    text(98, 'unknown'),
    Buffer.concat([varint(97 * 8 + 5), Buffer.alloc(4)]),
  );
  return fc
    .array(fc.oneof({ weight: 1, arbitrary: unknown }, ...fields), { maxLength: 5 })
    .map((all) => Buffer.concat(all));
}

const nested = (number: number, content: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> =>
  content.map((bytes) => field(number, bytes));
const texts = (number: number): fc.Arbitrary<Buffer> =>
  fc.string({ maxLength: 3 }).map((value) => text(number, value));
const numbers = (number: number): fc.Arbitrary<Buffer> =>
  fc
    .tuple(fc.integer({ min: -5, max: 300 }), fc.integer({ min: 1, max: 10 }))
    .map(([value, least]) => Buffer.concat([varint(number * 8, 3), varint(value, least)]));
const { value: ANY_VALUE } = fc.letrec<{ value: Buffer; keyValue: Buffer }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    fieldsOf(texts(1), numbers(2), numbers(3)),
    fieldsOf(
      texts(1),
      numbers(3),
      fc
        .array(tie('value'), { maxLength: 2 })
        .map((all) => field(5, ...all.map((each) => field(1, each)))),
      fc
        .array(tie('keyValue'), { maxLength: 2 })
        .map((all) => field(6, ...all.map((each) => field(1, each)))),
    ),
  ),
  keyValue: fieldsOf(texts(1), nested(2, tie('value'))),
}));
const KEY_VALUE = fieldsOf(texts(1), nested(2, ANY_VALUE));
const RESOURCE = fieldsOf(nested(1, KEY_VALUE), numbers(2));
const SCOPE = fieldsOf(texts(1), texts(2), nested(3, KEY_VALUE));
const STATUS = fieldsOf(texts(2), numbers(3));
const SPAN = fieldsOf(
  ...[texts(5), numbers(6), nested(9, KEY_VALUE), nested(15, STATUS)],
  nested(11, fieldsOf(texts(2), nested(3, KEY_VALUE))),
);
const REQUEST = requestsOf(SPAN);
const LOGS = requestsOf(fieldsOf(texts(3), nested(5, ANY_VALUE), nested(6, KEY_VALUE)));

function requestsOf(item: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  const ofScope = fieldsOf(nested(1, SCOPE), nested(2, item), texts(3));
  return fieldsOf(nested(1, fieldsOf(nested(1, RESOURCE), nested(2, ofScope), texts(3))));
}

t.test('reads and merges any request as protobufjs does', async (t) => {
  let merged = 0;
  fc.assert(
    fc.property(REQUEST, (body) => {
      const index = otlpProto.scan(body, LIMITS);
      if (index.bytes !== body) merged++;
      const expected = decodeRequest(body);
      t.strictSame(decodeRequest(index.bytes), expected);
      const spans = expected.resourceSpans.flatMap(({ scopeSpans, ...ofResource }) =>
        scopeSpans.flatMap(({ spans, ...ofScope }) =>
          spans.map((each) => ({ ...ofResource, scopeSpans: [{ ...ofScope, spans: [each] }] })),
        ),
      );
      for (const [position, resourceSpans] of spans.entries()) {
        const source = otlpProto.source(index, position);
        const read = decodeRequest(encodeRequest(JSON.parse(source)));
        t.strictSame(read, { resourceSpans: [resourceSpans] }, source);
      }
    }),
    { numRuns: 500 },
  );
  t.ok(merged > 50, `${merged} were merged`);
});

t.test('merges log records as protobufjs does', async (t) => {
  fc.assert(
    fc.property(LOGS, (body) => {
      t.strictSame(decodeLogs(scanProtoLogs(body, LIMITS).bytes), decodeLogs(body));
    }),
    { numRuns: 200 },
  );
});
