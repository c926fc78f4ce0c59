import { constants } from 'node:os';

/**
 * Ends process 1 on SIGTERM and SIGINT while modules are loaded. The kernel delivers no signal to process 1
 * that it has no handler for, so stopping a container in that phase would wait for the whole grace period and
 * then kill. Any other process needs no handler: the default action of the signals ends it.
 */
export function endWhileLoading(end: (status: number) => void, pid: number = process.pid): void {
  if (pid !== 1) return;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      // Another listener handles the stop itself.
      if (process.listenerCount(signal) === 1) end(128 + constants.signals[signal]);
    });
  }
}
