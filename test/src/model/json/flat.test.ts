import fc from 'fast-check';
import t from 'tap';
import { numberMembersOf } from '../../../../src/model/json/flat.ts';

/** The members of an object and of the objects in it, as JSON.parse gives them. */
function membersOf(value: unknown): unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value).map(([name, member]) => [name, membersOf(member)])
    : value;
}

const name = fc.oneof(
  fc.constantFrom('input', 'output_tokens', 'a.b-c', '__proto__', 'constructor', '1', 'é', ''),
  fc.string(),
);
const number = fc.oneof(
  fc.nat(),
  fc.constantFrom(0, 0.001, 123456789012345, 1234567890123456, 1e21, -1, 5e-7, 0.1 + 0.2),
  fc.constantFrom(null, true, 'text', [1]),
);
const numbers = fc.dictionary(name, number);
const nested = fc.dictionary(name, fc.oneof(number, numbers, fc.dictionary(name, numbers)));

t.test('the members of an object of numbers are those of JSON.parse', async (t) => {
  t.test('for the usual counts and amounts', async (t) => {
    for (const text of [
      '{"input":12,"output_tokens":0,"details":{"cached":3}}',
      '{"input": 0.001, "total": 10.50}',
      '{"a":123456789012345}',
    ]) {
      t.same(numberMembersOf(text), membersOf(JSON.parse(text)), text);
    }
  });

  t.test('for any other object, unless it is left to JSON.parse', async () => {
    fc.assert(
      fc.property(nested, fc.boolean(), (value, isSpaced) => {
        const compact = JSON.stringify(value);
        const text = isSpaced ? compact.replaceAll(/([:,])/g, '$1 ') : compact;
        const found = numberMembersOf(text);
        if (found === undefined) return;
        if (JSON.stringify(found) !== JSON.stringify(membersOf(JSON.parse(text)))) {
          throw new Error(`${JSON.stringify(found)} of ${text}`);
        }
      }),
      { numRuns: 2000 },
    );
  });

  t.test('for any change of a character, unless it is left to JSON.parse', async () => {
    const text = '{"input":12,"cost":0.25,"details":{"cached":3,"b":0}}';
    const character = fc.constantFrom(...'"{}:,.0123456789-+eE \n\\aé', '');
    fc.assert(
      fc.property(fc.nat(text.length), character, fc.boolean(), (at, put, isInsert) => {
        const changed = text.slice(0, at) + put + text.slice(isInsert ? at : at + 1);
        const found = numberMembersOf(changed);
        if (found === undefined) return;
        if (JSON.stringify(found) !== JSON.stringify(membersOf(JSON.parse(changed)))) {
          throw new Error(`${JSON.stringify(found)} of ${changed}`);
        }
      }),
      { numRuns: 2000 },
    );
  });
});

t.test('other texts are left to JSON.parse', async (t) => {
  const many = (count: number) =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, i) => [`n${i}`, i])));
  for (const text of [
    ...['', '{}', '[1]', '1', 'null', '{"a":}', '{"a":1', '{"a":1}}', ' {"a":1}', '{"a":1,}'],
    ...['{"a":01}', '{"a":1.}', '{"a":.5}', '{"a":-1}', '{"a":1e3}', '{"a":"1"}', '{"a":null}'],
    ...['{"a":1,"a":2}', '{"1":1}', '{"a\\n":1}', '{"a":{"b":{"c":1}}}', '{"a":1234567890123456}'],
    many(33),
  ]) {
    t.equal(numberMembersOf(text), undefined, text);
  }
  t.equal(numberMembersOf(many(32))?.length, 32);
});
