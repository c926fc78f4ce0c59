import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { createComponent, finishComponents } from '../../scripts/new.ts';

// Type check, lint and six test files run on a copy of the sources.
t.setTimeout(300_000);

const COPIED = [
  ...['src', 'receivers', 'processors', 'exporters', 'connectors', 'extensions', 'test', 'scripts'],
  ...['bench', 'docs', 'package.json', 'tsconfig.json', 'biome.json'],
];
const KINDS = ['receiver', 'processor', 'exporter', 'connector', 'extension'];

/** A copy of the sources without the repository around it. */
function copyOfSources(): string {
  const root = t.testdir();
  for (const path of COPIED) cpSync(path, join(root, path), { recursive: true });
  symlinkSync(join(process.cwd(), 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** Writes the files of docs/component.md: a path in a line of its own, and a block of code below it. */
function writeTutorial(root: string): string[] {
  const page = readFileSync('docs/component.md', 'utf8');
  const blocks = [...page.matchAll(/^`([\w/.-]+\.ts)`\n\n```ts\n([\s\S]*?)```$/gm)];
  for (const [, path = '', text = ''] of blocks) writeFileSync(join(root, path), text);
  return blocks.map(([, path = '']) => path);
}

async function run(root: string, command: string, ...args: string[]): Promise<string> {
  try {
    // Without the loaders of the tap that runs this test.
    const plain = ['-u', 'NODE_OPTIONS', '-u', 'TAP', '-u', 'TAP_CHILD_ID', command, ...args];
    return (await promisify(execFile)('env', plain, { cwd: root })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`);
  }
}

/** Runs test files in one process, which saves the start of the others. */
async function runTests(root: string, name: string, tests: readonly string[]): Promise<void> {
  const imports = tests.map((file) => `import ${JSON.stringify(`./${file}`)};\n`);
  writeFileSync(join(root, name), imports.join(''));
  await run(root, process.execPath, name);
}

const root = copyOfSources();
const bin = (name: string) => join(root, 'node_modules/.bin', name);
const files = new Set(KINDS.flatMap((kind) => createComponent(root, kind, `my_${kind}`)));

t.test('`npm run new` prints the files that it made', async (t) => {
  const printed = await run(root, process.execPath, 'scripts/new.ts', 'processor', 'sampling');
  t.match(printed, 'processors/sampling/processor.ts\n');
  for (const line of printed.split('\n')) if (line.endsWith('.ts')) files.add(line);
});

t.test('the files of the tutorial replace generated ones', async (t) => {
  const paths = writeTutorial(root);
  t.equal(paths.length, 4);
  for (const path of paths) t.ok(files.has(path), path);
  const lines = paths
    .filter((path) => !path.startsWith('test/'))
    .flatMap((path) => readFileSync(join(root, path), 'utf8').trim().split('\n'));
  t.ok(lines.length <= 65, `a processor of ${lines.length} lines`);
});

t.test('new components pass lint, type check, their tests and the contract suite', async () => {
  finishComponents(root, [...files]);
  const sources = [...files].filter((file) => file.endsWith('.ts'));
  await run(root, bin('biome'), 'check', ...sources);
  // The type check and the contract suite of the other components run elsewhere.
  keepOwnComponents();
  const checked = { extends: './tsconfig.json', include: ['src/registry.ts', ...sources] };
  writeFileSync(join(root, 'tsconfig.new.json'), JSON.stringify(checked));
  const tests = sources.filter((file) => file.endsWith('.test.ts'));
  await Promise.all([
    run(root, bin('tsc'), '-p', 'tsconfig.new.json'),
    runTests(root, 'all.ts', tests),
    run(root, process.execPath, 'test/contract/components.test.ts'),
  ]);
});

/** Takes the other components out of the copy's registry. */
function keepOwnComponents(): void {
  const registry = join(root, 'src/registry.ts');
  const lines = readFileSync(registry, 'utf8').split('\n');
  const isOther = (line: string) => /^ {2}\['\w+', '(?!my_|sampling)/.test(line);
  writeFileSync(registry, lines.filter((line) => !isOther(line)).join('\n'));
}

t.test('a wrong kind, a wrong type and a taken type are refused', async (t) => {
  t.throws(
    () => createComponent(root, 'filter', 'a'),
    /^usage: npm run new -- extension\|receiver\|/,
  );
  for (const type of ['', 'Filter', 'a-b', '1a', 'a__b', 'a/b', '_a']) {
    t.throws(() => createComponent(root, 'processor', type), /is not a type/, type);
  }
  t.throws(() => createComponent(root, 'processor', 'auth'), /processors\/auth exists already/);
});

t.test('the registry keeps its order', async (t) => {
  const other = t.testdir();
  mkdirSync(join(other, 'src'));
  cpSync('src/registry.ts', join(other, 'src/registry.ts'));
  createComponent(other, 'connector', 'a');
  createComponent(other, 'receiver', 'zzz');
  const text = readFileSync(join(other, 'src/registry.ts'), 'utf8');
  t.match(text, /\['connector', 'disk_queue', .*\n {2}\['connector', 'a', .*\n {2}\['exporter', /);
  t.match(text, /\['receiver', 'zzz', .*\n {2}\['processor', /);
});
