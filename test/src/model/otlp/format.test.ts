import fc from 'fast-check';
import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { PAYLOAD_FIELDS } from '../../../../src/model/observation.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { otlpCustomFieldRejections, otlpRejections } from '../../../../src/model/otlp/rules.ts';
import {
  anyValueOf,
  attributesOf,
  decodeRequest,
  encodeRequest,
  type RequestForm,
  requestOf,
  spanOf,
} from '../../../helper/otlp-proto.ts';
import { jsonIndex, LIMITS, moduleOf, protoIndex } from './reading.ts';

/** Bytes that count how many of them are read, one by one or as a text. */
function countedBytes(body: Buffer): { bytes: Buffer; work: { read: number } } {
  const work = { read: 0 };
  const bytes = new Proxy(body, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value === 'number' && name !== 'length') work.read++;
      if (typeof value !== 'function') return value;
      return (...given: unknown[]) => {
        const result: unknown = Reflect.apply(value, target, given);
        if (typeof result === 'string') work.read += result.length;
        return result;
      };
    },
  });
  return { bytes, work };
}

/** Values of every kind, with keys that have rules and keys that have none. */
const key = fc.oneof(
  fc.constantFrom(
    'input',
    'output',
    'error',
    'model',
    'session.id',
    'gen_ai.usage.input_tokens',
    'llm.input_messages.0.message.content',
    'llm.input_messages.1.message.role',
    'custom_fields',
    'custom_fields.a',
    'metadata.custom_fields',
    'context_metadata',
    'openinference.span.kind',
    'gen_ai.operation.name',
    '__proto__',
    '',
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
);
const { value } = fc.letrec<{ value: object }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('LLM', 'chat', '', '{"a":1}').map(anyValueOf),
    fc.string({ unit: 'binary', maxLength: 8 }).map(anyValueOf),
    fc.boolean().map(anyValueOf),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(anyValueOf),
    fc.nat(1000).map(anyValueOf),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((doubleValue) => ({ doubleValue })),
    fc.uint8Array({ maxLength: 5 }).map((bytes) => anyValueOf(Buffer.from(bytes))),
    fc.constant({}),
    fc.array(tie('value'), { maxLength: 3 }).map((values) => ({ arrayValue: { values } })),
    fc
      .array(fc.record({ key, value: tie('value') }), { maxLength: 3 })
      .map((values) => ({ kvlistValue: { values } })),
  ),
}));
const attributes = fc.array(fc.record({ key, value }), { maxLength: 8 });
const id = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((array) => {
    array[0] = 1;
    return Buffer.from(array).toString('hex');
  });
const span = fc.record(
  {
    traceId: id(16),
    spanId: id(8),
    parentSpanId: fc.oneof(fc.constant(''), id(8)),
    name: fc.string({ unit: 'binary', maxLength: 10 }),
    kind: fc.nat(6),
    startTimeUnixNano: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    endTimeUnixNano: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    attributes,
    events: fc.array(
      fc.record({
        name: fc.constantFrom('exception', 'other', 'gen_ai.choice', 'gen_ai.user.message'),
        timeUnixNano: fc.constant('1'),
        attributes,
      }),
      { maxLength: 2 },
    ),
    status: fc.record({ code: fc.nat(3), message: fc.string({ maxLength: 5 }) }),
    flags: fc.nat(300),
  },
  { requiredKeys: ['traceId', 'spanId'] },
);
const request = fc
  .array(
    fc.record({
      resource: fc.record({ attributes }),
      scopeSpans: fc.array(
        fc.record({
          scope: fc.record({ name: fc.string({ maxLength: 5 }), attributes }),
          spans: fc.array(span, { maxLength: 3 }),
          schemaUrl: fc.constantFrom('', 'https://example.com/schema'),
        }),
        { maxLength: 3 },
      ),
    }),
    { maxLength: 3 },
  )
  .map((resourceSpans): RequestForm => ({ resourceSpans }));

