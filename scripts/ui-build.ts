// Builds the pages of the web UI into dist/ui if they are missing or older than their sources. Run by `npm start`.
import { execFile } from 'node:child_process';
import { existsSync, globSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const INDEX = join(ROOT, 'dist/ui/index.html');
const VITE = join(ROOT, 'node_modules/vite/bin/vite.js');
/** Processes may begin a build at the same time, and a build empties its directory first. */
const LOCK = join(ROOT, '.tap/ui-build.lock');
const WAIT_MS = 200;
const GIVE_UP_MS = 120_000;

/** Resolves when the pages are as new as their sources. `say` gets a line if there is something to build. */
export async function buildPages(say: (line: string) => void = () => {}): Promise<void> {
  const end = Date.now() + GIVE_UP_MS;
  mkdirSync(join(ROOT, '.tap'), { recursive: true });
  while (isOld()) {
    if (takeLock()) {
      try {
        if (isOld()) await build(say);
      } finally {
        rmSync(LOCK, { recursive: true, force: true });
      }
    } else if (Date.now() > end) {
      throw new Error(`the pages are not built; remove ${LOCK} if no build runs`);
    } else {
      await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    }
  }
}

function isOld(): boolean {
  const built = changedAt(INDEX);
  return built === 0 || pageSources().some((file) => changedAt(file) > built);
}

/** The files that the pages are built from: their own, and those of the daemon that they share. */
export function pageSources(): readonly string[] {
  const places = ['ui/**/*.*', 'src/{component,model,query}/*.ts', 'docs/errors.md'];
  return [...globSync(places.map((place) => join(ROOT, place))), join(ROOT, 'package-lock.json')];
}

function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function takeLock(): boolean {
  try {
    mkdirSync(LOCK);
    return true;
  } catch {
    return false;
  }
}

async function build(say: (line: string) => void): Promise<void> {
  const beganAt = Date.now();
  const args = [VITE, 'build', '--config', join(ROOT, 'ui/vite.config.ts'), '--logLevel', 'warn'];
  await promisify(execFile)(process.execPath, args, { cwd: ROOT });
  say(`Built the web UI in ${((Date.now() - beganAt) / 1000).toFixed(1)} s.`);
}

/** A failure leaves the daemon without pages, which is said, and does not keep it from starting. */
async function main(): Promise<void> {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  if (!existsSync(VITE)) {
    if (!existsSync(INDEX))
      say('The web UI is not built: Vite is missing. Install it with npm ci.');
    return;
  }
  try {
    await buildPages(say);
  } catch (error) {
    say(`The web UI could not be built: ${error instanceof Error ? error.message : String(error)}`);
  }
}

if (import.meta.main) await main();
