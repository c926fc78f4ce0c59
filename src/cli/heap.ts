import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

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
/** Size of both semi-spaces together. */
const YOUNG_BYTES = 4 * 1024 * 1024;
/** Milliseconds to the next look at a young generation that may grow: V8 doubles it at each collection. */
const LOOK_MS = 500;
/** Milliseconds to the next look at any other one: V8 shrinks it when it is idle. A look of an idle process takes 0.3 ms of CPU. */
const QUIET_LOOK_MS = 2000;
/** An idle process allocates fewer bytes between two looks. */
const QUIET_BYTES = 512 * 1024;

/**
 * MiB of each semi-space of a thread, and the least that V8 shrinks it to; 1 by default. The switch for growing follows the event loop alone, so a
 * thread that was idle for a moment would keep a small one, and collect it several times as often.
 */
const THREAD_SEMI_SPACE_MIB = 2;

/** Keeps the young generation at its first size, which is a larger one in threads. Runs before modules are loaded. */
export function holdYoungGeneration(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString(`--min-semi-space-size=${THREAD_SEMI_SPACE_MIB}`);
}

/** Bytes of the young generation: its size, and those of objects in it. */
export type YoungGeneration = { readonly size: number; readonly used: number };

/**
 * Whether the young generation may grow: it is small, and the process has collected it, or has allocated, since the last look. A process
 * without work needs no larger one.
 */
export function mayGrow({ size, used }: YoungGeneration, usedBefore: number): boolean {
  const isQuiet = used >= usedBefore && used - usedBefore < QUIET_BYTES;
  return size < YOUNG_BYTES && !isQuiet;
}

/** Sets the collector of a daemon and its threads. Returns a function that stops the looks at the young generation. */
export function tuneHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  let grows = false;
  let used = 0;
  let timer: NodeJS.Timeout;
  // V8 has a switch for growing, but no limit for it at run time.
  const look = (): void => {
    const young = youngGeneration();
    const wanted = mayGrow(young, used);
    used = young.used;
    if (wanted !== grows) {
      grows = wanted;
      setFlagsFromString(`--semi-space-growth-factor=${grows ? 2 : 1}`);
    }
    timer = setTimeout(look, grows ? LOOK_MS : QUIET_LOOK_MS).unref();
  };
  look();
  return () => clearTimeout(timer);
}

function youngGeneration(): YoungGeneration {
  const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
  return { size: young?.space_size ?? 0, used: young?.space_used_size ?? 0 };
}
