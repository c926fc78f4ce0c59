import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../../test/interop/toolchain.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const BUILD_MS = 120_000;

/** Compiles the package and returns its entry. Without that, Node strips the types of the sources, which takes 40 MB. */
export async function builtEntry(): Promise<string> {
  const directory = join(ROOT, 'node_modules', '.cache', 'tracectl-bench');
  mkdirSync(directory, { recursive: true });
  copyFileSync(join(ROOT, 'package.json'), join(directory, 'package.json'));
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const into = ['--outDir', join(directory, 'dist'), '--noCheck'];
  const args = [compiler, '--project', join(ROOT, 'tsconfig.build.json'), ...into];
  await run(process.execPath, args, { cwd: ROOT, ms: BUILD_MS });
  return join(directory, 'dist', 'src', 'main.js');
}
