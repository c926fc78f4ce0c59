import { Progress } from '../../receivers/bullmq/progress.ts';
import type { Clock } from '../../src/component/component.ts';
import { Waits } from '../../src/component/waits.ts';
import type { RecordingLogger } from './settings.ts';

/** Options of a worker or its watchdog for tests that are about others: nothing delivers, and no bound is met. */
export function workerParts(clock: Clock, logger: RecordingLogger) {
  return {
    clock,
    logger,
    progressTimeout: 600_000,
    deliveryTimeout: 600_000,
    retryInterval: 0,
    progress: new Progress(clock),
    waits: new Waits({ clock, logger, stepTimeout: 45_000 }),
    processEnd: { end() {} },
    delivering: () => 0,
    isResting: () => false,
  };
}
