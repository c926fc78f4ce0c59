import fc from 'fast-check';
import t from 'tap';
import { CONVENTIONS } from '../../../../bench/conventions.ts';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { Refusal } from '../../../../src/model/errors.ts';
import type { Observation } from '../../../../src/model/observation.ts';
import { resourceFacts, scopeName, spanAt, spanField } from '../../../../src/model/otlp/context.ts';
import { OtlpField } from '../../../../src/model/otlp/fields.ts';
import { otlpJson } from '../../../../src/model/otlp/format.ts';
import { factsOfSpan, observationOfSpan, spanHeadOf } from '../../../../src/model/otlp/observe.ts';
import { observeJson } from '../../../../src/model/otlp/observe-json.ts';
import { attributesOf, requestOf, spanOf } from '../../../helper/otlp-proto.ts';

/** The observation of a span that JSON.parse decodes as a whole. */
function parsed(index: OtlpIndex, position: number): Observation {
  const span = spanAt(index, position);
  const scope = scopeName(index, spanField(index, position, OtlpField.SCOPE));
  const resource = resourceFacts(index, spanField(index, position, OtlpField.RESOURCE));
  return observationOfSpan(spanHeadOf(span, scope), factsOfSpan(span), resource, position);
}

/** The observations by both ways; undefined for a body that is refused. */
function bothWays(text: string): readonly [unknown[], unknown[]] | undefined {
  let index: OtlpIndex;
  try {
    index = otlpJson.scan(Buffer.from(text), { maxItems: 10, maxDepth: 512 });
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
  const each = (way: (position: number) => unknown) =>
    Array.from({ length: index.count }, (_, position) => resultOf(() => way(position)));
  return [each((at) => observeJson(index, at, at)), each((at) => parsed(index, at))];
}

function resultOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return String(error);
  }
}

function textWith(attributes: readonly Readonly<Record<string, unknown>>[]): string {
  const spans = attributes.map((each, i) =>
    spanOf(i, {
      attributes: attributesOf(each),
      ...(i === 0 ? {} : { parentSpanId: 'AB'.repeat(8) }),
      status: { code: 2, message: 'fäiled\n' },
      events: [
        { name: 'exception', attributes: attributesOf({ 'exception.type': 'E' }) },
        { name: 'gen_ai.first_token', timeUnixNano: '1704067200500000001' },
      ],
    }),
  );
  return JSON.stringify(requestOf(spans, { scope: { name: 'test' } }));
}

const OTHER_FORMS = {
  'gen_ai.request.model': 'a "b"\\\u0001é\ud800',
  'input.value': '"é"\n\u0001\ud83d\ude00',
  'output.value': ['a', 'b'],
  'tag.tags': ['a "quoted"', 'b', ''],
  'gen_ai.usage.input_tokens': 123456789012345n,
  'gen_ai.usage.output_tokens': 2n ** 63n - 1n,
  'gen_ai.usage.total_tokens': 1.5,
  'gen_ai.usage.cache_read.input_tokens': 12.0,
  'operation.cost': 0.25,
  error: true,
  'custom_fields.a': 0.5,
  'custom_fields.b': false,
  'metadata.custom_fields': { a: 1, b: ['x'] },
  'user.id': '',
  'session.id': 7,
};

t.test('a narrow decode gives the observation of a whole parse', async (t) => {
  t.test('for the attributes of each convention', async (t) => {
    for (const [name, attributes] of Object.entries(CONVENTIONS)) {
      const [narrow, whole] = bothWays(textWith([attributes, attributes])) ?? [];
      t.equal(narrow?.length, 2, name);
      t.same(narrow, whole, name);
    }
  });

  t.test('for values of other types, spellings and sizes', async (t) => {
    const [narrow, whole] = bothWays(textWith([OTHER_FORMS])) ?? [];
    t.equal(narrow?.length, 1);
    t.same(narrow, whole);
  });

  t.test('for repeated, unknown and null members', async (t) => {
    const text = textWith([{ 'gen_ai.request.model': 'gpt-4o' }]);
    for (const change of [
      ['"name":', '"name":"first","name":'],
      ['"name":', '"attributes":[{"key":"session.id","value":{"stringValue":"s"}}],"name":'],
      ['"name":', '"status":null,"other":[{"a":1}],"nam\\u0065":"x","old":'],
      ['"stringValue":', '"boolValue":true,"stringValue":'],
      ['"startTimeUnixNano":"1704067200000000001"', '"startTimeUnixNano":1704067200000000001'],
      ['"endTimeUnixNano":', '"endTimeUnixNano":null,"old":'],
    ] as const) {
      const changed = text.replace(change[0], change[1]);
      t.not(changed, text);
      const [narrow, whole] = bothWays(changed) ?? [];
      t.equal(narrow?.length, 1, change[1]);
      t.same(narrow, whole, change[1]);
    }
  });

  t.test('for any change of a character', async () => {
    const texts = [OTHER_FORMS, ...Object.values(CONVENTIONS)].map((each) =>
      textWith([shortened(each)]),
    );
    const change = fc.tuple(
      fc.nat(10_000),
      fc.constantFrom('', '"', '\\', '}', '{', ',', ':', '0', '-', '.', ' ', 'é', '\\u00e9', '\\n'),
      fc.boolean(),
    );
    let accepted = 0;
    fc.assert(
      fc.property(fc.constantFrom(...texts), change, (text, [place, put, isInsert]) => {
        const at = place % text.length;
        const changed = text.slice(0, at) + put + text.slice(isInsert ? at : at + 1);
        const [narrow, whole] = bothWays(changed) ?? [];
        if (narrow !== undefined) accepted++;
        if (JSON.stringify(narrow) !== JSON.stringify(whole)) {
          throw new Error(`${JSON.stringify(narrow)} instead of ${JSON.stringify(whole)}`);
        }
      }),
      { numRuns: 3000 },
    );
    if (accepted < 300) throw new Error(`only ${accepted} bodies were accepted`);
  });
});

/** Long contents take most places of a change, and little code. */
function shortened(attributes: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(attributes).map(([key, value]) => [
      key,
      typeof value === 'string' && value.length > 250 ? `${value.slice(0, 40)}"}]` : value,
    ]),
  );
}
