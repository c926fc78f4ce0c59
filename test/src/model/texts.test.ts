import { isUtf8 } from 'node:buffer';
import fc from 'fast-check';
import t from 'tap';
import { DecodedText } from '../../../src/model/texts.ts';
import { inside } from './json/texts.ts';
import { maskRange } from './masking.ts';

/** The spelling of a text within a JSON string, with a prefix and a suffix that must not change. */
function escaped(spelling: string) {
  const bytes = Buffer.from(`"${spelling}"`);
  const range = { start: 1, end: bytes.length - 1, isEscaped: spelling.includes('\\') };
  return { bytes, range, text: JSON.parse(`"${spelling}"`) as string };
}

/** The bytes of a protobuf string between two bytes that could belong to UTF-8 sequences. */
function raw(content: Uint8Array) {
  const bytes = Buffer.concat([Buffer.of(content.length % 128), content, Buffer.of(0x85)]);
  return { bytes, range: { start: 1, end: bytes.length - 1, isEscaped: false } };
}

const offsets = fc.tuple(fc.nat(40), fc.nat(40)).map(([a, b]) => [a, b].sort((x, y) => x - y));

t.test('a decoded text', async (t) => {
  t.test('is the text, and maps offsets to the bytes of whole characters', async () => {
    fc.assert(
      fc.property(inside, fc.array(offsets, { maxLength: 4 }), (spelling, ranges) => {
        const { bytes, range, text } = escaped(spelling);
        const decoded = new DecodedText(bytes, range);
        if (decoded.text !== text) throw new Error(`${decoded.text} is not ${text}`);
        for (const [from = 0, to = 0] of ranges) {
          const [first, last] = [Math.min(from, text.length), Math.min(to, text.length)];
          const found = decoded.rangeOf(first, last);
          const part = JSON.parse(`"${bytes.toString('utf8', found.start, found.end)}"`);
          const expected = wholeCharacters(text, first, last);
          if (part !== expected) throw new Error(`${part} is not ${expected}`);
        }
      }),
      { numRuns: 2000 },
    );
  });

  t.test('maps offsets of broken UTF-8 to the bytes that each replacement stands for', async () => {
    const byte = fc.oneof(
      fc.constantFrom(0x41, 0x80, 0xa0, 0xbf, 0xc0, 0xc3, 0xe0, 0xe2, 0xed, 0xf0, 0xf4, 0xf5, 0xff),
      fc.nat(255),
    );
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 12 }), offsets, (content, [from = 0, to = 0]) => {
        const { bytes, range } = raw(Buffer.from(content));
        const decoded = new DecodedText(bytes, range);
        const { text } = decoded;
        const [first, last] = [Math.min(from, text.length), Math.min(to, text.length)];
        const { start, end } = decoded.rangeOf(first, last);
        const before = bytes.toString('utf8', 1, start);
        const part = bytes.toString('utf8', start, end);
        const expected = wholeCharacters(text, first, last);
        if (part !== expected || !text.startsWith(before + part)) {
          throw new Error(`${part} is not ${expected}`);
        }
      }),
      { numRuns: 4000 },
    );
  });

  t.test('takes offsets in any order', async (t) => {
    const { bytes, range } = escaped('é\\u0040\\ud83d\\ude00z');
    const decoded = new DecodedText(bytes, range);
    t.same(decoded.rangeOf(4, 5), { start: 21, end: 22 });
    t.same(decoded.rangeOf(0, 1), { start: 1, end: 3 });
    t.same(decoded.rangeOf(1, 2), { start: 3, end: 9 });
    t.same(decoded.rangeOf(2, 3), { start: 9, end: 21 }, 'half of a pair is all of it');
    t.same(decoded.rangeOf(3, 4), { start: 9, end: 21 });
    t.same(decoded.rangeOf(5, 5), { start: 22, end: 22 }, 'the end of the text');
    t.same(decoded.rangeOf(0, 5), { start: 1, end: 22 });
  });
});

/** The characters of a text that [from, to) touches; none for an empty range between two characters. */
function wholeCharacters(text: string, from: number, to: number): string {
  if (from === to) return '';
  const isPairAt = (at: number) => /^[\ud800-\udbff][\udc00-\udfff]/.test(text.slice(at, at + 2));
  const start = isPairAt(from - 1) ? from - 1 : from;
  const end = isPairAt(to - 1) ? to + 1 : to;
  return text.slice(start, end);
}

