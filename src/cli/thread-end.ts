import type { Worker } from 'node:worker_threads';

/** Time for threads to end. */
const THREADS_MS = 1_000;

/**
 * Returns a function that ends the threads of this process that start from now on. It resolves with whether all of them ended in time: a
 * thread that runs a statement of SQLite, such as a migration of a large table, ends only after it.
 */
export function createThreadEnd(): () => Promise<boolean> {
  const threads = new Set<Worker>();
  process.on('worker', (thread) => {
    threads.add(thread);
    thread.once('exit', () => threads.delete(thread));
  });
  return async () => {
    const late = Promise.withResolvers<false>();
    const timer = setTimeout(() => late.resolve(false), THREADS_MS);
    const ended = Promise.all([...threads].map((thread) => thread.terminate())).then(() => true);
    const isInTime = await Promise.race([ended, late.promise]);
    clearTimeout(timer);
    return isInTime;
  };
}

/** Ends process 1 with its threads: the kernel delivers no SIGKILL that it sends itself. A new program ends the threads, too. */
export function endFirstProcess(status: number): void {
  if (process.pid !== 1) return;
  const program = `process.exitCode = ${status}`;
  process.execve?.(process.execPath, [process.execPath, '--eval', program]);
}
