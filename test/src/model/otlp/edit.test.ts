import fc from 'fast-check';
import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { visitSharedTexts, visitTexts } from '../../../../src/model/formats.ts';
import { OTLP_STRIDE, OtlpField } from '../../../../src/model/otlp/fields.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import {
  DecodedText,
  Mark,
  maskScalar,
  type ScalarPlace,
  type TextPlace,
} from '../../../../src/model/texts.ts';
import { decodeRequest, encodeRequest } from '../../../helper/otlp-proto.ts';
import { maskRange } from '../masking.ts';
import { type RequestForm, requestForm, type TextOf, textsOfRequest } from './forms.ts';

const LIMITS = { maxItems: 1000 };
const FORMATS = { otlp_proto: otlpProto, otlp_json: otlpJson };

type Walk = (visit: (place: TextPlace) => void) => void;

function seen({ bytes }: OtlpIndex, walk: Walk): object[] {
  const found: object[] = [];
  walk((place) => {
    const { field, keyStart, keyEnd } = place;
    const key = keyStart === -1 ? undefined : bytes.toString('utf8', keyStart, keyEnd);
    found.push({ field, key, text: new DecodedText(bytes, place).text });
  });
  return found;
}

function itemTexts(index: OtlpIndex, position: number): Walk {
  return (text) => visitTexts(index, position, { text });
}

function sharedTexts(index: OtlpIndex): Walk {
  return (text) => visitSharedTexts(index, { text });
}

/** Every text of a body in the order of the bytes. */
function placesOf(index: OtlpIndex): TextPlace[] {
  const places: TextPlace[] = [];
  sharedTexts(index)((place) => places.push({ ...place }));
  for (let i = 0; i < index.count; i++) {
    itemTexts(index, i)((place) => places.push({ ...place }));
  }
  return places.sort((a, b) => a.start - b.start);
}

/** A body with its decoded form, which an edit of the form does not change. */
type Body = {
  readonly index: OtlpIndex;
  readonly form: () => RequestForm;
  readonly isWire: boolean;
};

function wireBody(request: RequestForm): Body {
  const bytes = encodeRequest(request as object);
  const form = () => decodeRequest(bytes) as RequestForm;
  return { index: otlpProto.scan(Buffer.from(bytes), LIMITS), form, isWire: true };
}

function jsonBody(request: RequestForm, indent: number): Body {
  const text = JSON.stringify(request, null, indent);
  return {
    index: otlpJson.scan(Buffer.from(text), LIMITS),
    form: () => JSON.parse(text),
    isWire: false,
  };
}

const body = fc
  .tuple(requestForm, fc.constantFrom('wire', 'json', 'indented json'))
  .map(([request, encoding]) =>
    encoding === 'wire' ? wireBody(request) : jsonBody(request, encoding === 'json' ? 0 : 1),
  );

function plain(texts: readonly TextOf[]): object[] {
  return texts.map(({ field, key, text }) => ({ field, key, text }));
}

