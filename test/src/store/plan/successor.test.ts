import fc from 'fast-check';
import t from 'tap';
import { successorOf } from '../../../../src/store/plan/successor.ts';

t.test('increments the last code point, and steps over the surrogates', async (t) => {
  t.equal(successorOf('ab'), 'ac');
  t.equal(successorOf('a\u{d7ff}'), 'a\u{e000}');
  t.equal(successorOf('a\u{ffff}'), 'a\u{10000}');
});

t.test('shortens a text that ends with the last code point', async (t) => {
  t.equal(successorOf('a\u{10ffff}\u{10ffff}'), 'b');
  t.equal(successorOf('\u{10ffff}'), undefined);
  t.equal(successorOf(''), undefined);
});

t.test('is behind exactly the texts that begin with the text', async () => {
  const text = fc.string({ unit: 'binary' });
  const compared = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));
  fc.assert(
    fc.property(text, text, text, (prefix, rest, other) => {
      const next = successorOf(prefix);
      if (next === undefined) return;
      if (compared(prefix + rest, next) >= 0) throw new Error('a longer text is behind it');
      const isBetween = compared(prefix, other) <= 0 && compared(other, next) < 0;
      if (isBetween !== other.startsWith(prefix)) throw new Error('another text is before it');
    }),
  );
});
