import t from 'tap';
import { nameText } from '../../../ui/parts/text-pieces.ts';

t.test('a name is its beginning; one that does not show says so', async (t) => {
  t.equal(nameText('chat'), 'chat');
  t.equal(nameText('a'.repeat(400)).length, 300);
  t.equal(nameText(null), '(no name)');
  for (const blank of ['', '  ', '\n\t', '\u200B\u2060', '\u00A0\uFEFF', '\0']) {
    t.equal(nameText(blank), '(blank)', JSON.stringify(blank));
  }
  t.equal(nameText('\u202Egnp.exe\u202C'), '\u202Egnp.exe\u202C');
});
