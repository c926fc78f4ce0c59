import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { otlpCustomFieldRejections } from '../../../../src/model/otlp/rules.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../../../helper/otlp-proto.ts';
import { requestForm } from './forms.ts';
import { jsonIndex, LIMITS, protoIndex } from './reading.ts';

type Value = Record<string, unknown> & { kvlistValue?: { values?: Attribute[] } };
type Attribute = { key?: string; value?: Value };
type Attributed = { attributes?: Attribute[] };

const WITHIN: Readonly<Record<string, readonly string[]>> = {
  custom_fields: [],
  'metadata.custom_fields': [],
  'extra.metadata.custom_fields': [],
  'context_metadata.custom_fields': [],
  metadata: ['custom_fields'],
  extra: ['metadata', 'custom_fields'],
  'extra.metadata': ['custom_fields'],
  context_metadata: ['custom_fields'],
};

/** The path of the first wrong `custom_fields`, by a walk over the decoded form. */
function wrongIn({ attributes = [] }: Attributed = {}): string | undefined {
  for (const { key = '', value } of attributes) {
    const path = WITHIN[key];
    if (path === undefined) continue;
    let found: Value | undefined = value;
    for (const step of path) {
      found = found?.kvlistValue?.values?.findLast((entry) => entry.key === step)?.value;
    }
    const kinds = Object.keys(found ?? {});
    if (kinds.some((kind) => kind !== 'kvlistValue')) return [key, ...path].join('.');
  }
  return undefined;
}

const pathsOf = (index: OtlpIndex) =>
  otlpCustomFieldRejections(index).map(({ index, reason }) => [
    index,
    reason.replace(/.*?\.attributes\.(.*) must be an object or null/, '$1'),
  ]);

t.test('custom fields are judged as in the decoded form, in both encodings', async () => {
  fc.assert(
    fc.property(requestForm, (request) => {
      const wanted: [number, string][] = [];
      let position = 0;
      for (const each of request.resourceSpans ?? []) {
        const { resource, scopeSpans = [] } = each as {
          resource: Attributed;
          scopeSpans?: { spans?: Attributed[] }[];
        };
        for (const span of scopeSpans.flatMap(({ spans = [] }) => spans)) {
          const path = wrongIn(span) ?? wrongIn(resource);
          if (path !== undefined) wanted.push([position, path]);
          position++;
        }
      }
      for (const index of [protoIndex(request), jsonIndex(request)]) {
        assert.deepEqual(pathsOf(index), wanted);
      }
    }),
    { numRuns: 300 },
  );
});

t.test('the last of repeated members counts, and names may have escapes', async (t) => {
  const object = '{"kvlistValue":{}}';
  const text = '{"stringValue":"a"}';
  const list = (...values: string[]) => `{"kvlistValue":{"values":[${values.join()}]}}`;
  const entry = (value: string) => `{"key":"custom_fields","value":${value}}`;
  const cases: [attributes: string, wrong: boolean][] = [
    [`{"key":"custom_fields","value":${text}}`, true],
    [`{"value":${text},"key":"custom_fields"}`, true],
    [`{"value":${object},"key":"custom_fields"}`, false],
    [`{"key":"custom_fields","value":${text},"value":${object}}`, false],
    [`{"key":"custom_fields","value":${object},"value":${text}}`, true],
    [`{"key":"custom_fields","value":${text},"value":null}`, false],
    [`{"key":"custom_fields","value":${text},"key":"other"}`, false],
    [`{"key":"other","value":${text},"key":"custom_fields"}`, true],
    [`{"key":"custom_fields","value":${text},"key":"metadata"}`, false],
    [`{"key":"metadata","value":${text},"key":"custom_fields"}`, true],
    [`{"k\\u0065y":"custom\\u005ffields","valu\\u0065":${text}}`, true],
    [`{"key":"custom_fields","value":{"string\\u0056alue":"a"}}`, true],
    ['{"key":"custom_fields","value":{"stringValue":null}}', false],
    ['{"key":"custom_fields","value":{"stringValue":"a","stringValue":null}}', false],
    ['{"key":"custom_fields","value":{"stringValue":"a","kvlistValue":{}}}', false],
    [
      '{"key":"custom_fields","value":{"kvlistValue":{},"kvlistValue":null,"boolValue":false}}',
      true,
    ],
    ['{"key":"custom_fields","value":{"unknown":1}}', false],
    [`{"key":"metadata","value":${list(entry(text))}}`, true],
    [`{"value":${list(entry(text))},"key":"metadata"}`, true],
    [`{"key":"metadata","value":${list(entry(text), entry(object))}}`, false],
    [`{"key":"metadata","value":${list(entry(object), entry(text), '{"key":"b"}')}}`, true],
    [`{"key":"metadata","value":${list(entry(text), '{"key":"custom_fields"}')}}`, false],
    ['{"key":"metadata","value":{"kvlistValue":{"values":null}}}', false],
    [`{"key":"metadata","value":{"kvlistValue":{"values":[${entry(text)}],"values":[]}}}`, false],
    [`{"key":"extra","value":${list(`{"key":"metadata","value":${list(entry(text))}}`)}}`, true],
    [`{"key":"extra","value":${list(entry(text))}}`, false],
  ];
  const { attributes: _, ...rest } = spanOf(0) as Record<string, unknown>;
  const span = JSON.stringify(rest).slice(0, -1);
  const indexOf = (members: string) =>
    otlpJson.scan(
      Buffer.from(`{"resourceSpans":[{"scopeSpans":[{"spans":[${span},${members}}]}]}]}`),
      LIMITS,
    );
  for (const [attribute, isWrong] of cases) {
    for (const members of [
      `"attributes":[${attribute}]`,
      `"attributes" : [ {"key":"a"} , ${attribute} ] , "name" : "n"`,
      `"attributes":[{"key":"custom_fields","value":{"intValue":1}}],"attributes":[${attribute}]`,
    ]) {
      t.equal(otlpCustomFieldRejections(indexOf(members)).length, isWrong ? 1 : 0, members);
    }
  }
});

