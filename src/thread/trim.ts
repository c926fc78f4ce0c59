import { getHeapStatistics } from 'node:v8';
import { Worker } from 'node:worker_threads';
import { threadFile } from './thread.ts';

/** The process to trim; tests have their own. */
export type Trimmed = {
  /** Calls back once after `ms`; the returned function cancels. */
  after(ms: number, callback: () => void): () => void;
  /** Bytes of resident memory that the heap of V8 and its buffers do not explain. */
  unexplained(): number;
  /** Microseconds of CPU that the process has spent. */
  cpuMicros(): number;
  /** Bytes of objects in the heap of V8. A collection pauses the process by about 10 ms, and by 0.4 ms for each MiB. */
  heapUsed(): number;
  /** Collects garbage. V8 then discards the compiled code of functions whose objects are all gone, and compiles it again under load. */
  collect(): void;
  /** Whether a load leaves code that is worth more than its garbage. */
  keepsCode(): boolean;
  /** Resolves when freed memory is returned. Rejects where that cannot be done. */
  trim(): Promise<void>;
};

/** Milliseconds from the start to the first look, when threads without work have ended. */
export const FIRST_LOOK_MS = 40_000;
/** Milliseconds between two looks. A trim takes 40 ms of CPU, most of them for its thread. */
export const LOOK_MS = 5_000;
/** Bytes that became unexplained since the last trim and make another one worth it. */
export const GROWTH = 16 * 1_048_576;
/** After a trim that returned fewer bytes, 1, 3, 7 … looks pass without a trim, at most `MOST_PASSED`. */
export const WORTH_IT = 8 * 1_048_576;
export const MOST_PASSED = 63;
/** Microseconds of CPU between two looks that are a load. */
export const LOAD_MICROS = 250_000;
/** Looks from the end of a load to its second trim, when threads without work have ended. */
export const LOOKS_AFTER_LOAD = 2;
/** Bytes of objects up to which a collection is a short pause: 24 to 32 ms at this size. */
export const SHORT_PAUSE_HEAP = 64 * 1_048_576;

/**
 * Returns freed memory to the system while the process runs. The allocator of glibc keeps freed blocks between blocks in use, mostly those
 * of bodies: after a load a third of the resident memory.
 *
 *   first look ──▶ collect what the start left, unless there is a load ──▶ trim
 *   look ──▶ 16 MiB more unexplained than after the last trim? ──▶ trim ──▶ the next look in 5 s, or later if little was returned
 *
 * A look that finds half of the load of the last trim, or less, collects, unless compiled code is worth more, and trims in any case: what that
 * trim found in use is free now. A later look trims again, because the memory of a thread is free when the thread has ended. V8 keeps the high
 * limit of its heap after a load, and a lower rate takes long to reach it. A large heap is left to V8, which marks it in steps.
 *
 * @returns a function that ends it
 */
export function startTrimming(trimmed: Trimmed): () => void {
  let trimmedTo = 0;
  let passed = 0;
  let toPass = 0;
  let cpu = trimmed.cpuMicros();
  let spentBeforeTrim = 0;
  let looksSinceLoad = Number.POSITIVE_INFINITY;
  let isEnded = false;
  let cancel = trimmed.after(FIRST_LOOK_MS - LOOK_MS, () => {
    cpu = trimmed.cpuMicros();
    cancel = trimmed.after(LOOK_MS, () => {
      if (trimmed.cpuMicros() - cpu < LOAD_MICROS) trimmed.collect();
      void look();
    });
  });

  async function look(): Promise<void> {
    const spent = trimmed.cpuMicros() - cpu;
    cpu += spent;
    const hasFallen = spentBeforeTrim >= LOAD_MICROS && spent <= spentBeforeTrim / 2;
    looksSinceLoad = hasFallen ? 0 : looksSinceLoad + 1;
    if (hasFallen || looksSinceLoad === LOOKS_AFTER_LOAD) {
      toPass = 0;
      trimmedTo = 0;
    }
    if (hasFallen) {
      spentBeforeTrim = spent;
      if (!trimmed.keepsCode() && trimmed.heapUsed() <= SHORT_PAUSE_HEAP) trimmed.collect();
    }
    const before = trimmed.unexplained();
    if (before >= trimmedTo + GROWTH && passed++ >= toPass) {
      try {
        await trimmed.trim();
      } catch {
        // The C library has no such function, or Node cannot call it: memory stays as the allocator keeps it.
        return;
      }
      trimmedTo = trimmed.unexplained();
      passed = 0;
      spentBeforeTrim = spent;
      toPass = before - trimmedTo >= WORTH_IT ? 0 : Math.min(2 * toPass + 1, MOST_PASSED);
    }
    if (!isEnded) cancel = trimmed.after(LOOK_MS, () => void look());
  }

  return () => {
    isEnded = true;
    cancel();
  };
}

/** Bytes of resident memory of this process that the heap of V8 and its buffers do not explain. */
export function unexplainedBytes(): number {
  const { rss, heapTotal, external } = process.memoryUsage();
  return rss - heapTotal - external;
}

/** Bytes of objects in the heap of V8 of this thread. */
export function heapUsedBytes(): number {
  return getHeapStatistics().used_heap_size;
}

/** Microseconds of CPU that this process has spent, with all of its threads. */
export function processCpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** A thread calls the C library, because the flag that allows it holds for one thread. */
export async function trimProcess(): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const worker = new Worker(threadFile(import.meta.url, 'trim-thread'), {
    execArgv: ['--experimental-ffi', '--no-warnings'],
  });
  worker.unref();
  worker.on('error', reject);
  worker.on('exit', () => resolve());
  await promise;
}
