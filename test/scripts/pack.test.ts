import { execFile } from 'node:child_process';
import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

t.test('a pack without the pages fails', async (t) => {
  const place = t.testdir({ 'package.json': '{"name":"x"}' });
  mkdirSync(join(place, 'scripts'));
  cpSync(join(ROOT, 'scripts/pack.mjs'), join(place, 'scripts/pack.mjs'));
  const strip = promisify(execFile)(process.execPath, ['scripts/pack.mjs', 'strip'], {
    cwd: place,
  });
  await t.rejects(strip, /dist\/ui is missing/);
});
