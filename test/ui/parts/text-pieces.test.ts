import t from 'tap';
import { isolated, nameText } from '../../../ui/parts/text-pieces.ts';

t.test('a name is its beginning; one that does not show says so', async (t) => {
  t.equal(nameText('chat'), 'chat');
  t.equal(nameText('a'.repeat(400)).length, 300);
  t.equal(nameText(null), '(no name)');
  for (const blank of ['', '  ', '\n\t', '\u200B\u2060', '\u00A0\uFEFF', '\0']) {
    t.equal(nameText(blank), '(blank)', JSON.stringify(blank));
  }
  t.equal(nameText('\u202Egnp.exe\u202C'), '\u202Egnp.exe\u202C');
});

t.test('a text for a place without elements changes no direction around it', async (t) => {
  for (const plain of ['chat (a)', 'Zürich', '図 👩‍👩‍👧‍👦']) t.equal(isolated(plain), plain);
  t.equal(isolated('שלום (a)'), '\u2068שלום (a)\u2069');
  t.equal(isolated('prod\u202Etset\u2069\u202B!\u2066'), '\u2068prodtset!\u2069');
  t.equal(isolated('right\u200F-to-left'), '\u2068right\u200F-to-left\u2069');
});
