/**
 * Loaded before each test file and before tap itself, to save time that no test needs:
 *
 * - The threads and the daemons that a test starts keep their compiled modules on disk: reading the types out of 170 files takes
 *   longer than the rest of the start of a thread. The test process itself compiles, because the coverage of a function from the
 *   cache is less exact; its sources come without their types (`stripped-types.mjs`).
 * - No source maps are read. Node strips the types in place, so the only maps are those of tap, and parsing them takes a third of
 *   the CPU of a small test file. tap switches them on in its first module, so this module runs before it: `NODE_OPTIONS` in
 *   `.taprc` comes before the arguments of tap.
 * - The first threads of a file are measured for the coverage. A contract suite opens a hundred stores, and the later threads run
 *   the same code: from bundles, and without the hooks and the measurement of tap, the start of a thread takes a fifth of the CPU.
 *   A database thread of a bundle takes over the thread of a database that was closed.
 * - The hooks with which tap finds the test of an uncaught error follow timers, sockets and other resources, but no promises.
 *   Following each promise until its collection takes half of the CPU of a test that awaits much. An error that only promises
 *   connect to its test still fails the file, as an error of the root test.
 */
import asyncHooks from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';
import { fileURLToPath } from 'node:url';
import workerThreads from 'node:worker_threads';
import { PLAIN } from './plain-process.ts';
import { reusedThread } from './reused-threads.ts';
import { bundledThreads, THREAD_HOST } from './thread-bundle.ts';

const MEASURED_THREADS = 4;
/** A measured thread loads the coverage of tap, but none of its other modules. */
const MEASURING = process.execArgv.filter((argument) => argument.includes('/processinfo/'));

process.env['NODE_COMPILE_CACHE'] ??= fileURLToPath(
  new URL('../../.tap/compile-cache', import.meta.url),
);
// Processes that the test starts load neither this module nor the one before it.
process.env['NODE_OPTIONS'] = (process.env['NODE_OPTIONS'] ?? '').replace(
  /"?--import=\S*(?:preload\.ts|stripped-types\.mjs)"?/g,
  '',
);
process.setSourceMapsEnabled(false);
process.setSourceMapsEnabled = () => {};

let threads = 0;

const { Worker } = workerThreads;
workerThreads.Worker = new Proxy(Worker, {
  construct(_class, [file, options = {}]: ConstructorParameters<typeof Worker>) {
    if (++threads <= MEASURED_THREADS) {
      return new Worker(file, { execArgv: MEASURING, ...options });
    }
    const unmeasured = { env: { ...process.env, ...PLAIN }, execArgv: [], ...options };
    return databaseThread(file, unmeasured) ?? new Worker(file, unmeasured);
  },
});
const { createHook } = asyncHooks;
asyncHooks.createHook = (options) => createHook({ ...options, trackPromises: false });
syncBuiltinESMExports();

/** A database thread from its bundle, if its operations are in one too: both have to share their modules. */
function databaseThread(
  file: string | URL,
  { workerData, ...options }: workerThreads.WorkerOptions,
): object | undefined {
  const bundles = bundledThreads();
  const thread = bundles.get(String(file));
  const operations = bundles.get(workerData?.operations);
  if (thread === undefined || operations === undefined) return undefined;
  const start = (): workerThreads.Worker => new Worker(THREAD_HOST, options);
  return reusedThread(start, thread, { ...workerData, operations });
}
