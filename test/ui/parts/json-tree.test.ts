import fc from 'fast-check';
import t from 'tap';
import { parseExact } from '../../../ui/api/exact-json.ts';
import type { JsonNode } from '../../../ui/parts/json-tree.ts';
import {
  childrenOf,
  copiedText,
  findInJson,
  jsonDocument,
  MATCHES,
  pathOf,
  reveal,
  rowsOf,
  SHORT_TEXT,
  summaryOf,
} from '../../../ui/parts/json-tree.ts';
import { beginning, piecesOf, visible } from '../../../ui/parts/text-pieces.ts';

function openAll(node: JsonNode): void {
  const waiting = [node];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    next.isOpen = true;
    waiting.push(...childrenOf(next));
  }
}

t.test('an open document has a row for each value and for each end', async () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
      const root = jsonDocument(value);
      openAll(root);
      const count = (each: unknown): number =>
        typeof each === 'object' && each !== null
          ? 1 + Object.values(each).reduce<number>((sum, inner) => sum + count(inner), 0)
          : 1;
      const values = rowsOf(root, 100).filter(({ type }) => type === 'value');
      return values.length === count(value);
    }),
  );
});

t.test('opens the first levels of a small document, and not those of a large one', async (t) => {
  const small = jsonDocument({ a: { b: [1, 2] }, c: 'x' });
  t.equal(rowsOf(small, 100).length, 9);
  const large = jsonDocument({ list: Array.from({ length: 10_000 }, (_, i) => i), c: 'x' });
  t.equal(rowsOf(large, 100).length, 4);
});

t.test('shows documents that are 100,000 deep and texts of megabytes', async (t) => {
  let value: unknown = 'needle';
  for (let depth = 0; depth < 100_000; depth++) value = [value];
  const deep = jsonDocument(value);
  const [found] = findInJson(deep, 'needle');
  t.equal(found?.depth, 100_000);
  if (found !== undefined) reveal(deep, found);
  t.equal(rowsOf(deep, 100).length, 200_001);
  t.type(copiedText(value), 'string');
  const text = jsonDocument('x'.repeat(1_000_000));
  text.isOpen = true;
  t.equal(rowsOf(text, 100).length, 10_001);
});

t.test('shows lists of 500,000 values', async (t) => {
  const numbers = Array.from({ length: 500_000 }, (_, index) => index);
  t.equal(rowsOf(jsonDocument(numbers), 100).length, 500_002);
  t.equal(rowsOf(jsonDocument({ numbers }), 100).length, 3);
});

t.test('finds keys and values in closed parts, in the order of the document', async (t) => {
  const root = jsonDocument({ b: { Name: 'x' }, a: [{ v: 'the NAME' }], n: 1234, t: true });
  t.same(findInJson(root, 'name').map(pathOf), ['$.b.Name', '$.a[0].v']);
  t.same(findInJson(root, '23').map(pathOf), ['$.n']);
  t.same(findInJson(root, 'true').map(pathOf), ['$.t']);
  t.same(findInJson(root, '  '), []);
  const many = jsonDocument(Array.from({ length: MATCHES + 5 }, () => 'x'));
  t.equal(findInJson(many, 'x').length, MATCHES);
});

t.test('shows each match in a long list that is closed', async (t) => {
  const list = Array.from({ length: 1_500 }, (_, index) => ({ text: `value ${index}` }));
  const root = jsonDocument({ list });
  const found = findInJson(root, 'value 149');
  t.equal(found.length, 11);
  for (const each of found) {
    const shown = reveal(root, each);
    t.equal(pathOf(shown), pathOf(each));
    t.ok(
      rowsOf(root, 100).some(({ node }) => node === shown),
      pathOf(each),
    );
  }
  t.equal(reveal(root, root), root);
});

t.test('names a value by its path, and copies it as it is', async (t) => {
  const root = jsonDocument({ 'a b': [{ c: 'text' }] });
  const [found] = findInJson(root, 'text');
  t.equal(found && pathOf(found), '$["a b"][0].c');
  t.equal(pathOf(root), '$');
  t.equal(copiedText('text'), 'text');
  t.equal(copiedText({ a: 1 }), '{\n  "a": 1\n}');
});

t.test('breaks an open text into lines that fit, between characters', async (t) => {
  const root = jsonDocument(`ab\n\n${'😀'.repeat(5)}${'x'.repeat(SHORT_TEXT)}`);
  root.isOpen = true;
  const lines = rowsOf(root, 7).flatMap((row) => (row.type === 'line' ? [row.text] : []));
  t.same(lines.slice(0, 4), ['ab', '', '😀😀😀', '😀😀xxx']);
});

t.test('summarizes a closed value', async (t) => {
  t.equal(summaryOf([1]), '1 item');
  t.equal(summaryOf([1, 2]), '2 items');
  t.equal(summaryOf({ a: 1, b: 2 }), 'a, b');
  t.equal(summaryOf({ a: 1, b: 2, c: 3, d: 4, e: 5 }), 'a, b, c, d, … 5 members');
});

t.test('pieces of a text are short, and make the text together', async () => {
  const text = fc.string({ unit: fc.constantFrom('a', '😀', '\n', 'é'), maxLength: 60 });
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 900 }), (part, times) => {
      const whole = part.repeat(times);
      const pieces = piecesOf(whole);
      const joined = pieces.join('');
      const isWhole = joined.replaceAll('\n', '') === whole.replaceAll('\n', '');
      return isWhole && pieces.every((piece) => piece.length <= 10_000 && piece.isWellFormed());
    }),
  );
});

t.test('cuts between characters, and shows what a browser hides', async (t) => {
  t.equal(beginning('abc', 3), 'abc');
  t.equal(beginning('abc', 2), 'ab');
  t.equal(beginning('a😀', 2), 'a');
  t.equal(visible('a\0b\x1b[31m\x7f\tc\n'), 'a␀b␛[31m␡\tc\n');
});

t.test('integers that a double cannot hold keep their digits', async (t) => {
  const text =
    '{"a":12345678901234567890,"b":[-9007199254740993],"c":9007199254740991,"d":"12345678901234567890"}';
  const value = parseExact(text) as Record<string, unknown>;
  t.same(value['a'], 12345678901234567890n);
  t.same(value['b'], [-9007199254740993n]);
  t.same([value['c'], value['d']], [9007199254740991, '12345678901234567890']);
  t.equal(copiedText(value).replace(/\s/g, ''), text);
  t.same(parseExact('[1.2345678901234567, 1e20]'), [1.2345678901234567, 1e20]);
});
