import { globSync, readFileSync } from 'node:fs';
import { basename, relative } from 'node:path';
import t from 'tap';
import { MATRIX_CASES, NPM_CASES, runtimeOf } from './cases.ts';
import { npmClients, packageVersions } from './install.ts';
import { Lab } from './lab.ts';
import { generatedPages } from './pages.ts';

// The clients may have to be installed.
t.setTimeout(600_000);

t.test('the programs of docs/clients in JavaScript store the trees of their pages', async (t) => {
  await npmClients();
  const lab = await Lab.start();
  t.teardown(() => lab.close());
  for (const each of NPM_CASES) {
    await t.test(`${each.client}: ${each.protocol}`, async (t) => {
      const { wrong, output } = await lab.run(each, await runtimeOf(each));
      t.strictSame(wrong, [], output);
    });
  }
});

t.test('the matrix and the trees of docs/clients are those of the programs', async (t) => {
  for (const { path, text, stored } of generatedPages(MATRIX_CASES, packageVersions())) {
    t.equal(stored, text, `${relative('.', path)}: run \`npm run test:clients -- --write\``);
  }
});

t.test('docs/clients/README.md names every page', async (t) => {
  const readme = readFileSync('docs/clients/README.md', 'utf8');
  const pages = globSync('docs/clients/*.md').map((path) => basename(path));
  t.ok(pages.length > 10);
  for (const page of pages.filter((name) => name !== 'README.md')) {
    t.ok(readme.includes(`](${page})`), page);
  }
});
