import { readFileSync } from 'node:fs';
import t from 'tap';
import { adviceOf, entriesOf, ITEM_REMEDIES } from '../../../ui/views/rejected/errors-page.ts';

const page = readFileSync(new URL('../../../docs/errors.md', import.meta.url), 'utf8');
const entries = entriesOf(page);

t.test('each code of a refused request or a rejected item has a meaning and advice', async (t) => {
  t.ok(entries.length > 20);
  for (const { code, meaning } of entries) {
    t.ok(meaning.length > 5, `${code} has a meaning`);
    t.match(adviceOf(code, entries), /^[A-Z].*\.$/s, code);
    t.notMatch(adviceOf(code, entries), /The reason says|`|\]\(/, code);
  }
});

t.test('the sentences for items are those of the page', async (t) => {
  const items = entries.filter(({ remedy }) => remedy === undefined).map(({ code }) => code);
  t.strictSame(items.sort(), Object.keys(ITEM_REMEDIES).sort());
});

t.test('an unknown code, also one that objects have, gets the general advice', async (t) => {
  for (const code of ['new_code', 'constructor', '__proto__', '']) {
    t.equal(adviceOf(code, entries), 'The reason says what was wrong.', code);
  }
});

t.test('links and code marks are removed', async (t) => {
  const text = [
    '## Refused requests',
    '| code | status | meaning | remedy |',
    '|---|---|---|---|',
    '| `a` | 400 | has `x` | see the page ([q.md](q.md)) |',
    '## Other',
    '| `b` | c | d | e |',
  ];
  t.strictSame(entriesOf(text.join('\n')), [
    { code: 'a', meaning: 'has x', remedy: 'see the page' },
  ]);
});
