import { setImmediate as nextTurn } from 'node:timers/promises';

const LONGEST_MS = 10_000;

/** Waits for a condition that only needs turns of the event loop; rejects after 10 s. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + LONGEST_MS;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not true within 10 s: ${condition}`);
    await nextTurn();
  }
}
