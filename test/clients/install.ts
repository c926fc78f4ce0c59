import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../interop/toolchain.ts';

/**
 * The client SDKs of docs/clients. They need other versions of OpenTelemetry than the daemon, so they are
 * installed into the user's cache directory, under a key of their list.
 */
const NPM = fileURLToPath(new URL('./npm/', import.meta.url));
const NPM_FILES = ['package.json', 'package-lock.json', '.npmrc'];
const INSTALL_MS = 300_000;

/** Installs the npm clients if they are missing; returns the directory with their `node_modules`. */
export async function npmClients(): Promise<string> {
  const directory = join(
    cacheDirectory(),
    `npm-${keyOf(NPM_FILES.map((file) => join(NPM, file)))}`,
  );
  if (existsSync(directory)) return directory;
  return await installed('the npm clients', directory, async (place) => {
    for (const file of NPM_FILES) cpSync(join(NPM, file), join(place, file));
    const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel', 'error'];
    await run('npm', ['ci', ...quiet], { cwd: place, ms: INSTALL_MS });
  });
}

/** Fills a directory beside the final one and renames it, so that an existing directory is complete. */
async function installed(
  name: string,
  directory: string,
  fill: (place: string) => Promise<void>,
): Promise<string> {
  mkdirSync(cacheDirectory(), { recursive: true });
  const place = mkdtempSync(`${directory}.`);
  try {
    await fill(place);
    if (!existsSync(directory)) renameSync(place, directory);
  } catch (error) {
    const hint = 'The registry has to be reachable once; later runs use the copy';
    throw new Error(`${name} could not be installed into ${directory}. ${hint}. ${String(error)}`);
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
  return directory;
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

/** The pinned version of each package, by language and name. */
export function packageVersions(): ReadonlyMap<string, string> {
  const { dependencies } = JSON.parse(readFileSync(join(NPM, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  return new Map(
    Object.entries(dependencies).map(([name, version]) => [`javascript ${name}`, version]),
  );
}
