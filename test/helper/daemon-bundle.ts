import { createHash } from 'node:crypto';
import {
  existsSync,
  globSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The daemon in the bundles of the package, for tests that start it: it reads a tenth of the files, and its start costs a
 * third less CPU than from the sources.
 */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const BUNDLES = join(ROOT, '.tap/daemon');
const SOURCES = [
  '{src,connectors,exporters,extensions,processors,receivers}/**/*.ts',
  'scripts/bundle.ts',
  'package-lock.json',
];
const SOURCE_ENTRY = join(ROOT, 'src/main.ts');
/** Test files that run at the same time may use an earlier bundle. */
const KEPT_MS = 3_600_000;

/** Makes the bundle of the present sources, unless it is there. */
export async function bundleDaemon(): Promise<void> {
  const made = directory();
  if (existsSync(made)) return;
  const { bundle } = await import('../../scripts/bundle.ts');
  const making = `${made}-${process.pid}`;
  await bundle(making);
  // Beside the bundle, as in the package.
  symlinkSync(join(ROOT, 'dist/ui'), join(making, 'ui'));
  removeOld();
  if (existsSync(made)) rmSync(making, { recursive: true });
  else renameSync(making, made);
}

let entry: string | undefined;

/** The module that starts the daemon: of the bundle, or of the sources if they have changed since. */
export function daemonEntry(): string {
  if (entry === undefined) {
    const bundled = join(directory(), 'src/main.js');
    entry = existsSync(bundled) ? bundled : SOURCE_ENTRY;
  }
  return entry;
}

/** Named by the sources and their times of change. */
function directory(): string {
  const files = globSync(SOURCES, { cwd: ROOT }).sort();
  const times = files.map((file) => `${file} ${statSync(join(ROOT, file)).mtimeMs}\n`);
  const hash = createHash('sha1').update(times.join(''));
  return join(BUNDLES, hash.digest('hex').slice(0, 12));
}

function removeOld(): void {
  mkdirSync(BUNDLES, { recursive: true });
  for (const name of readdirSync(BUNDLES)) {
    const age = Date.now() - statSync(join(BUNDLES, name)).mtimeMs;
    if (age > KEPT_MS) rmSync(join(BUNDLES, name), { recursive: true, force: true });
  }
}
