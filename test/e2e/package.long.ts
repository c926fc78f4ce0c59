import { execFile, spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { openBrowser } from '../helper/browser.ts';
import { PLAIN } from '../helper/plain-process.ts';

/** Packs a copy of the tree, because a pack changes package.json and dist, and runs the daemon of the tarball. */

t.setTimeout(300_000);

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const env = { ...process.env, ...PLAIN };
const execute = promisify(execFile);
const run = (file: string, args: readonly string[], cwd: string) =>
  execute(file, args, { cwd, env });
/** The parts of the tree that a pack reads. */
const TREE = [
  ...['package.json', '.npmrc', 'tsconfig.json', 'tsconfig.build.json', 'CHANGELOG.md'],
  ...['CONTRIBUTING.md', 'SECURITY.md', 'README.md', 'LICENSE', 'bench', 'config', 'connectors'],
  ...[
    'deploy',
    'docs',
    'exporters',
    'extensions',
    'processors',
    'receivers',
    'scripts',
    'src',
    'ui',
  ],
];

t.test('the tarball carries the web UI, and its daemon serves it', async (t) => {
  const place = t.testdir();
  const tree = join(place, 'tree');
  for (const part of TREE) cpSync(join(ROOT, part), join(tree, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'));
  // tap's own options would be loaded into the compiler too, which does not start with them.
  const pack = 'NODE_OPTIONS= exec npm pack --silent --pack-destination "$0"';
  const packed = await run('sh', ['-c', pack, place], tree);
  const [tarball = ''] = packed.stdout.trim().split('\n').slice(-1);
  await run('tar', ['-xzf', join(place, tarball), '-C', place], place);
  const root = join(place, 'package');
  const files = globSync('dist/ui/**', { cwd: root });
  t.ok(files.includes('dist/ui/index.html'));
  t.ok(files.some((file) => /^dist\/ui\/assets\/.+\.js\.br$/.test(file)));
  t.same(globSync('**/*.{ts,tsx,css,html}', { cwd: root, exclude: ['dist/**'] }), [], 'no sources');
  for (const thread of threads()) t.ok(existsSync(join(root, 'dist', thread)), thread);
  for (const file of globSync('dist/{src,chunks}/**/*.js', { cwd: root })) {
    const text = readFileSync(join(root, file), 'utf8');
    t.notMatch(text, /^import .* from "node:/m, `${file} reads no built-in module as a whole`);
    t.match(text, /^[\0-\xff]*$/, `a character of ${file} takes one byte in memory`);
  }
  for (const [page, target] of linksOf(root)) t.ok(existsSync(target), `${page}: ${target}`);
  const licenses = readFileSync(join(root, 'dist/licenses.txt'), 'utf8');
  t.match(licenses, /^zod .*\(MIT\)\n\nMIT License/m);
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'));

  // The directory of the test is removed before the daemon ends.
  const cwd = mkdtempSync(join(tmpdir(), 'tracectl-package-'));
  const url = await serve(t, root, cwd);
  const browser = await openBrowser(t);
  const { code } = await codeOf(url, cwd);
  await browser.page.goto(`${url}/#code=${code}`);
  await browser.page.getByRole('navigation').first().waitFor();
  t.strictSame(browser.errors, []);
  t.strictSame(browser.foreign, []);
});

/** The pages of a package, and the files that they link to. */
function linksOf(root: string): [string, string][] {
  return globSync('**/*.md', { cwd: root }).flatMap((page) => {
    const links = readFileSync(join(root, page), 'utf8').matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)/g);
    return [...links].map(([, link = '']): [string, string] => [
      page,
      join(root, dirname(page), link),
    ]);
  });
}

/** The modules that threads start with, as paths in the build. */
function threads(): string[] {
  const found = globSync('{src,exporters,extensions,processors}/**/*.ts', { cwd: ROOT });
  return found.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const names = text.matchAll(/threadFile\(\s*import\.meta\.url,\s*'([^']+)'/g);
    return [...names].map(([, name = '']) => `${join(dirname(file), name)}.js`);
  });
}

/** Starts the daemon of a package in a directory that is removed after it. Resolves with the address of its web UI. */
async function serve(
  t: { teardown(clean: () => Promise<void>): void },
  root: string,
  cwd: string,
): Promise<string> {
  const protocols = ['http', 'grpc'].map((name) => `receivers.otlp.protocols.${name}`);
  const receivers = ['receivers.native', 'receivers.runs', ...protocols];
  const extensions = ['extensions.health_check', 'extensions.admin'];
  const sets = [...receivers, ...extensions].flatMap((each) => [
    '--set',
    `${each}.endpoint=127.0.0.1:0`,
  ]);
  const args = ['run', '--config', join(root, 'config/embedded.yaml'), ...sets];
  const quiet = ['--set', 'service.telemetry.metrics.level=none'];
  const entry = join(root, 'dist/src/main.js');
  const child = spawn(process.execPath, [entry, ...args, ...quiet], {
    ...{ cwd, env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  t.teardown(async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(cwd, { recursive: true, force: true });
  });
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (more: string) => {
      text += more;
      const url = /(http:\S+) {2}\(web UI/.exec(text)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.once('close', () => reject(new Error(`the daemon ended: ${text}`)));
  });
}

async function codeOf(url: string, cwd: string): Promise<{ code: string }> {
  const token = readFileSync(join(cwd, 'data/admin-token'), 'utf8').trim();
  const answer = await fetch(`${url}/api/v1/sessions/codes`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
  });
  return (await answer.json()) as { code: string };
}
