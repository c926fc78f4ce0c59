import fc from 'fast-check';
import t from 'tap';
import { Refusal } from '../../../../src/model/errors.ts';
import { OTLP_STRIDE, OtlpField } from '../../../../src/model/otlp/fields.ts';
import { otlpJson } from '../../../../src/model/otlp/format.ts';
import { attributesOf, requestOf, spanOf } from '../../../helper/otlp-proto.ts';

/** Sizes and flags of the spans, or the code of the refusal. */
function scanned(text: string, maxDepth = 512): unknown {
  try {
    const { count, spans } = otlpJson.scan(Buffer.from(text), { maxItems: 10, maxDepth });
    return Array.from({ length: count }, (_, i) => {
      const { ATTRIBUTE_BYTES, EVENT_BYTES, FLAGS } = OtlpField;
      return [ATTRIBUTE_BYTES, EVENT_BYTES, FLAGS].map((field) => spans[i * OTLP_STRIDE + field]);
    });
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

/** The same JSON, in which no attribute is plain. */
const spaced = (text: string) => text.replaceAll('{"key":', '{ "key":');

const attributes = attributesOf({
  ...{ a: 'text', empty: '', é: 'ü', 'key "quoted"': 'x', lines: 'a\n"b"\\\u0001', n: 5 },
  ...{ zero: 0, big: 123456789012345n, bigger: 1234567890123456n, over: 2n ** 63n, nil: null },
  ...{ f: 0.5, yes: true, no: false, list: ['a', 1], metadata: { custom_fields: 'x' } },
  ...{ texts: ['a', 'b "c"'], one: ['é'], none: [], objects: [{ a: ['b'] }] },
});
const text = JSON.stringify(
  requestOf([
    spanOf(0, { attributes, events: [{ name: 'e', attributes: attributesOf({ a: 'b', n: 1 }) }] }),
    spanOf(1, { attributes: attributesOf({ custom_fields: 'wrong' }) }),
    spanOf(2),
  ]),
).replace(`"${2n ** 63n}"`, `"${2n ** 63n - 1n}"`);

t.test('a plain attribute is scanned as the same attribute with white space is', async (t) => {
  t.ok(Array.isArray(scanned(text)), 'the request is valid');
  t.same(scanned(text), scanned(spaced(text)));

  t.test('for any change of a character', async () => {
    const change = fc.tuple(
      fc.nat(text.length - 1),
      fc.constantFrom('', '"', '\\', '}', '{', ',', ':', '0', '-', '\n', ' ', 'é', '\\u00e9'),
      fc.boolean(),
    );
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 2 }), (changes) => {
        const changed = changes.reduce(
          (all, [at, put, isInsert]) => all.slice(0, at) + put + all.slice(isInsert ? at : at + 1),
          text,
        );
        const [found, expected] = [scanned(changed), scanned(spaced(changed))].map((one) =>
          JSON.stringify(one),
        );
        if (found !== expected) throw new Error(`${found} instead of ${expected}: ${changed}`);
      }),
      { numRuns: 1500 },
    );
  });

  t.test('for every length of a body that ends too early', async (t) => {
    const lengths = Array.from({ length: text.length }, (_, i) => i);
    t.ok(lengths.every((length) => scanned(text.slice(0, length)) === 'invalid_json'));
  });

  t.test('at the limit of nesting, and one level past it', async (t) => {
    const flat = JSON.stringify(requestOf([spanOf(0, { attributes: attributesOf({ a: 'b' }) })]));
    // The request, three lists with their messages, then the list of attributes, the attribute and its value.
    for (const maxDepth of [9, 10])
      t.same(scanned(flat, maxDepth), scanned(spaced(flat), maxDepth));
    t.equal(scanned(flat, 9), 'invalid_json');
    t.ok(Array.isArray(scanned(flat, 10)));
  });
});
