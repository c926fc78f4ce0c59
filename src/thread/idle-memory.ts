import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Milliseconds after large work, and between two looks, in which V8 may collect by itself. */
const PAUSE_MS = 2000;
/** Garbage below this may stay until V8 needs the room. */
const WORTH_IT = 48 * 1_048_576;

let timer: NodeJS.Timeout | undefined;
/** Bytes that were still in use after the last collection. */
let kept = 0;
let collect: (() => void) | undefined;

/**
 * To be called whenever this thread has worked on something that may have been megabytes. V8 collects
 * garbage as it allocates, so a thread that falls idle behind a few huge bodies would keep what they left
 * for as long as nothing else happens.
 */
export function leftGarbage(): void {
  if (timer === undefined) timer = setTimeout(giveBack, PAUSE_MS).unref();
}

function giveBack(): void {
  timer = undefined;
  kept = Math.min(kept, inUse());
  if (inUse() < kept + WORTH_IT) return;
  collectGarbage();
  kept = inUse();
}

/** All garbage of this thread, now. */
export function collectGarbage(): void {
  if (collect === undefined) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as () => void;
  }
  collect();
}

function inUse(): number {
  const { total_heap_size: heap, external_memory: external } = getHeapStatistics();
  return heap + external;
}
