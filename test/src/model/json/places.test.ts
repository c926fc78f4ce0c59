import fc from 'fast-check';
import t from 'tap';
import { decodeJson } from '../../../../src/model/json/decode.ts';
import { skipValue, textOf } from '../../../../src/model/json/grammar.ts';
import { placesAt } from '../../../../src/model/json/places.ts';

const PATH = ['*', 'a', 'b'];

function valuesAt(json: string, path = PATH, most = 100): unknown[] {
  const bytes = Buffer.from(json);
  return placesAt(bytes, 0, path, most).map((start) =>
    decodeJson(bytes, start, skipValue(textOf(bytes), start, 0)),
  );
}

t.test('finds the values at a path, as a reader of the parsed value does', async () => {
  const leaf = fc.oneof(fc.integer(), fc.constantFrom('"', '\\', ' [{', null, true));
  const keys = fc.constantFrom('a', 'b', 'c', '*', 'é"');
  const { value } = fc.letrec<{ value: unknown }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      leaf,
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(keys, tie('value'), { maxKeys: 4 }),
    ),
  }));
  const expected = (parsed: unknown) =>
    (Array.isArray(parsed) ? parsed : []).flatMap((each) => {
      const inner = isObject(each) ? each['a'] : undefined;
      return isObject(inner) && 'b' in inner ? [inner['b']] : [];
    });
  fc.assert(
    fc.property(fc.array(value), fc.constantFrom(0, 2), (sent, indent) => {
      const json = JSON.stringify(sent, null, indent);
      const parsed = JSON.parse(json);
      return JSON.stringify(valuesAt(json)) === JSON.stringify(expected(parsed));
    }),
    { numRuns: 2000 },
  );
});

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

t.test('takes the last one of a repeated name, and the first values', async (t) => {
  t.same(valuesAt('[{"a":{"b":1,"b":2},"a":{"b":3,"\\u0062":4}},{"a":{"b":5},"a":6}]'), [4]);
  const many = `[${Array.from({ length: 5 }, (_, i) => `{"a":{"b":${i}}}`).join()}]`;
  t.same(valuesAt(many, PATH, 3), [0, 1, 2]);
  t.same(valuesAt(many, PATH, 5), [0, 1, 2, 3, 4]);
  t.same(valuesAt('[[1],[2,3],4]', ['*', '*']), [1, 2, 3]);
  t.same(valuesAt('5', []), [5]);
});
