import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';

/**
 * How V8's collector is set for a daemon: few objects that live long, and buffers that come and go with
 * every request. Left alone, V8 sees a small heap beside a large young generation, takes its limit for
 * nearly reached and marks the whole heap about once in a hundred requests, which costs as much again as
 * half of accepting them.
 *
 *   growing percent    the old generation may grow to three times what lived, within V8's own range
 *   young generation   stays where it is good enough: what it would hold longer is mostly freed buffers
 */
const GROWING_PERCENT = 200;
/** Both halves together. */
const YOUNG_BYTES = 8 * 1024 * 1024;
const LOOK_MS = 500;

/** Sets the collector of this process and its threads; the result ends what is still under way. */
export function tuneHeap(): () => void {
  setFlagsFromString(`--heap-growing-percent=${GROWING_PERCENT}`);
  if (holdYoungGeneration()) return () => undefined;
  const look = setInterval(() => {
    if (holdYoungGeneration()) clearInterval(look);
  }, LOOK_MS);
  look.unref();
  return () => clearInterval(look);
}

/** False while it still has to grow. It can be told to stop, but not where. */
function holdYoungGeneration(): boolean {
  const young = getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
  if (young !== undefined && young.space_size < YOUNG_BYTES) return false;
  setFlagsFromString('--semi-space-growth-factor=1');
  return true;
}