t.test('a masked range', async (t) => {
  t.test('keeps JSON valid and the length, and masks what it cuts whole', async () => {
    fc.assert(
      fc.property(inside, offsets, (spelling, [from = 0, to = 0]) => {
        const { bytes, range, text } = escaped(spelling);
        const before = Buffer.from(bytes);
        const start = Math.min(range.start + from, range.end);
        const end = Math.min(range.start + to, range.end);
        maskRange(bytes, range, start, end);
        const masked = JSON.parse(bytes.toString()) as string;
        if (!isUtf8(bytes)) throw new Error('the bytes are not UTF-8');
        if (bytes.length !== before.length) throw new Error('the length changed');
        if (!/^\**$/.test(bytes.toString('latin1', start, end))) throw new Error('not masked');
        const [head = '', tail = ''] = [/^[^*]*/, /[^*]*$/].map((part) => part.exec(masked)?.[0]);
        const isAsBefore = text.startsWith(head) && (start === end || text.endsWith(tail));
        if (!text.includes('*') && !isAsBefore) throw new Error(`${masked} is not of ${text}`);
        if (text.isWellFormed() && !masked.isWellFormed()) throw new Error('half a pair is left');
      }),
      { numRuns: 4000 },
    );
  });

  t.test('never leaves the text, also if its UTF-8 is broken', async () => {
    const lead = fc.constantFrom(0x41, 0x80, 0xbf, 0xc3, 0xe2, 0xf0, 0x5c);
    fc.assert(
      fc.property(fc.array(lead, { maxLength: 8 }), offsets, (content, [from = 0, to = 0]) => {
        const { bytes, range } = raw(Buffer.from(content));
        const first = bytes[0];
        const start = Math.min(range.start + from, range.end);
        const end = Math.min(range.start + to, range.end);
        const valid = isUtf8(bytes.subarray(range.start, range.end));
        maskRange(bytes, range, start, end);
        if (bytes[0] !== first || bytes.at(-1) !== 0x85) throw new Error('masked outside');
        if (valid && !isUtf8(bytes.subarray(range.start, range.end))) throw new Error('broken');
      }),
      { numRuns: 2000 },
    );
  });

  const cases: readonly [string, number, number, string][] = [
    ['a\\u0040b', 3, 4, 'a******b'],
    ['a\\u0040b', 1, 1, 'a\\u0040b'],
    ['a\\u0040b', 1, 7, 'a******b'],
    ['a\\u0040b', 6, 8, 'a*******'],
    ['a\\"b', 2, 3, 'a**b'],
    ['a\\"b', 1, 2, 'a**b'],
    ['\\\\n', 2, 3, '\\\\*'],
    ['\\\\\\n', 3, 4, '\\\\**'],
    ['\\ud83d\\ude00x', 0, 1, '************x'],
    ['\\ud83d\\ude00x', 6, 8, '************x'],
    ['\\ud83d\\ude00x', 0, 6, '************x'],
    ['\\ud83d\\ud83dx', 0, 6, '******\\ud83dx'],
    ['\\ude00\\ud83dx', 6, 7, '\\ude00******x'],
    ['aéb', 2, 3, 'a**b'],
    ['a\u{1f600}b', 1, 2, 'a****b'],
    ['a\u{1f600}b', 4, 6, 'a*****'],
  ];
  for (const [spelling, from, to, expected] of cases) {
    t.test(`of ${JSON.stringify(spelling)} at [${from}, ${to}) gives ${expected}`, async (t) => {
      const bytes = Buffer.from(`"${spelling}"`);
      const range = { start: 1, end: bytes.length - 1, isEscaped: spelling.includes('\\') };
      maskRange(bytes, range, 1 + from, 1 + to);
      t.equal(bytes.toString(), `"${expected}"`);
    });
  }

  t.test('takes a backslash of protobuf as the character it is', async (t) => {
    const { bytes, range } = raw(Buffer.from('a\\u0040'));
    maskRange(bytes, range, 3, 4);
    t.equal(bytes.toString('latin1', 1, 8), 'a\\*0040');
  });
});
