import { constants } from 'node:os';
import type { ServiceLogger } from '../telemetry/logger.ts';
import { EXIT } from './exit-status.ts';

/** Signals of the operating system and uncaught exceptions, as a running daemon sees them. */
export type Ending = {
  /** Resolves with an exit status on the first signal to stop, or on a fault. */
  readonly ended: Promise<number>;
  /** Resolves with an exit status when the process has to end at once: a second signal, or a slow stop after a fault. */
  readonly cutShort: Promise<number>;
  onReload(listener: () => void): void;
  /** Ends the process with this status; it gets only a short time to stop, because its state is unknown. */
  fail(status: number): void;
  close(): void;
};

/** npm forwards a Ctrl-C that the terminal sends as well: signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000;
/** Limit for stopping after a fault, because the state of the process is unknown. */
const FAULT_MS = 10_000;

export function watchProcess(logger: ServiceLogger, now: () => number = Date.now): Ending {
  const ended = Promise.withResolvers<number>();
  const cutShort = Promise.withResolvers<number>();
  let stoppedAt: number | undefined;
  let reload = () => {};
  let faultTimer: NodeJS.Timeout | undefined;

  const onStop = (signal: NodeJS.Signals) => {
    if (stoppedAt === undefined) {
      stoppedAt = now();
      ended.resolve(EXIT.ok);
    } else if (now() - stoppedAt > SAME_SIGNAL_MS) {
      logger.warn({ signal }, 'Second signal; stopping at once');
      cutShort.resolve(128 + constants.signals[signal]);
    }
  };
  const fail = (status: number) => {
    ended.resolve(status);
    faultTimer ??= setTimeout(() => cutShort.resolve(status), FAULT_MS);
  };
  const onFault = (error: unknown) => {
    logger.error({ err: error }, 'Uncaught exception; stopping');
    fail(EXIT.fault);
  };
  const onHangup = () => reload();
  process.on('SIGTERM', onStop).on('SIGINT', onStop).on('SIGHUP', onHangup);
  process.on('uncaughtException', onFault);
  return {
    ended: ended.promise,
    cutShort: cutShort.promise,
    onReload(listener) {
      reload = listener;
    },
    fail,
    close() {
      process.off('SIGTERM', onStop).off('SIGINT', onStop).off('SIGHUP', onHangup);
      process.off('uncaughtException', onFault);
      clearTimeout(faultTimer);
    },
  };
}
