import { copyFileSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { makeMigratedStore } from './migrated-store.ts';

/**
 * The database threads in one file each, for tests that start many of them: a thread reads 130 files in 100 ms of CPU, and a
 * bundle of them in 15 ms. The product has no bundles.
 */

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIRECTORY = join(ROOT, '.tap/threads');
const MANIFEST = 'manifest.json';
const MIGRATED_STORE = 'store.db';

/** The thread, and the files of operations that it loads by their URLs. */
const ENTRIES = {
  thread: 'src/sqlite/thread.ts',
  'queue-operations': 'src/sqlite/queue/directory-operations.ts',
  'store-operations': 'extensions/sqlite/operations.ts',
  'search-operations': 'extensions/sqlite/search/index-operations.ts',
  'thread-host': 'test/helper/thread-host.ts',
} as const;

/** The sources of the bundles, and their times of change. */
type Manifest = { readonly sources: Readonly<Record<string, number>> };

/** Replaces the bundles, and a store with all tables. Test files that run at the same time use the former ones, or the sources. */
export async function bundleThreads(): Promise<void> {
  const { build } = await import('vite');
  const made = `${DIRECTORY}-${process.pid}`;
  const output = await build({
    root: ROOT,
    configFile: false,
    publicDir: false,
    logLevel: 'silent',
    build: {
      ssr: true,
      outDir: made,
      target: 'esnext',
      minify: false,
      rolldownOptions: { input: ENTRIES, output: { entryFileNames: '[name].js' } },
    },
  });
  const files = new Set<string>();
  for (const { output: chunks } of [output].flat().filter((each) => 'output' in each)) {
    for (const chunk of chunks) if (chunk.type === 'chunk') addAll(files, chunk.moduleIds);
  }
  await makeMigratedStore(join(made, MIGRATED_STORE));
  files.add(import.meta.filename);
  const sources = Object.fromEntries(
    [...files].filter((file) => file.startsWith(ROOT)).map((file) => [file, changedAt(file)]),
  );
  writeFileSync(join(made, MANIFEST), JSON.stringify({ sources } satisfies Manifest));
  rmSync(DIRECTORY, { recursive: true, force: true });
  renameSync(made, DIRECTORY);
}

function addAll(files: Set<string>, more: readonly string[]): void {
  for (const file of more) files.add(file);
}

/** The bundle of the thread in which `reused-threads.ts` runs the others. */
export const THREAD_HOST = pathToFileURL(join(DIRECTORY, 'thread-host.js'));

let bundles: ReadonlyMap<string, string> | undefined;

/** The URLs of the bundles by those of the sources; empty if there are none, or if a source has changed since. */
export function bundledThreads(): ReadonlyMap<string, string> {
  bundles ??= new Map(isCurrent() ? Object.entries(ENTRIES).map(urlsOf) : []);
  return bundles;
}

function urlsOf([name, source]: [name: string, source: string]): [source: string, bundle: string] {
  return [
    pathToFileURL(join(ROOT, source)).href,
    pathToFileURL(join(DIRECTORY, `${name}.js`)).href,
  ];
}

/**
 * Copies a store with all tables and no rows into a directory, for tests of other things than the migrations and the first start: those
 * take a third of the CPU of opening a new store. Without a current one the store migrates.
 */
export function copyMigratedStore(directory: string): void {
  if (bundledThreads().size === 0) return;
  copyFileSync(join(DIRECTORY, MIGRATED_STORE), join(directory, MIGRATED_STORE));
}

function isCurrent(): boolean {
  try {
    const manifest = readFileSync(join(DIRECTORY, MANIFEST), 'utf8');
    const { sources } = JSON.parse(manifest) as Manifest;
    if (sources[import.meta.filename] === undefined) return false;
    return Object.entries(sources).every(([file, time]) => changedAt(file) === time);
  } catch {
    return false;
  }
}

function changedAt(file: string): number {
  return statSync(file).mtimeMs;
}
