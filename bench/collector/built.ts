import { copyFileSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { bundle } from '../../scripts/bundle.ts';

const ROOT = join(import.meta.dirname, '..', '..');

/** Builds the daemon as the package has it, and returns its entry. */
export async function builtEntry(): Promise<string> {
  const directory = join(ROOT, 'node_modules', '.cache', 'tracectl-bench');
  const dist = join(directory, 'dist');
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  copyFileSync(join(ROOT, 'package.json'), join(directory, 'package.json'));
  await bundle(dist);
  return join(dist, 'src', 'main.js');
}
