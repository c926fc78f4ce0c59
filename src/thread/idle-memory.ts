import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Milliseconds after large work, and between two checks, in which V8 may collect on its own. */
const PAUSE_MS = 2000;
/** Less garbage than this remains until V8 needs the memory. */
const WORTH_IT = 48 * 1_048_576;

let timer: NodeJS.Timeout | undefined;
/** Bytes in use after the last collection. */
let kept = 0;
let collect: (() => void) | undefined;

/**
 * Call after work on a body that may have had megabytes. V8 collects garbage when it allocates, so a thread that becomes
 * idle after a few huge bodies would keep their garbage until its next work.
 */
export function scheduleCollection(): void {
  if (timer === undefined) timer = setTimeout(collectIfLarge, PAUSE_MS).unref();
}

function collectIfLarge(): void {
  timer = undefined;
  kept = Math.min(kept, inUse());
  if (inUse() < kept + WORTH_IT) return;
  collectGarbage();
  kept = inUse();
}

/** Collects all garbage of this thread. */
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
