import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/**
 * How V8's collector is set for a daemon: few objects that live long, and buffers that come and go with
 * every request. Left alone, V8 lets the young generation grow to 64 MiB beside a small heap; it then takes
 * the heap's limit for nearly reached and marks all of it once in a hundred requests, which costs about as
 * much as half of accepting them.
 *
 *   old generation     may grow to three times what lived, which is within V8's own range
 *   young generation   is kept small: what it would hold longer is mostly freed buffers
 */
const GROWING_PERCENT = 200;
/** Both halves together. */
const YOUNG_BYTES = 4 * 1024 * 1024;
/** V8 shrinks the young generation when it is idle, so it is looked at for as long as the daemon runs. */
const LOOK_MS = 500;

/** For the start of the process, before modules are loaded: the young generation stays as small as it is. */
export function holdYoungGeneration(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}

/** Sets the collector of a daemon and its threads; the result ends the watch over it. */
export function tuneHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  let grows = false;
  // It can be told whether to grow, but not up to where.
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