t.test('for any request', async (t) => {
  t.test('both encodings give the same observations, payloads and rejections', async () => {
    fc.assert(
      fc.property(request, (request) => {
        const proto = protoIndex(request);
        const json = jsonIndex(request);
        const all = (index: OtlpIndex) =>
          Array.from({ length: index.count }, (_, i) => {
            const observation = moduleOf(index).observe(index, i, i);
            const payload = moduleOf(index).payload(index, i, PAYLOAD_FIELDS);
            for (const text of Object.values(payload)) JSON.parse(text);
            const mask = PAYLOAD_FIELDS.reduce((m, f, k) => m | (f in payload ? 1 << k : 0), 0);
            if (mask !== observation.payloadMask) throw new Error('the mask is wrong');
            return { observation, payload, id: moduleOf(index).itemId(index, i) };
          });
        same(all(proto), all(json));
        same(otlpCustomFieldRejections(proto), otlpCustomFieldRejections(json));
        same(otlpRejections(proto), []);
      }),
      { numRuns: 150 },
    );
  });

  t.test('cut keeps the other spans unchanged', async () => {
    fc.assert(
      fc.property(request, fc.infiniteStream(fc.boolean()), (request, choice) => {
        for (const index of [protoIndex(request), jsonIndex(request)]) {
          const format = moduleOf(index);
          const keep = Array.from({ length: index.count }, (_, i) => i).filter(
            () => choice.next().value,
          );
          const bytes = format.cut(index, keep);
          const cut = format.scan(bytes, LIMITS);
          same(
            Array.from({ length: cut.count }, (_, i) => format.source(cut, i)),
            keep.map((position) => format.source(index, position)),
          );
          if (keep.length === index.count) same(bytes.equals(index.bytes), true);
          if (index.type === 'otlp_proto') {
            const spans = decodeRequest(bytes).resourceSpans.flatMap((r) => r.scopeSpans);
            same(
              spans.flatMap((scope) => scope.spans),
              keep.map((i) => decodedSpans(index.bytes)[i]),
            );
          }
        }
      }),
      { numRuns: 80 },
    );
  });

  t.test('the sources of all spans look for each schema URL once', async (t) => {
    const spans = Array.from({ length: 300 }, (_, i) => spanOf(i));
    const request = {
      resourceSpans: [{ scopeSpans: [{ spans, schemaUrl: 'u' }], schemaUrl: 'v' }],
    };
    for (const index of [protoIndex(request), jsonIndex(request)]) {
      const { bytes, work } = countedBytes(index.bytes);
      const format = moduleOf(index);
      const counted = { ...index, bytes };
      const sources = spans.map((_, i) => JSON.parse(format.source(counted, i)));
      t.match(sources.at(-1), {
        resourceSpans: [{ scopeSpans: [{ schemaUrl: 'u' }], schemaUrl: 'v' }],
      });
      t.ok(work.read < 2 * index.bytes.length, `${work.read} of ${index.bytes.length} bytes`);
    }
  });

  t.test('source is a request with an equal span', async () => {
    fc.assert(
      fc.property(request, (request) => {
        for (const index of [protoIndex(request), jsonIndex(request)]) {
          for (let i = 0; i < index.count; i++) {
            const alone = jsonIndex(moduleOf(index).source(index, i));
            same(alone.count, 1);
            same(otlpJson.observe(alone, 0, i), moduleOf(index).observe(index, i, i));
            same(
              otlpJson.payload(alone, 0, PAYLOAD_FIELDS),
              moduleOf(index).payload(index, i, PAYLOAD_FIELDS),
            );
          }
        }
      }),
      { numRuns: 80 },
    );
  });
});

function decodedSpans(bytes: Buffer): unknown[] {
  return decodeRequest(bytes)
    .resourceSpans.flatMap((resource) => resource.scopeSpans)
    .flatMap((scope) => scope.spans);
}

function same(found: unknown, wanted: unknown): void {
  const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`found ${a}, wanted ${b}`);
}

