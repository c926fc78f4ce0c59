import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../interop/toolchain.ts';

/**
 * The client SDKs of docs/clients. They need other versions of OpenTelemetry than the daemon, so they are
 * installed into the user's cache directory, under a key of their list.
 */
const NPM = fileURLToPath(new URL('./npm/', import.meta.url));
const NPM_FILES = ['package.json', 'package-lock.json', '.npmrc'];
const AGENTS = fileURLToPath(new URL('./agents/', import.meta.url));
const TRACELOOP = fileURLToPath(new URL('./traceloop-js/', import.meta.url));
const COLLECTOR = fileURLToPath(new URL('../interop/collector-builder.yaml', import.meta.url));
const PYTHON = fileURLToPath(new URL('./python/', import.meta.url));
/** Of a loaded machine; an idle one takes less than a minute. */
const INSTALL_MS = 600_000;

/** Installs the npm clients if they are missing; returns the directory with their `node_modules`. */
export function npmClients(): Promise<string> {
  return npmPackages('the npm clients', 'npm', NPM);
}

/** The same for Traceloop, which is apart because of its size and its versions of OpenTelemetry. */
export function traceloopForNode(): Promise<string> {
  return npmPackages('Traceloop for JavaScript', 'traceloop-js', TRACELOOP);
}

/** Installs the coding agents if they are missing; returns the directory with their programs. */
export async function codingAgents(): Promise<string> {
  const directory = await npmPackages('the coding agents', 'agents', AGENTS, async (place) => {
    // The only script that is needed puts the program of the platform into its place.
    const script = join('node_modules', '@anthropic-ai', 'claude-code', 'install.cjs');
    await run(process.execPath, [script], { cwd: place, ms: INSTALL_MS });
  });
  return join(directory, 'node_modules', '.bin');
}

async function npmPackages(
  name: string,
  list: string,
  source: string,
  finish?: Fill,
): Promise<string> {
  const key = keyOf(NPM_FILES.map((file) => join(source, file)));
  const directory = join(cacheDirectory(), `${list}-${key}`);
  if (existsSync(directory)) return directory;
  return await installed(name, directory, async (place) => {
    for (const file of NPM_FILES) cpSync(join(source, file), join(place, file));
    const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error'];
    await run('npm', ['ci', ...quiet], { cwd: place, ms: INSTALL_MS });
    await finish?.(place);
  });
}

/**
 * Installs a list of Python packages if they are missing; returns the program of the environment. A list names every package
 * with its version, so pip resolves nothing. The lists are apart because their versions conflict.
 */
export async function pythonClients(list: string): Promise<string> {
  const file = join(PYTHON, `${list}.txt`);
  const directory = join(cacheDirectory(), `python-${list}-${keyOf([file])}`);
  const python = join('bin', 'python');
  if (existsSync(directory)) return join(directory, python);
  const name = `the Python clients (${list})`;
  await installed(name, directory, async (place) => {
    await makeEnvironment(place);
    const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
    const exactly = ['--no-deps', '--no-compile', '--requirement', file];
    await run(join(place, python), [...install, ...exactly], { ms: INSTALL_MS });
  });
  return join(directory, python);
}

/** Debian has the module `venv` in a package of its own, which root installs. */
async function makeEnvironment(place: string): Promise<void> {
  const make = () => run('python3', ['-m', 'venv', place], { ms: INSTALL_MS });
  try {
    await make();
  } catch (error) {
    const isRoot = process.getuid?.() === 0;
    if (!isRoot || !existsSync('/usr/bin/apt-get')) {
      throw new Error(`Install python3 with venv (Debian: python3-venv). ${String(error)}`);
    }
    const install =
      'apt-get -q update && apt-get -q install -y --no-install-recommends python3-venv';
    await run('sh', ['-c', install], {
      env: { DEBIAN_FRONTEND: 'noninteractive' },
      ms: INSTALL_MS,
    });
    await make();
  }
}

type Fill = (place: string) => Promise<void>;

const installations = new Map<string, Promise<string>>();

/** Concurrent callers share an installation. */
function installed(name: string, directory: string, fill: Fill): Promise<string> {
  const running = installations.get(directory) ?? installedOnce(name, directory, fill);
  installations.set(directory, running);
  return running;
}

/** Fills a directory beside the final one and renames it, so that an existing directory is complete. */
async function installedOnce(name: string, directory: string, fill: Fill): Promise<string> {
  mkdirSync(cacheDirectory(), { recursive: true });
  const place = mkdtempSync(`${directory}.`);
  try {
    await fill(place);
    publish(place, directory);
  } catch (error) {
    const hint = 'The registry has to be reachable once; later runs use the copy';
    throw new Error(`${name} could not be installed into ${directory}. ${hint}. ${String(error)}`);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
  return directory;
}

/** Of concurrent processes, the first one to finish gives the directory. */
function publish(place: string, directory: string): void {
  try {
    renameSync(place, directory);
  } catch (error) {
    if (!existsSync(directory)) throw error;
  }
}

function cacheDirectory(): string {
  const base = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  return join(base, 'tracectl-clients');
}

function keyOf(files: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of files) hash.update(readFileSync(file));
  return hash.digest('hex').slice(0, 16);
}

/** The pinned versions: `LIST PACKAGE` → version. */
export function packageVersions(): ReadonlyMap<string, string> {
  const versions = new Map([
    ...npmVersions('npm', NPM),
    ...npmVersions('agents', AGENTS),
    ...npmVersions('traceloop-js', TRACELOOP),
  ]);
  const collector = /^ {2}version: (.+)$/m.exec(readFileSync(COLLECTOR, 'utf8'))?.[1] ?? '';
  versions.set('npm otelcol', collector);
  for (const file of readdirSync(PYTHON)) {
    for (const line of readFileSync(join(PYTHON, file), 'utf8').trim().split('\n')) {
      const [name, version = ''] = line.split('==');
      versions.set(`${basename(file, '.txt')} ${name}`, version);
    }
  }
  return versions;
}

function npmVersions(list: string, directory: string): [string, string][] {
  const { dependencies } = JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return Object.entries(dependencies).map(([name, version]) => [`${list} ${name}`, version]);
}
