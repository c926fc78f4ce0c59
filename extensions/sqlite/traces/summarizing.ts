import type { Clock, Logger } from '../../../src/component/component.ts';
import type { Database } from '../../../src/sqlite/database.ts';
import type { ChangeFeed } from '../../../src/store/changes.ts';
import type { TermMetrics } from '../../../src/store/term-metrics.ts';
import type { StoreOperations } from '../operations.ts';
import type { RollupFolding } from './rollup-folding.ts';
import { backgroundRounds, type Rounds } from './rounds.ts';

/** The pause between two steps, for calls that a client waits for. A step takes about as long, or one trace. */
const BETWEEN_MS = 5;
/** The shortest time between two rounds. */
const ROUND_MS = 500;
/** The next round begins after so many times the work of the last one, so that a trace that grows takes little of a thread. */
const REST_FACTOR = 20;
/** A round may be long because it has many traces, such as all that an earlier version stored. */
const LONGEST_REST_MS = 60_000;

/** A write wakes it when it left a trace without its summary. */
export type Summarizing = Rounds;

/**
 * Makes the summaries that writes leave out: of large traces, and of those that an earlier version stored. A reading thread
 * reads the observations; a trace that changed since stays for the next round.
 */
export function summarizing(
  database: Pick<Database<StoreOperations>, 'search' | 'write'>,
  terms: Pick<TermMetrics, 'leftOut'>,
  rollups: Pick<RollupFolding, 'wake'>,
  changes: Pick<ChangeFeed, 'publish'>,
  clock: Clock,
  logger: Logger,
): Summarizing {
  let after = 0;
  let workMs = 0;
  let restMs = ROUND_MS;

  async function step(): Promise<boolean> {
    const end = clock.now() + BETWEEN_MS;
    do {
      if (!(await summarizeNext())) return false;
    } while (clock.now() < end);
    return true;
  }

  /** Resolves with false at the end of a round, which looks at each trace once. */
  async function summarizeNext(): Promise<boolean> {
    if (after === 0) workMs = 0;
    const n = await database.search('traces.nextStale', [after]);
    after = n ?? 0;
    if (n === null) {
      restMs = Math.max(ROUND_MS, Math.min(REST_FACTOR * workMs, LONGEST_REST_MS));
      return false;
    }
    const summary = await database.search('traces.summarize', [n]);
    if (summary !== null) {
      workMs += summary.spentMs;
      await database.write('traces.saveSummary', [summary]);
      terms.leftOut(summary.trace.terms.unindexed);
      rollups.wake();
      changes.publish(summary.project, [summary.traceId]);
    }
    return true;
  }

  const failure = 'Trace could not be summarized; retrying';
  return backgroundRounds({ clock, logger, betweenMs: BETWEEN_MS, failure, step }, () => restMs);
}
