import { globSync, readFileSync } from 'node:fs';
import t from 'tap';
import { fieldTable } from '../../scripts/fields.ts';
import { documents, readmeOf } from '../../scripts/reference.ts';
import { serviceSchema } from '../../src/config/service-schema.ts';
import { allFactories } from '../../src/registry.ts';

const FACTORIES = await allFactories();

t.test('the generated parts of the documentation are current', async (t) => {
  const found = documents();
  t.ok(found.length >= 20, 'parts are found');
  for (const { file, text, current } of found) t.equal(current, text, file);
});

t.test('every component has a README with its fields', async (t) => {
  for (const factory of FACTORIES) {
    t.match(
      readFileSync(readmeOf(factory), 'utf8'),
      '<!-- generated: fields -->',
      readmeOf(factory),
    );
  }
});

t.test('every field, at any depth, is described by sentences', async (t) => {
  for (const schema of [serviceSchema, ...FACTORIES.map(({ config }) => config)]) {
    for (const row of fieldTable(schema, 'README.md').split('\n')) {
      if (!row.startsWith('| `')) continue;
      const meaning = row.split(' | ').at(-1) ?? '';
      t.match(meaning, /^[A-Z`"].*\.(?: \[Fields\]\(.*\)\.)? \|$/, row);
    }
  }
});

t.test('every row of a bound, a fault or a lock names tests that exist', async (t) => {
  const scripts = readFileSync('package.json', 'utf8');
  for (const file of ['docs/security.md', 'docs/reliability.md']) {
    const lines = readFileSync(file, 'utf8').split('\n');
    const rows = lines.filter(
      (line) => line.startsWith('| ') && !/ (?:test|reproduced by) \|$/.test(line),
    );
    t.ok(rows.length > 20, file);
    for (const row of rows) {
      const named = row.split(' | ').at(-1) ?? '';
      for (const [path] of named.matchAll(/(?:test|bench)\/[\w./-]+/g)) {
        t.ok(globSync(path).length > 0, `${file}: ${path}`);
      }
      for (const [, script = ''] of named.matchAll(/npm run ([\w:]+)/g)) {
        t.match(scripts, `"${script}":`, `${file}: ${script}`);
      }
      t.match(named, /`(?:npx tap )?test\/|`node bench\/|`npm run |^as above/, `${file}: ${named}`);
    }
  }
});

t.test('the links of the documentation lead to existing files', async (t) => {
  for (const file of [
    'README.md',
    'CONTRIBUTING.md',
    ...globSync('docs/*.md'),
    ...globSync(
      '{src,receivers,processors,connectors,exporters,extensions,bench,test}/*/README.md',
    ),
  ]) {
    const folder = file.includes('/') ? file.replace(/[^/]+$/, '') : '';
    for (const [, target = ''] of readFileSync(file, 'utf8').matchAll(
      /\]\((?!https?:|#)([^)#\s]+)/g,
    )) {
      t.equal(globSync(`${folder}${target}`).length, 1, `${file}: ${target}`);
    }
  }
});
