import fc from 'fast-check';
import t from 'tap';
import { firstWords } from '../../../ui/parts/preview.ts';

t.test('shows the text of the last message that is there', async (t) => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'What is "x"?\nSay it.' },
  ];
  t.equal(firstWords(JSON.stringify({ messages })), 'What is "x"?\nSay it.');
  t.equal(firstWords(JSON.stringify({ choices: [{ message: messages[0] }] })), 'Be brief.');
  t.equal(firstWords('[{"type":"text","text":"Hi"}]'), 'Hi');
});

t.test('shows the first text of other JSON', async (t) => {
  t.equal(firstWords('{"query":"refund","limit":3}'), 'refund');
  t.equal(firstWords('"plain"'), 'plain');
  t.equal(firstWords('{"role":"user","id":"7","question":"why"}'), 'why');
});

t.test('shows a preview that is cut anywhere', async (t) => {
  t.equal(firstWords('{"messages":[{"role":"user","content":"How do I res'), 'How do I res');
  t.equal(firstWords('{"messages":[{"role":"user","content":"a\\u00e'), 'a');
  t.equal(firstWords('{"messages":[{"role":"user","content":"a\\'), 'a');
});

t.test('shows text that is no JSON, and JSON without a text, as it is', async (t) => {
  t.equal(firstWords('just words'), 'just words');
  t.equal(firstWords('{"a":1}'), '{"a":1}');
  t.equal(firstWords(null), '');
});

t.test('takes every text', async () => {
  const cut = fc
    .tuple(fc.json(), fc.nat())
    .map(([text, at]) => text.slice(0, at % (text.length + 1)));
  fc.assert(
    fc.property(fc.oneof(cut, fc.string()), (text) => typeof firstWords(text) === 'string'),
  );
});
