import t from 'tap';
import type { LineRow } from '../../../../src/store/rows/line-page.ts';
import { LINES_BYTES, linePage, packLines } from '../../../../src/store/rows/line-page.ts';

const IDS = ['a', 'b'];
const row = (line: string, n = 1): LineRow => ({ line, trace: n % 2, place: { ms: n, ns: 0, n } });
const texts = (lines: readonly LineRow[], limit = 100): string[] => {
  const { items, text } = linePage(packLines(lines, limit), IDS);
  return items.map(({ end }, i) => Buffer.from(text.subarray(items[i - 1]?.end, end)).toString());
};

t.test('lines become bytes, whatever their characters and sizes', (t) => {
  // The memory of a page of 100 lines has to grow for the third one.
  const lines = ['{}', '{"a":"é😀\u0000"}', 'ü'.repeat(300_000), ''].map((line, i) => row(line, i));
  t.same(
    texts(lines),
    lines.map(({ line }) => `${line}\n`),
  );
  const page = linePage(packLines(lines, 100), IDS);
  t.same(
    page.items.map(({ traceId }) => traceId),
    ['a', 'b', 'a', 'b'],
  );
  t.equal(page.nextCursor, null);
  t.equal(page.text.buffer.byteLength, page.text.length, 'a message can move the bytes');
  t.same(packLines([], 5), { text: new Uint8Array(0), cells: new Float64Array(0), hasMore: false });
  t.end();
});

t.test('a page ends at its limit', (t) => {
  const lines = [row('1', 1), row('2', 2), row('3', 3)];
  t.equal(packLines(lines, 3).hasMore, false);
  const { items, nextCursor, cursorAfter } = linePage(packLines(lines, 2), IDS);
  t.equal(items.length, 2);
  t.equal(nextCursor, cursorAfter(1));
  t.throws(() => cursorAfter(2), RangeError);
  t.end();
});

t.test('a page ends before the line that does not fit, and has at least one', (t) => {
  const half = 'x'.repeat(LINES_BYTES / 2);
  const fits = row('x'.repeat(LINES_BYTES / 2 - 1));
  t.equal(texts([row(half), fits]).length, 2);
  t.equal(texts([row(half), row(half)]).length, 1);
  t.equal(packLines([row(half), row(half)], 100).hasMore, true);
  t.equal(texts([row(half + half + half)]).length, 1);
  let made = 0;
  function* lines(): Generator<LineRow> {
    for (; made < 10; made++) yield row(half);
  }
  packLines(lines(), 100);
  t.equal(made, 1, 'lines behind the end of the page are not made');
  t.end();
});
