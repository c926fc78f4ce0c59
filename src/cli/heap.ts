import { setFlagsFromString } from 'node:v8';

/**
 * Settings of V8's collector for a daemon, which has few long-lived objects, and buffers that live for one
 * request. By default V8 lets the young generation grow to 64 MiB beside a small heap. It then takes the limit
 * of the heap for nearly reached and marks the whole heap once in a hundred requests, which costs about half
 * as much as accepting them.
 *
 *   old generation     may grow to three times the live size, which is within V8's own range
 *   young generation   stays small: a larger one mostly holds freed buffers
 */
const GROWING_PERCENT = 200;

/** MiB of each semi-space. V8 keeps the size of a load for long after it. */
const MAX_SEMI_SPACE_MIB = 2;

/** V8 reads this limit when it makes a heap: for the event loop at the start of the process. */
export const MAX_YOUNG_FLAG = `--max-semi-space-size=${MAX_SEMI_SPACE_MIB}`;

/**
 * MiB that V8 shrinks each semi-space of a thread to; 1 by default. A thread that was idle for a moment would have a small one, and collect it
 * several times as often.
 */
const THREAD_SEMI_SPACE_MIB = 2;

/** Sets the collector of a daemon and of its threads, which read the flags when they start. Runs before modules are loaded. */
export function tuneHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  setFlagsFromString(`--min-semi-space-size=${THREAD_SEMI_SPACE_MIB}`);
}
