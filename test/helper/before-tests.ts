import './install-servers.ts';
import { globSync, rmSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleDaemon } from './daemon-bundle.ts';
import { bundleThreads } from './thread-bundle.ts';

/** The texts of `stripped-types.mjs`. Those of present sources are made again when they are needed. */
const STRIPPED = fileURLToPath(new URL('../../.tap/stripped/*', import.meta.url));
const KEPT_MS = 7 * 24 * 3_600_000;

/** Runs once before the test files. */
await bundleThreads();
await bundleDaemon();
removeOldTexts();

function removeOldTexts(): void {
  for (const file of globSync(STRIPPED)) {
    const { mtimeMs } = statSync(file, { throwIfNoEntry: false }) ?? { mtimeMs: 0 };
    if (Date.now() - mtimeMs > KEPT_MS) rmSync(file, { force: true });
  }
}
