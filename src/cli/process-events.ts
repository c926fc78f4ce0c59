import { constants } from 'node:os';
import type { ServiceLogger } from '../telemetry/logger.ts';
import { EXIT } from './exit-status.ts';

/** What the operating system, or a fault of ours, says to a running daemon. */
export type Ending = {
  /** Resolves with an exit status when the daemon is to stop. */
  readonly ended: Promise<number>;
  /** Resolves when there is no more time to stop in order. */
  readonly cutShort: Promise<number>;
  onReload(listener: () => void): void;
  close(): void;
};

/** npm passes Ctrl-C on while the terminal sends it too: within this time it is one signal. */
const SAME_SIGNAL_MS = 1_000;
/** How long stopping may take after a fault, when nothing can be relied on. */
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
      logger.warn({ signal }, 'Stopped at once by a second signal.');
      cutShort.resolve(128 + constants.signals[signal]);
    }
  };
  const onFault = (error: unknown) => {
    logger.error({ error }, 'A fault of the program: it stops.');
    ended.resolve(EXIT.fault);
    faultTimer ??= setTimeout(() => cutShort.resolve(EXIT.fault), FAULT_MS);
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
    close() {
      process.off('SIGTERM', onStop).off('SIGINT', onStop).off('SIGHUP', onHangup);
      process.off('uncaughtException', onFault);
      clearTimeout(faultTimer);
    },
  };
}
