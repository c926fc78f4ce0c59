import { globSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import t from 'tap';
import { pageSources } from '../../scripts/ui-build.ts';

const ROOT = join(import.meta.dirname, '../..');
/** An import that stays in the pages: those of types leave nothing. */
const KEPT_IMPORT = /^import (?!type )[^;]*?'(\.{1,2}\/[^'?]+)(?:\?raw)?';/gm;

t.test('a change of any file that the pages hold makes them old', async (t) => {
  const known = new Set(pageSources());
  const files = globSync(join(ROOT, 'ui/**/*.{ts,tsx}'));
  const seen = new Set(files);
  for (const file of files) {
    t.ok(known.has(file), file);
    for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(KEPT_IMPORT)) {
      const target = resolve(dirname(file), path);
      if (seen.has(target)) continue;
      seen.add(target);
      if (target.endsWith('.ts')) files.push(target);
      else t.ok(known.has(target), target);
    }
  }
  t.ok(seen.has(join(ROOT, 'src/query/parse.ts')), 'the pages share files with the daemon');
});
