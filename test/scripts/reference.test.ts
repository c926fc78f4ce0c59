import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { DIRECTORY, referencePages } from '../../scripts/reference.ts';
import { REGISTRY } from '../../src/registry.ts';

t.test('the reference pages say what the schemas say', async (t) => {
  const pages = referencePages(REGISTRY);
  t.same(readdirSync(DIRECTORY).sort(), [...pages.keys()].sort(), 'one page a component');
  for (const [file, text] of pages) {
    t.equal(
      readFileSync(join(DIRECTORY, file), 'utf8'),
      text,
      `${file} is as written by npm run docs`,
    );
  }
});

t.test('every field has a meaning', async (t) => {
  for (const [file, text] of referencePages(REGISTRY)) {
    for (const row of text
      .split('\n')
      .filter((line) => line.startsWith('| `') && file !== 'README.md')) {
      t.notMatch(row, /\|\s+\|$/, `${file}: ${row}`);
    }
  }
});
