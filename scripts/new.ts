/**
 * Creates a component with all its files, and registers it: `npm run new -- processor NAME`.
 * docs/component.md continues from there.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ComponentKind } from '../src/component/component.ts';
import { SECTIONS } from '../src/config/registry.ts';
import type { ComponentName } from './templates.ts';
import { filesOf } from './templates.ts';

const USAGE = `usage: npm run new -- ${Object.values(SECTIONS).join('|')} NAME`;

/** Writes the files below `root` and returns their paths. Throws, without writing, if the type is taken or invalid. */
export function createComponent(root: string, kind: string, type: string): string[] {
  const section = Object.entries(SECTIONS).find(([, known]) => known === kind)?.[0];
  if (section === undefined) throw new Error(USAGE);
  if (!/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/.test(type)) {
    throw new Error(`"${type}" is not a type: use lower-case words joined by "_"\n${USAGE}`);
  }
  const folder = join(root, section, type);
  if (existsSync(folder)) throw new Error(`${section}/${type} exists already`);
  const pascal = type.split('_').map(capitalized).join('');
  const name: ComponentName = { kind: kind as ComponentKind, section, type, pascal };
  const files = Object.entries(filesOf(name));
  for (const [path, text] of files) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const registry = join(root, 'src/registry.ts');
  writeFileSync(registry, registered(readFileSync(registry, 'utf8'), name));
  return [...files.map(([path]) => path), 'src/registry.ts'];
}

/** Formats the files, whose line breaks depend on the name, and generates the parts of the READMEs. */
export function finishComponents(root: string, files: readonly string[]): void {
  const biome = join(root, 'node_modules/.bin/biome');
  execFileSync(biome, ['check', '--write', ...files.filter((file) => file.endsWith('.ts'))], {
    cwd: root,
    stdio: 'ignore',
  });
  execFileSync(process.execPath, ['scripts/reference.ts'], { cwd: root });
}

/** `src/registry.ts` with an entry behind the last one of its kind. */
export function registered(text: string, { kind, section, type }: ComponentName): string {
  const entry = `  ['${kind}', '${type}', () => import('../${section}/${type}/factory.ts')],`;
  const lines = text.split('\n');
  const last = lines.findLastIndex((each) => each.startsWith(`  ['${kind}', `));
  lines.splice(last + 1, 0, entry);
  return lines.join('\n');
}

function capitalized(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

if (import.meta.main) {
  const root = join(import.meta.dirname, '..');
  const [kind = '', type = ''] = process.argv.slice(2);
  try {
    const files = createComponent(root, kind, type);
    finishComponents(root, files);
    process.stdout.write(`${files.join('\n')}\ndocs/component.md has the checklist.\n`);
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}