t.test('the texts of spans', async (t) => {
  t.test('are the strings that a walk of the decoded form finds, in both encodings', async () => {
    fc.assert(
      fc.property(body, ({ index, form, isWire }) => {
        const { spans, shared } = textsOfRequest(form(), isWire);
        same(index.count, spans.length);
        for (const [position, texts] of spans.entries()) {
          same(seen(index, itemTexts(index, position)), plain(texts));
        }
        same(seen(index, sharedTexts(index)), plain(shared));
      }),
      { numRuns: 600 },
    );
  });

  t.test('of protobuf include repeated and misplaced fields, and no unknown ones', async (t) => {
    const value = (text: string) => field(2, field(1, text));
    const attribute = (...parts: Buffer[]) => field(9, Buffer.concat(parts));
    const index = scanSpan(
      attribute(value('late'), field(1, 'input')),
      attribute(field(1, 'first'), field(1, 'output'), value('text')),
      attribute(field(1, 'error'), field(2, Buffer.concat([field(1, 'one'), field(1, 'of')]))),
      attribute(value('no key')),
      attribute(field(1, 'a'), field(7, 'unknown'), field(2, field(9, 'unknown'))),
      field(5, 'a name'),
      field(60, 'unknown'),
      Buffer.from('7b0a0341424308017c', 'hex'),
      Buffer.from('5801', 'hex'),
      field(5, 'another'),
      field(15, Buffer.concat([field(2, 'm1'), field(2, 'm2'), field(1, 'reserved')])),
    );
    t.same(
      seen(index, itemTexts(index, 0)).map((text) => Object.values(text).join(' = ')),
      [
        'inputs = input = late',
        'outputs = output = text',
        'error = error = one',
        'error = error = of',
        'attributes =  = no key',
        'name =  = a name',
        'name =  = another',
        'error =  = m1',
        'error =  = m2',
      ],
    );
  });

  t.test('of protobuf are those of merged messages, which are all that is kept', async (t) => {
    const value = (text: string) => field(2, field(1, text));
    const index = scanSpan(field(9, Buffer.concat([field(1, 'a'), value('first'), value('last')])));
    const texts = seen(index, itemTexts(index, 0)).map((text) => Object.values(text).join(' = '));
    t.same(texts, ['attributes = a = last']);
    t.notMatch(index.bytes.toString('latin1'), 'first');
  });

  t.test('of JSON include late, repeated and escaped keys, and unknown members', async (t) => {
    const index = scanJsonSpan(`
      "attributes": [
        {"value": {"stringValue": "late"}, "key": "input"},
        {"key": "output", "value": {"stringValue": "repeated"}, "key": "error"},
        {"k\\u0065y": "\\u0069nput", "v\\u0061lue": {"stringValue": "escaped"}},
        {"value": {"kvlistValue": {"values": [
          {"value": {"arrayValue": {"values": [{"stringValue": "deep"}]}}, "key": "b"}
        ]}}, "key": "a"},
        {"value": {"stringValue": "no key"}},
        {"key": "a", "value": {"stringValue": "x", "stringValue": "y", "intValue": "5"}},
        {"key": "a", "value": {"unknown": "z", "bytesValue": "aGk=", "doubleValue": "NaN"}},
        {"key": null, "value": null, "unknown": {"secret": ["in"]}}
      ],
      "name": null, "kind": "SPAN_KIND_CLIENT", "unknown": [{"secret": ["in"]}],
      "status": {"unknown": "u", "message": "m", "code": "STATUS_CODE_ERROR"},
      "attributes": [{"key": "input", "value": {"stringValue": "again"}}]`);
    const { bytes } = index;
    const found: string[] = [];
    visitTexts(index, 0, {
      text: ({ field, start, end, keyStart, keyEnd, mark }) => {
        const key = keyStart === -1 ? '-' : bytes.toString('utf8', keyStart, keyEnd);
        const marked = mark === Mark.ALL ? ' (marked)' : '';
        found.push(`${field} ${key}=${bytes.toString('utf8', start, end)}${marked}`);
      },
      marks: (start, end) =>
        bytes.toString('utf8', start, end) === 'secret' ? Mark.ALL : Mark.NONE,
    });
    t.same(found.slice(2), [
      'inputs input=late',
      'error error=repeated',
      'inputs \\u0069nput=escaped',
      'attributes b=deep',
      'attributes =no key',
      'attributes a=x',
      'attributes a=y',
      'attributes unknown=z',
      'attributes secret=in (marked)',
      'attributes secret=in (marked)',
      'attributes unknown=u',
      'error -=m',
      'inputs input=again',
    ]);
  });

  t.test('of a span that a repeated key shadows are shared texts', async (t) => {
    const span = (name: string) => `{"traceId":"${'0a'.repeat(16)}","name":"${name}"}`;
    const text = `{"x":"u","resourceSpans":[{"scopeSpans":[
      {"spans":[${span('old')}],"spans":[${span('new')}]}]}]}`;
    const index = otlpJson.scan(Buffer.from(text), LIMITS);
    const texts = (walk: Walk) => seen(index, walk).map((text) => Object.values(text).at(-1));
    t.same(texts(itemTexts(index, 0)), ['0a'.repeat(16), 'new']);
    t.same(texts(sharedTexts(index)), ['u', '0a'.repeat(16), 'old']);
  });

  t.test('are marked below every key that the visitor marks, in both encodings', async (t) => {
    const list = { arrayValue: { values: [{ stringValue: 'in' }] } };
    const inner = { values: [{ key: 'a', value: list }] };
    const attributes = [
      { key: 'secret', value: { kvlistValue: inner } },
      { key: 'b', value: { kvlistValue: { values: [{ key: 'secret', value: list }] } } },
      { key: 'c', value: { stringValue: 'out' } },
    ];
    const span = { traceId: '0a'.repeat(16), spanId: '0b'.repeat(8), attributes };
    const request = { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] };
    for (const { index } of [wireBody(request), jsonBody(request, 0)]) {
      const keys: string[] = [];
      visitTexts(index, 0, {
        text: ({ field, start, end, mark }) => {
          const isIn = index.bytes.toString('utf8', start, end) === 'in';
          if (field !== 'fixed') t.equal(mark !== Mark.NONE, isIn);
        },
        marks: (start, end) => {
          keys.push(index.bytes.toString('utf8', start, end));
          return keys.at(-1) === 'secret' ? Mark.TEXTS : Mark.NONE;
        },
      });
      t.same(keys, ['secret', 'a', 'b', 'secret', 'c']);
    }
  });

  t.test('are found in 100 lists in one another, in both encodings', async (t) => {
    let json: object = { stringValue: 'deep' };
    let wire = field(1, 'deep');
    for (let i = 0; i < 50; i++) {
      json = { kvlistValue: { values: [{ value: json, key: 'k' }] } };
      json = { arrayValue: { values: [json] } };
      wire = field(6, field(1, Buffer.concat([field(1, 'k'), field(2, wire)])));
      wire = field(5, field(1, wire));
    }
    const attributes = JSON.stringify([{ key: 'input', value: json }]);
    const attribute = field(9, Buffer.concat([field(1, 'input'), field(2, wire)]));
    for (const index of [scanSpan(attribute), scanJsonSpan(`"attributes":${attributes}`)]) {
      const deep = { field: 'inputs', key: 'k', text: 'deep' };
      t.same(seen(index, itemTexts(index, 0)).at(-1), deep);
    }
  });
});

