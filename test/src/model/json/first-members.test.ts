import fc from 'fast-check';
import t from 'tap';
import { firstMembersOf } from '../../../../src/model/json/first-members.ts';
import { findMembers, stringIn } from '../../../../src/model/json/read.ts';

function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, at) => text.charCodeAt(at));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

function read(json: string, most: number): [string, string][] {
  const bytes = Buffer.from(json);
  return [...firstMembersOf(bytes, 0, most)].map(({ key, start, end }) => [
    key,
    bytes.toString('utf8', start, end),
  ]);
}

t.test('reads the first members, and later ones that repeat one of their names', async (t) => {
  const json = `{"a":1, "é😀":{"x":[]}, "c":2, "a":3, "${escaped('é😀')}":4, "${escaped('c')}":5}`;
  t.same(read(json, 2), [
    ['a', '1'],
    ['é😀', '{"x":[]}'],
    ['a', '3'],
    ['é😀', '4'],
  ]);
  t.same(read(json, 6).length, 6);
  t.same(read(json, 5).length, 6);
  t.same(read('{ }', 2), []);
});

t.test('leaves out names that are too long to be decoded, and halves of pairs', async (t) => {
  const long = '\\n'.repeat(5_000);
  t.same(read(`{"a":1,"${long}":2,"\\ud800":3,"\\udc00a":4,"a":5}`, 1), [
    ['a', '1'],
    ['a', '5'],
  ]);
});

t.test('reads as many members of thousands as are wanted', async (t) => {
  const names = Array.from({ length: 5_000 }, (_, i) => `"n${i}":${i}`);
  const found = read(`{${names.join()},"n7":0,"n4999":0}`, 1_000);
  t.equal(found.length, 1_001);
  t.same(found.at(-1), ['n7', '0']);
});

t.test('decodes every spelling of a text as JSON.parse does', async (t) => {
  const unit = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 3 }).map((text) => JSON.stringify(text).slice(1, -1)),
    fc.string({ unit: 'binary', maxLength: 3 }).map(escaped),
    fc.constantFrom(
      '\\ud83d',
      '\\ude00',
      '\\uD83D\\uDE00',
      '\\/',
      '\\u00E9',
      '\\ud83d\\u0041',
      '\\udbff\\',
    ),
  );
  const texts = fc.array(unit, { maxLength: 8 }).map((parts) => `"${parts.join('')}"`);
  fc.assert(
    fc.property(texts, (json) => {
      if (json.endsWith('\\"')) return true;
      let parsed: unknown;
      try {
        parsed = JSON.parse(json);
      } catch {
        return true;
      }
      const bytes = Buffer.from(json);
      return stringIn(bytes, 0, bytes.length) === parsed;
    }),
    { numRuns: 500 },
  );
  const longest = `"${escaped('é').repeat(2_048)}"`;
  t.equal(stringIn(Buffer.from(longest), 0, longest.length), 'é'.repeat(2_048));
  const longer = `"${escaped('é').repeat(2_048)}a"`;
  t.equal(stringIn(Buffer.from(longer), 0, longer.length), `${'é'.repeat(2_048)}a`);
});

t.test('finds members by names with escapes', async (t) => {
  const bytes = Buffer.from(
    `{"${escaped('message')}":1,"${escaped('tŷpe')}":2,"\\ud800":3,"${escaped('message')}x":4,"tŷpe":5}`,
  );
  const { message, tŷpe } = findMembers(bytes, 0, ['message', 'tŷpe']);
  t.equal(bytes.toString('utf8', message?.start, message?.end), '1');
  t.equal(bytes.toString('utf8', tŷpe?.start, tŷpe?.end), '5');
  t.same(Object.keys(findMembers(bytes, 0, ['essage'])), []);
});
