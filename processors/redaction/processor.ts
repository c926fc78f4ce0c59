import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, RequestProcessor, Settings } from '../../src/component/component.ts';
import { tooLate } from '../../src/model/errors.ts';
import type { RequestContext } from '../../src/model/request-context.ts';
import type { RedactionConfig } from './config.ts';
import { Redactor } from './redactor.ts';

/**
 * Redacts every batch before another processor reads it. Work that takes longer than a turn is continued
 * after other requests were served.
 *
 *   batch ── redactor.ts ── masked or replaced texts ──▶ the next processor
 */
export function createProcessor(
  { clock, metrics }: Settings,
  config: RedactionConfig,
): RequestProcessor {
  const counter = metrics.counter(
    'tracectl_redaction_matches_total',
    'Texts and numbers that a rule redacted.',
  );
  const counts = new Map<string, number>();
  const redactor = new Redactor(config, (rule) => {
    counts.set(rule, (counts.get(rule) ?? 0) + 1);
  });

  /** True if the work is done. */
  function turn(work: Generator<undefined, void>): boolean {
    const isDone = workFor(work, clock, TURN_MS);
    for (const [rule, count] of counts) counter.add(count, { rule });
    counts.clear();
    return isDone;
  }

  async function continued(
    work: Generator<undefined, void>,
    { signal }: RequestContext,
  ): Promise<void> {
    do {
      await nextTurn();
      // The client has read that the request failed.
      if (signal.aborted) throw tooLate();
    } while (!turn(work));
  }

  return {
    async start() {},
    async shutdown() {},
    process(batch, request) {
      const work = redactor.redact(batch);
      return turn(work) ? undefined : continued(work, request);
    },
  };
}

/** Milliseconds of one turn. */
const TURN_MS = 20;

/** Goes on until the work is done, which it returns, or the time is over. */
function workFor(work: Generator<undefined, void>, clock: Clock, ms: number): boolean {
  const end = clock.now() + ms;
  do {
    if (work.next().done === true) return true;
  } while (clock.now() < end);
  return false;
}
