import { constants } from 'node:os';

/**
 * A container's program is process 1, and the system keeps from that process each signal it has no handler for.
 * Whoever stopped the container while modules are still being loaded would wait for the whole grace period, and
 * then kill. As any other process, the signals end it before it asks for them: nothing needs a handler then.
 */
export function endWhileLoading(end: (status: number) => void, pid: number = process.pid): void {
  if (pid !== 1) return;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      // Who listens beside decides what becomes of the process.
      if (process.listenerCount(signal) === 1) end(128 + constants.signals[signal]);
    });
  }
}
