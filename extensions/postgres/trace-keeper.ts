import type { Steps } from '../../src/component/background.ts';
import { Background } from '../../src/component/background.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { ChangeFeed } from '../../src/store/changes.ts';
import type { TermMetrics } from '../../src/store/term-metrics.ts';
import type { Postgres } from './connection/pool.ts';
import { foldRollups } from './traces/rollups.ts';
import { summarizeStale } from './traces/summarizing.ts';
import { leasedSteps, workLeases } from './work-leases.ts';

/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 5;
/** The changes of writes in so much time are summed up before they are added. */
const ROLLUPS_MS = 2_000;
/** The shortest time between two rounds of summaries. */
const SUMMARIES_MS = 2_000;
/** The next round of summaries begins after so many times the length of the last one: a trace that grows is read again in each. */
const REST_FACTOR = 10;
/** A round may be long because it has many traces, such as all that an earlier version stored, or because the clock was set. */
const LONGEST_REST_MS = 60_000;

export type TraceKeeper = {
  /** Does what is due now. */
  finish(): Promise<void>;
  close(): Promise<void>;
  crash(): void;
};

type KeptWork = {
  /** Of the lease. */
  readonly name: string;
  readonly work: (database: Pick<Postgres, 'query' | 'transaction'>) => Steps;
  /** The rest before the next round, by the milliseconds that the last one took. */
  readonly restMs: (tookMs: number) => number;
  /** The log message when a step fails. */
  readonly failure: string;
};

/** Makes the summaries that writes leave out, and adds what they and writes changed to the rollups. */
export function traceKeeper(
  postgres: Postgres,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  terms: Pick<TermMetrics, 'leftOut'>,
  changes: Pick<ChangeFeed, 'publish'>,
): TraceKeeper {
  const parts = [
    keeper(postgres, clock, logger, {
      name: 'summaries',
      work: (database) => summarizeStale(database, terms, changes),
      restMs: (tookMs) => Math.max(SUMMARIES_MS, Math.min(REST_FACTOR * tookMs, LONGEST_REST_MS)),
      failure: 'Trace could not be summarized; retrying',
    }),
    keeper(postgres, clock, logger, {
      name: 'rollups',
      work: foldRollups,
      restMs: () => ROLLUPS_MS,
      failure: 'Rollups could not be updated; retrying',
    }),
  ];
  return {
    async finish() {
      for (const part of parts) await part.finish();
    },
    async close() {
      await Promise.all(parts.map((part) => part.close()));
    },
    crash() {
      for (const part of parts) part.crash();
    },
  };
}

/** One process at a time does the work in rounds, apart from housekeeping, which may remove a large project for a long time. */
function keeper(
  postgres: Postgres,
  clock: Clock,
  logger: Logger,
  { name, work, restMs, failure }: KeptWork,
): TraceKeeper {
  const steps = leasedSteps(workLeases(postgres, clock, logger), name, { clock, logger }, work);
  let begunAt: number | undefined;
  const background = new Background({
    clock,
    logger,
    everyMs: () => {
      const tookMs = clock.now() - (begunAt ?? clock.now());
      begunAt = undefined;
      return restMs(Math.max(0, tookMs));
    },
    betweenMs: PAUSE_MS,
    failure,
    step: () => {
      begunAt ??= clock.now();
      return steps.step();
    },
  });
  background.wake();
  return {
    finish: () => steps.finish(() => background.finish()),
    async close() {
      await background.close();
      await steps.close();
    },
    crash: () => background.stop(),
  };
}