t.test('the last of repeated fields of protobuf counts', async (t) => {
  const message = (tag: number, ...parts: Buffer[]) => {
    const content = Buffer.concat(parts);
    return Buffer.concat([Buffer.from([tag, content.length]), content]);
  };
  const key = (text: string) => message(10, Buffer.from(text));
  const text = message(10, Buffer.from('a'));
  const flag = Buffer.from([16, 1]);
  const kvlist = (...entries: Buffer[]) => message(50, ...entries.map((each) => message(10, each)));
  const value = (...parts: Buffer[]) => message(18, ...parts);
  const pair = (name: string, ...parts: Buffer[]) => Buffer.concat([key(name), value(...parts)]);
  const cases: [attribute: Buffer, wrong: boolean][] = [
    [pair('custom_fields', text), true],
    [pair('custom_fields'), false],
    [pair('custom_fields', flag, kvlist()), false],
    [pair('custom_fields', kvlist(), flag), true],
    [Buffer.concat([value(text), key('custom_fields')]), true],
    [Buffer.concat([key('custom_fields'), value(text), value(kvlist())]), false],
    [Buffer.concat([key('custom_fields'), value(text), key('other')]), false],
    [pair('metadata', kvlist(pair('custom_fields', text))), true],
    [pair('metadata', kvlist(pair('custom_fields', text), key('custom_fields'))), false],
    [pair('metadata', kvlist(pair('custom_fields', text)), text), false],
  ];
  const body = encodeRequest(requestOf([spanOf(0)]));
  const { spans } = otlpProto.scan(body, LIMITS);
  const span = body.subarray(spans[0], spans[1]);
  for (const [attribute, isWrong] of cases) {
    const request = message(10, message(18, message(18, span, message(74, attribute))));
    const index = otlpProto.scan(request, LIMITS);
    t.equal(otlpCustomFieldRejections(index).length, isWrong ? 1 : 0, attribute.toString('latin1'));
  }
});

t.test('no value of a span with custom fields becomes text', async (t) => {
  const large = attributesOf({ custom_fields: {}, metadata: { a: 'x'.repeat(1000) }, b: 'y' });
  const long = { key: 'long', value: { intValue: '9007199254740993' } };
  const request = requestOf(
    Array.from({ length: 100 }, (_, i) => spanOf(i, { attributes: [...large, long] })),
    { resource: { attributes: [...large, long] } },
  );
  for (const index of [protoIndex(request), jsonIndex(request)]) {
    const bytes = Buffer.from(index.bytes);
    let texts = 0;
    bytes.toString = () => {
      texts++;
      return '';
    };
    t.same(otlpCustomFieldRejections({ ...index, bytes }), []);
    t.equal(texts, 0);
  }
});

t.test('a long integer of a span costs no call for each value', async (t) => {
  const attributes = [
    { key: 'a', value: { intValue: 9 } },
    { key: 'b', value: { arrayValue: { values: Array(1000).fill({ intValue: 1 }) } } },
  ];
  const text = JSON.stringify(requestOf([spanOf(0, { attributes })]));
  const index = jsonIndex(text.replace('"intValue":9', '"intValue":9007199254740993'));
  const { parse } = JSON;
  let revived = 0;
  JSON.parse = (text, reviver) => {
    if (reviver !== undefined) revived++;
    return parse(text, reviver);
  };
  try {
    t.match(otlpJson.payload(index, 0, ['metadata']).metadata, '"a":9007199254740993,');
  } finally {
    JSON.parse = parse;
  }
  t.equal(revived, 0);
});
