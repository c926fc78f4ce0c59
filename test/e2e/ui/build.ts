import { execFile } from 'node:child_process';
import { globSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const INDEX = `${ROOT}/dist/ui/index.html`;
/** Test files run at the same time, and the build empties its directory first. */
const LOCK = `${ROOT}/.tap/ui-build.lock`;
const WAIT_MS = 200;
const GIVE_UP_MS = 120_000;

/** Builds the pages if they are missing or older than their sources. */
export async function buildPages(): Promise<void> {
  const end = Date.now() + GIVE_UP_MS;
  mkdirSync(`${ROOT}/.tap`, { recursive: true });
  while (isOld()) {
    if (takeLock()) {
      try {
        if (isOld()) await build();
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
  return built === 0 || globSync(`${ROOT}/ui/**/*.*`).some((file) => changedAt(file) > built);
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

async function build(): Promise<void> {
  const vite = `${ROOT}/node_modules/vite/bin/vite.js`;
  const args = [vite, 'build', '--config', `${ROOT}/ui/vite.config.ts`, '--logLevel', 'warn'];
  await promisify(execFile)(process.execPath, args, { cwd: ROOT });
}
