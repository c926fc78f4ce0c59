import { globSync } from 'node:fs';
import t from 'tap';
import { findingsIn, findingsOf, LANGUAGE_FILES } from './helper/language.ts';

t.test('comments, messages and pages keep to the language rules of CONTRIBUTING.md', async (t) => {
  const files = LANGUAGE_FILES.flatMap((pattern) => globSync(pattern)).filter(
    (file) => file !== 'test/language.test.ts',
  );
  t.ok(files.length > 500, 'files are found');
  for (const { file, line, message } of findingsIn(files)) t.fail(`${file}:${line}  ${message}`);
});

const messagesOf = (file: string, text: string) =>
  findingsOf(file, text).map(({ line, message }) => `${line} ${message}`);

t.test('the check reads comments and strings, not identifiers', async (t) => {
  const lines = [
    "import { nowhere } from './nowhere.ts';",
    '/** The queue drops it, and nobody reads it. */',
    "const text = 'it is told that';",
    'const besides = nowhere;',
    '// `anew` is code here.',
  ];
  t.same(messagesOf('src/a.ts', lines.join('\n')), [
    '2 name the actor: a client, a component, a request',
    '3 "told": say reported, notified or answered',
  ]);
});

t.test('the check finds sentences without a subject', async (t) => {
  t.match(messagesOf('src/a.ts', '/** What is past its time leaves. */'), [/^1 no named subject/]);
  t.match(messagesOf('docs/a.md', '- Who asks waits.'), [/^1 no named subject/]);
  t.same(messagesOf('docs/a.md', 'What does it do?'), []);
  t.same(messagesOf('docs/a.md', '```\nWhat is code\n```'), []);
});

t.test('the check reads log calls', async (t) => {
  const call = (fields: string, message: string) => `logger.warn(${fields}, ${message});`;
  t.same(messagesOf('src/a.ts', call('{ err: error }', "'Lease expired; delivery retried'")), []);
  t.match(messagesOf('src/a.ts', call('{}', "'lease expired'")), [/starts with a capital/]);
  t.match(messagesOf('src/a.ts', call('{}', "'Lease expired.'")), [/no final stop/]);
  t.match(messagesOf('src/a.ts', call('{}', '`Lease expired`')), [/is static/]);
  t.match(messagesOf('src/a.ts', call('{ error }', "'Lease expired'")), [/in the field `err`/]);
  t.same(messagesOf('test/a.ts', call('{}', "'lease expired.'")), [], 'not in tests');
});
