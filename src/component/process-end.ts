import { capability } from './capability.ts';

/**
 * Why a component ends the process. Each reason has an exit status of its own (src/cli/exit-status.ts and
 * docs/errors.md).
 */
export type EndReason = 'stalled' | 'removed_data';

/**
 * Ends the process in order, because the component found a fault that this process cannot repair. The caller has logged
 * the fault. The supervisor, systemd or the container runtime starts the process again.
 */
export type ProcessEnd = { end(reason: EndReason): void };

/** Offered by the service; without a daemon around the service, it does nothing. */
export const PROCESS_END = capability<ProcessEnd>('process_end');