/** A field of protobuf with wire type 2, by an encoder that shares no code with the product's. */
function field(number: number, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content);
  return Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

function varint(value: number): Buffer {
  const low = value & 127;
  return value < 128 ? Buffer.of(low) : Buffer.concat([Buffer.of(low | 128), varint(value >>> 7)]);
}

const IDS = Buffer.concat([field(1, Buffer.alloc(16, 10)), field(2, Buffer.alloc(8, 11))]);

/** A request of one span with these fields behind its ids. */
function spanBytes(...fields: readonly Buffer[]): Buffer {
  return field(1, field(2, field(2, Buffer.concat([IDS, ...fields]))));
}

function scanSpan(...fields: readonly Buffer[]): OtlpIndex {
  return otlpProto.scan(spanBytes(...fields), LIMITS);
}

function scanJsonSpan(members: string): OtlpIndex {
  const ids = `"traceId":"${'0a'.repeat(16)}","spanId":"${'0b'.repeat(8)}"`;
  const text = `{"resourceSpans":[{"scopeSpans":[{"spans":[{${ids},${members}}]}]}]}`;
  return otlpJson.scan(Buffer.from(text), LIMITS);
}

t.test('a splice of spans', async (t) => {
  const replacement = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constant(''),
    fc.integer({ min: 120, max: 135 }).map((length) => 'x'.repeat(length)),
    fc.constantFrom('y'.repeat(16_383), 'y'.repeat(16_384)),
  );
  const replacements = fc.array(fc.option(replacement, { freq: 2 }), {
    minLength: 1,
    maxLength: 9,
  });

  t.test(
    'equals the same edit of the decoded form, and its inverse restores the bytes',
    async () => {
      fc.assert(
        fc.property(body, replacements, ({ index, form, isWire }, replacements) => {
          const format = FORMATS[index.type];
          const places = placesOf(index);
          const edited = form();
          const texts = textsOfRequest(edited, isWire).inOrder;
          same(places.length, texts.length);
          const splices = places.flatMap(({ start, end, field }, i) => {
            const text = replacements[i % replacements.length];
            if (typeof text !== 'string' || field === 'fixed') return [];
            texts[i]?.set(text);
            return [{ start, end, bytes: format.encodeText(text) }];
          });
          const spliced = format.splice(index, splices);
          const found = isWire ? decodeRequest(spliced) : JSON.parse(spliced.toString());
          same(found, edited, isWire ? withoutEmptyFields : undefined);
          const again = format.scan(spliced, LIMITS);
          const inverse = placesOf(again).map(({ start, end }, i) => {
            const place = places[i];
            return { start, end, bytes: index.bytes.subarray(place?.start, place?.end) };
          });
          same(format.splice(again, inverse).equals(index.bytes), true);
        }),
        { numRuns: 400 },
      );
    },
  );

  const attribute = (text: string) =>
    field(9, Buffer.concat([field(1, 'a'), field(2, field(1, text))]));
  const splice = (index: OtlpIndex, start: number, end: number, text: string | Buffer) =>
    otlpProto.splice(index, [{ start, end, bytes: Buffer.from(text) }]);

  t.test('encodes the lengths of all messages around it again', async (t) => {
    const lengths = [0, 1, 90, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152];
    for (const from of lengths) {
      const index = scanSpan(attribute('x'.repeat(from)), field(5, 'behind'));
      const [place] = placesOf(index);
      for (const to of lengths) {
        const text = 'y'.repeat(to);
        const spliced = splice(index, place?.start ?? 0, place?.end ?? 0, text);
        const expected = spanBytes(attribute(text), field(5, 'behind'));
        t.ok(spliced.equals(expected), `from ${from} to ${to} bytes`);
      }
    }
  });

  t.test('keeps unknown fields, groups and everything else byte for byte', async (t) => {
    const around = Buffer.concat([field(60, 'unknown'), Buffer.from('7b0a0341424308017c', 'hex')]);
    const status = (text: string) => field(15, Buffer.concat([around, field(2, text), around]));
    const index = scanSpan(around, status('old'), around, field(5, ''), around);
    const edited = placesOf(index).map(({ start, end }) => {
      return { start, end, bytes: Buffer.from('new text') };
    });
    const expected = [around, status('new text'), around, field(5, 'new text'), around];
    t.ok(otlpProto.splice(index, edited).equals(spanBytes(...expected)));
  });

  t.test(
    'keeps a length that is spelled with more bytes than it needs, unless it changes',
    async (t) => {
      const longLength = Buffer.from('2a83800041424344454647'.slice(0, 14), 'hex');
      const index = scanSpan(longLength, field(3, 'state'));
      const [name, state] = placesOf(index);
      const same = splice(index, name?.start ?? 0, name?.end ?? 0, 'XYZ');
      t.ok(same.includes(Buffer.from('2a83800058595a', 'hex')));
      const other = splice(index, state?.start ?? 0, state?.end ?? 0, 'other state');
      t.ok(other.includes(longLength));
      const longer = splice(index, name?.start ?? 0, name?.end ?? 0, 'VWXYZ');
      t.ok(longer.equals(spanBytes(field(5, 'VWXYZ'), field(3, 'state'))));
    },
  );

  t.test('of an empty range belongs to the innermost string that it touches', async (t) => {
    const last = scanSpan(field(5, 'name'), attribute(''));
    const end = last.bytes.length;
    t.ok(splice(last, end, end, 'x').equals(spanBytes(field(5, 'name'), attribute('x'))));
    const filled = scanSpan(attribute('ab'));
    const [place] = placesOf(filled);
    const [from, to] = [place?.start ?? 0, place?.end ?? 0];
    t.ok(splice(filled, from, from, 'x').equals(spanBytes(attribute('xab'))));
    t.ok(splice(filled, from + 1, from + 1, 'x').equals(spanBytes(attribute('axb'))));
    t.ok(splice(filled, to, to, 'x').equals(spanBytes(attribute('abx'))));
  });

  t.test('may replace whole fields of one message', async (t) => {
    const fields = [field(5, 'name'), attribute('ab'), Buffer.from('7b7c', 'hex'), field(3, 's')];
    const index = scanSpan(...fields);
    const start = index.bytes.indexOf(fields[0] ?? '');
    const at = (i: number) => start + Buffer.concat(fields.slice(0, i)).length;
    const more = attribute('more');
    const result = (from: number, to: number, ...expected: readonly Buffer[]) =>
      t.ok(splice(index, at(from), at(to), more).equals(spanBytes(...expected)), `${from}-${to}`);
    const [a, b, c, d] = fields as [Buffer, Buffer, Buffer, Buffer];
    result(0, 1, more, b, c, d);
    result(1, 2, a, more, c, d);
    result(1, 3, a, more, d);
    result(2, 4, a, b, more);
    result(0, 4, more);
  });

  t.test('throws if splices overlap, are not in order or cut a field', async (t) => {
    const index = scanSpan(field(5, 'name'), attribute('ab'));
    const start = index.bytes.indexOf(field(5, 'name'));
    const splices = (...ranges: readonly (readonly [number, number])[]) => {
      const bytes = Buffer.from('x');
      const list = ranges.map(([from, to]) => ({ start: start + from, end: start + to, bytes }));
      return () => otlpProto.splice(index, list);
    };
    t.doesNotThrow(splices([2, 4], [4, 6]));
    t.throws(splices([2, 5], [4, 6]), RangeError, 'they overlap');
    t.throws(splices([4, 6], [2, 4]), RangeError, 'they are not in order');
    t.throws(splices([4, 3]), RangeError, 'the range is negative');
    t.throws(splices([0, 3]), RangeError, 'the end is within a string');
    t.throws(splices([1, 3]), RangeError, 'the start is a length');
    t.throws(splices([3, 7]), RangeError, 'the end is in another field');
    t.throws(splices([0, 200]), RangeError, 'the end is behind the body');
  });
});

