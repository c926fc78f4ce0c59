import { Background } from '../../src/component/background.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { Postgres } from './connection/pool.ts';
import { foldRollups } from './traces/rollups.ts';
import { leasedSteps, workLeases } from './work-leases.ts';

/** The changes of writes in so much time are summed up before they are added. */
const INTERVAL_MS = 2_000;
/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 5;

export type RollupKeeper = {
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

/** Adds what writes changed to the rollups. One process at a time does it, apart from housekeeping, whose steps may be many. */
export function rollupKeeper(postgres: Postgres, clock: Clock, logger: Logger): RollupKeeper {
  const leases = workLeases(postgres, clock, logger);
  const work = leasedSteps(leases, 'rollups', { clock, logger }, foldRollups);
  const background = new Background({
    clock,
    logger,
    everyMs: INTERVAL_MS,
    betweenMs: PAUSE_MS,
    failure: 'Rollups could not be updated; retrying',
    step: () => work.step(),
  });
  background.wake();
  return {
    finish: () => work.finish(() => background.finish()),
    async close() {
      await background.close();
      await work.close();
    },
    crash: () => background.stop(),
  };
}
