import { offer } from '../../src/component/capability.ts';
import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import { inTurns } from '../../src/component/turns.ts';
import type { NewScore, ScoreEditor } from '../../src/store/scores.ts';
import { SCORE_EDITOR } from '../../src/store/scores.ts';
import type { RedactionConfig } from './config.ts';
import { Redactor } from './redactor.ts';

/**
 * Redacts every batch before another processor reads it. Work that takes longer than a turn is continued
 * after other requests were served.
 *
 *   batch ── redactor.ts ── masked or replaced texts ──▶ the next processor
 *   score ── redactor.ts ──▶ the store
 */
export function createProcessor(
  { id, clock, metrics }: Settings,
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

  const scores: ScoreEditor = {
    id,
    async edit(given) {
      const edited: NewScore[] = [];
      try {
        await inTurns(redactScores(redactor, given, edited), clock);
      } finally {
        count();
      }
      return edited;
    },
  };

  return {
    offers: [offer(SCORE_EDITOR, scores)],
    async start() {},
    async shutdown() {},
    process(batch, request) {
      const rest = inTurns(redactor.redact(batch), clock, request.signal);
      count();
      return rest?.finally(count);
    },
  };
}

/** Adds the scores to `edited`. Their names, texts and sources are redacted; their ids are those of traces and observations. */
function* redactScores(
  redactor: Redactor,
  scores: readonly NewScore[],
  edited: NewScore[],
): Generator<undefined, void> {
  for (const score of scores) {
    const { name, value, comment, source } = score;
    edited.push({
      ...score,
      name: yield* redactor.text(name),
      value: typeof value === 'string' ? yield* redactor.text(value) : value,
      comment: comment === null ? null : yield* redactor.text(comment),
      source: source === null ? null : yield* redactor.text(source),
    });
  }
}
