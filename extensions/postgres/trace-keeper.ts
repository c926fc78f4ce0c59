import type { Steps } from '../../src/component/background.ts';
import { Background } from '../../src/component/background.ts';
import type { Clock, Logger } from '../../src/component/component.ts';
import type { ChangeFeed } from '../../src/store/changes.ts';
import type { TermMetrics } from '../../src/store/term-metrics.ts';
import type { Postgres } from './connection/pool.ts';
import { foldRollups } from './traces/rollup-folding.ts';
import { summarizeStale } from './traces/summarizing.ts';
import { LONGEST_LEASE_REST_MS, leasedSteps, workLeases } from './work-leases.ts';

/** The pause between two steps, for transactions that clients wait for. */
const PAUSE_MS = 5;
/** How often each process looks for work. */
const LOOK_MS = 2_000;
/** The shortest time between two rounds of all processes. It is over when the process of the last round looks again. */
const SHORTEST_REST_MS = 1_900;
/** The rest before the next round of summaries has so many times the length of the last one: a trace that grows is read again in each. */
const REST_FACTOR = 10;

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
  /** The rest of all processes before the next round, by the milliseconds that the last one took. */
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
      // A round may be long because it has many traces, such as all that an earlier version stored, or because the clock was set.
      restMs: (tookMs) =>
        Math.max(SHORTEST_REST_MS, Math.min(REST_FACTOR * tookMs, LONGEST_LEASE_REST_MS)),
      failure: 'Trace could not be summarized; retrying',
    }),
    keeper(postgres, clock, logger, {
      name: 'rollups',
      work: foldRollups,
      restMs: () => SHORTEST_REST_MS,
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
  let begunAt = 0;
  async function* timed(database: Parameters<typeof work>[0]): Steps {
    begunAt = clock.now();
    yield* work(database);
  }
  const leases = workLeases(postgres, clock, logger);
  const steps = leasedSteps(leases, name, { clock, logger }, timed, () =>
    restMs(Math.max(0, clock.now() - begunAt)),
  );
  const background = new Background({
    ...{ clock, logger, failure },
    // The lease keeps the rest, for all processes.
    everyMs: LOOK_MS,
    betweenMs: PAUSE_MS,
    step: () => steps.step(),
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
