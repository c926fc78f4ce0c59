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
/** Interval of the check: V8 shrinks the young generation when it is idle, and may let it grow after that. */
const LOOK_MS = 500;

/** Keeps the young generation at its first size. Runs before modules are loaded. */
export function holdYoungGeneration(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** Sets the collector of a daemon and its threads. Returns a function that stops the periodic check. */
export function tuneHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  let grows = false;
  // V8 has a switch for growing, but no limit for it at run time.
  const look = setInterval(() => {
    const small = youngBytes() < YOUNG_BYTES;
    if (small === grows) return;
    grows = small;
    setFlagsFromString(`--semi-space-growth-factor=${grows ? 2 : 1}`);
  }, LOOK_MS);
  look.unref();
  return () => clearInterval(look);
}

function youngBytes(): number {
  const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
  return young?.space_size ?? 0;
}