t.test('usage is the bytes of attributes and events', async (t) => {
  const more = {
    attributes: attributesOf({ a: 'x', b: 1 }),
    events: [{ name: 'e' }],
    name: 'not counted',
  };
  const proto = protoIndex(requestOf([spanOf(0, more)]));
  t.equal(otlpProto.usageBytes(proto, 0), 8 + 7 + 3, 'as received in protobuf');
  const spaced = JSON.stringify(requestOf([spanOf(0, more)]), null, 4);
  const json = jsonIndex(spaced);
  const compact = JSON.stringify(more.attributes).length + JSON.stringify(more.events).length;
  t.equal(otlpJson.usageBytes(json, 0), compact, 'as compact JSON in JSON');
});

t.test('cuts JSON with white space', async (t) => {
  const text = JSON.stringify(requestOf([spanOf(0), spanOf(1), spanOf(2)]), null, 2);
  const index = jsonIndex(text);
  for (const keep of [[], [0], [1], [2], [0, 2], [0, 1, 2]]) {
    const cut = otlpJson.cut(index, keep);
    const again = otlpJson.scan(cut, LIMITS);
    t.same(
      Array.from({ length: again.count }, (_, i) => otlpJson.observe(again, i, 0).name),
      keep.map((i) => `span ${i}`),
    );
  }
});

t.test('ignores groups anywhere in a message', async (t) => {
  const request = requestOf(
    [
      spanOf(0, {
        attributes: attributesOf({
          'input.value': 'in',
          list: ['a', { x: 1 }],
          map: { y: [true] },
        }),
        events: [{ name: 'exception', timeUnixNano: '5', attributes: attributesOf({ m: 'x' }) }],
        links: [{ traceId: '01', spanId: '02', attributes: attributesOf({ q: 1 }) }],
        status: { code: 2, message: 'bad' },
      }),
      spanOf(1),
    ],
    { resource: { attributes: attributesOf({ service: 'x' }) }, scope: { name: 's' } },
  );
  const plain = encodeRequest(request);
  const grouped = withGroups(plain, REQUEST);
  t.ok(grouped.length > plain.length + 40 * GROUP.length);
  const [expected, found] = [plain, grouped].map((bytes) => {
    const index = otlpProto.scan(bytes, LIMITS);
    return [0, 1].map((position) => [
      otlpProto.observe(index, position, position),
      otlpProto.payload(index, position, PAYLOAD_FIELDS),
      otlpRejections(index),
    ]);
  });
  t.same(found, expected);
});

/** Field 99, a group with a string, a number and a nested group. */
const GROUP = Buffer.from('9b060a014110017b0d000000007c9c06', 'hex');
/** The messages that get groups, by field number. */
type Shape = { readonly [field: number]: Shape };
const VALUE: { [field: number]: Shape } = {};
const ATTRIBUTE: Shape = { 2: VALUE };
VALUE[5] = { 1: VALUE };
VALUE[6] = { 1: ATTRIBUTE };
const SPAN: Shape = { 9: ATTRIBUTE, 11: { 3: ATTRIBUTE }, 13: { 4: ATTRIBUTE }, 15: {} };
const REQUEST: Shape = { 1: { 1: { 1: ATTRIBUTE }, 2: { 1: {}, 2: SPAN } } };

/** A message with a group before each of its fields and after the last one. */
function withGroups(message: Buffer, shape: Shape): Buffer {
  const parts: Buffer[] = [];
  let p = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[p++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (p < message.length) {
    const start = p;
    const tag = varint();
    parts.push(GROUP);
    if ((tag & 7) !== 2) {
      if ((tag & 7) === 0) varint();
      else p += (tag & 7) === 1 ? 8 : 4;
      parts.push(message.subarray(start, p));
      continue;
    }
    const head = message.subarray(start, p);
    const length = varint();
    const content = message.subarray(p, p + length);
    p += length;
    const inner = shape[tag >> 3];
    const changed = inner === undefined ? content : withGroups(content, inner);
    parts.push(head, lengthOf(changed), changed);
  }
  return Buffer.concat([...parts, GROUP]);
}

function lengthOf({ length }: Buffer): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest > 127; rest >>= 7) bytes.push((rest & 127) | 128);
  return Buffer.from([...bytes, rest]);
}