t.test('masked spans have the structure that they had', async () => {
  const ranges = fc.array(fc.tuple(fc.nat(30), fc.nat(30)), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(body, ranges, ({ index, form, isWire }, ranges) => {
      const { bytes } = index;
      const before = structureOf(index);
      const { length } = bytes;
      for (const [i, place] of placesOf(index).entries()) {
        if (place.field === 'fixed') continue;
        const [from = 0, length = 0] = ranges[i % ranges.length] ?? [];
        const start = Math.min(place.start + from, place.end);
        maskRange(bytes, place, start, Math.min(start + length, place.end));
      }
      same(bytes.length, length);
      same(structureOf(FORMATS[index.type].scan(bytes, LIMITS)), before);
      const masked = isWire ? decodeRequest(bytes) : JSON.parse(bytes.toString());
      const shapeOf = (form: RequestForm) =>
        textsOfRequest(form, isWire).inOrder.map(({ field, key }) => [field, key]);
      same(shapeOf(masked as RequestForm), shapeOf(form()));
    }),
    { numRuns: 400 },
  );
});

t.test('masked scalars below marked keys are zeros or nulls, in both encodings', async (t) => {
  const values = [
    ...[{ intValue: '1' }, { intValue: '-9223372036854775808' }, { doubleValue: 1.5 }],
    ...[{ bytesValue: 'aGVsbG8=' }, { bytesValue: '' }, { boolValue: true }, {}],
    { kvlistValue: { values: [{ key: 'a', value: { intValue: '300' } }] } },
  ];
  const list = (all: readonly object[]) => ({ arrayValue: { values: all } });
  const attributes = [
    { key: 'secret', value: list(values) },
    { key: 'b', value: list(values) },
  ];
  const span = { traceId: '0a'.repeat(16), spanId: '0b'.repeat(8), kind: 3, attributes };
  const request = { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] };
  const none = [
    ...[{ intValue: 0 }, { intValue: null }, { doubleValue: 0 }],
    ...[{ bytesValue: null }, { bytesValue: '' }, { boolValue: true }, {}],
    { kvlistValue: { values: [{ key: 'a', value: { intValue: null } }] } },
  ];
  for (const { index, form, isWire } of [wireBody(request), jsonBody(request, 0)]) {
    const { bytes } = index;
    const { length } = bytes;
    const expected = form();
    const places: ScalarPlace[] = [];
    visitTexts(index, 0, {
      text: () => {},
      marks: (start, end) =>
        bytes.toString('utf8', start, end) === 'secret' ? Mark.ALL : Mark.NONE,
      scalar: (place) => places.push(place),
    });
    t.equal(places.length, 5);
    for (const place of places) maskScalar(bytes, place);
    t.equal(bytes.length, length);
    t.same(structureOf(FORMATS[index.type].scan(bytes, LIMITS)), structureOf(index));
    const masked = isWire ? decodeRequest(bytes) : JSON.parse(bytes.toString());
    const [found, before] = [masked, expected].map(
      (request) => (request as typeof masked).resourceSpans[0].scopeSpans[0].spans[0],
    );
    t.same(found.attributes[1], before.attributes[1], 'other keys keep their values');
    const wireNone = [
      ...[{ intValue: '0' }, { intValue: '0' }, { doubleValue: 0 }, { bytesValue: 'AAAAAAA=' }],
      ...[{ bytesValue: '' }, { boolValue: true }, {}],
      { kvlistValue: { values: [{ key: 'a', value: { intValue: '0' } }] } },
    ];
    t.same(found.attributes[0].value.arrayValue.values, isWire ? wireNone : none);
    t.same({ ...found, attributes: [] }, { ...before, attributes: [] });
  }
});

/** All of an index but the sizes, which count an escape of JSON as the character that it stands for. */
function structureOf({ count, spans, resources, scopes }: OtlpIndex): object {
  const sizes: readonly number[] = [OtlpField.ATTRIBUTE_BYTES, OtlpField.EVENT_BYTES];
  const places = [...spans].filter((_, i) => !sizes.includes(i % OTLP_STRIDE));
  return { count, places, resources: [...resources], scopes: [...scopes] };
}

type Replacer = (key: string, value: unknown) => unknown;

/** Protobufjs gives an empty string as absent, except in a oneof. */
const withoutEmptyFields: Replacer = (key, value) =>
  value === '' && key !== 'stringValue' ? undefined : value;

/** Throws with both values; a tap assertion would print one line for each run of a property. */
function same(found: unknown, expected: unknown, replacer?: Replacer): void {
  const [a, b] = [found, expected].map((value) => JSON.stringify(value, replacer));
  if (a !== b) throw new Error(`found ${a}, expected ${b}`);
}
