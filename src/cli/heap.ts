import { setFlagsFromString } from 'node:v8';
import type { ServiceConfig } from '../config/config.ts';

/**
 * Settings of V8's collector for a daemon, which has few long-lived objects, and buffers that live for one
 * request. By default V8 lets the young generation grow to 64 MiB beside a small heap. It then takes the limit
 * of the heap for nearly reached and marks the whole heap once in a hundred requests, which costs about half
 * as much as accepting them.
 *
 *   old generation     may grow to three times the live size, which is within V8's own range
 *   young generation   stays small where requests pass on as bytes: a larger one mostly holds freed buffers.
 *                      Grows where they are normalized: the observations of a batch live until they are stored,
 *                      and each earlier collection copies them
 */
const GROWING_PERCENT = 200;

/** MiB of each semi-space of a young generation that stays small. V8 starts with 1, and shrinks an idle one to it. */
const SMALL_MIB = 2;
/** MiB of each semi-space of a thread, at least, where requests are normalized. */
const NORMALIZING_THREAD_MIB = 4;
/** MiB that each semi-space may have. V8 keeps the size of a load for long after it. */
const MAX_MIB = 8;

/** The limit of a process whose user has set none. */
export const MAX_YOUNG_FLAG = `--max-semi-space-size=${MAX_MIB}`;
/** V8 reads these limits when it makes a heap: for the event loop at the start of the process. */
export const YOUNG_FLAGS = [MAX_YOUNG_FLAG, `--min-semi-space-size=${SMALL_MIB}`];

/** Sets the collector of a daemon and of its threads, which read the flags when they start. Runs before modules are loaded. */
export function tuneHeap(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  setFlagsFromString(`--min-semi-space-size=${SMALL_MIB}`);
  if (hasOwnLimit()) setGrowth(1);
}

let isNormalizing = false;

/** Lets the young generations grow if the daemon normalizes. Threads that start later begin with a larger one. */
export function tuneHeapFor({ processors }: Pick<ServiceConfig, 'processors'>): void {
  isNormalizing = [...processors.values()].some(
    ({ factory }) => factory.data.emits === 'observations',
  );
  if (!isNormalizing || !hasOwnLimit()) return;
  setGrowth(2);
  setFlagsFromString(`--min-semi-space-size=${NORMALIZING_THREAD_MIB}`);
}

/** Whether the daemon normalizes: a collection between two loads costs more than it returns (docs/decisions.md). */
export function keepsCode(): boolean {
  return isNormalizing;
}

/** False if the user has set the limit of the young generation, which then grows as V8 wants. */
function hasOwnLimit(): boolean {
  return process.execArgv.includes(MAX_YOUNG_FLAG);
}

/** V8 multiplies the size of a young generation by the factor when a collection finds most of it alive. */
function setGrowth(factor: 1 | 2): void {
  setFlagsFromString(`--semi-space-growth-factor=${factor}`);
}
