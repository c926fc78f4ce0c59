import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import { inTurns } from '../../src/component/turns.ts';
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

  function count(): void {
    for (const [rule, matches] of counts) counter.add(matches, { rule });
    counts.clear();
  }

  return {
    async start() {},
    async shutdown() {},
    process(batch, request) {
      const rest = inTurns(redactor.redact(batch), clock, request.signal);
      count();
      return rest?.finally(count);
    },
  };
}
