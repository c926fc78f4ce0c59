import type { RequestProcessor, Settings } from '../../src/component/component.ts';
import { inTurns } from '../../src/component/turns.ts';
import type { ReceivedBatch } from '../../src/model/batch.ts';
import type { JsonIndex } from '../../src/model/batch-index.ts';
import { SMALL_BODY_BYTES } from '../../src/model/formats.ts';
import { isJsonIndex, isObjectItem, pathOf } from '../../src/model/json/read.ts';
import { otlpRejections } from '../../src/model/otlp/rules.ts';
import { isOpen, reject } from '../../src/model/verbs.ts';
import type { Rule } from './checks.ts';
import { NATIVE_RULES } from './native.ts';
import { isPlainEvent, isPlainRun } from './plain.ts';
import { RUN_RULES } from './runs.ts';

/**
 * Judges every event separately (spec 4.1): the client reads the first rule that it breaks. A large batch is
 * judged in turns, so that it does not block the event loop; they end with the request.
 *
 *   batch ── its index ─┬─ native, runs: not plain? ── an object? ── rules in their order ──┐
 *                       └─ OTLP: ids, attribute sizes ──────────────────────────────────────┴─ reject
 */
export function createProcessor({ clock }: Pick<Settings, 'clock'>): RequestProcessor {
  return {
    async start() {},
    async shutdown() {},
    process(batch, { signal }) {
      const { index } = batch;
      if (!isJsonIndex(index)) {
        for (const { index: item, code, reason } of otlpRejections(index)) {
          reject(batch, item, code, reason);
        }
        return undefined;
      }
      if (index.bytes.length > SMALL_BODY_BYTES)
        return inTurns(judging(batch, index), clock, signal);
      const rules = rulesOf(index);
      for (let item = 0; item < index.count; item++) judge(batch, index, item, rules);
      return undefined;
    },
  };
}

/** Yields after each item. */
function* judging(batch: ReceivedBatch, index: JsonIndex): Generator<void> {
  const rules = rulesOf(index);
  for (let item = 0; item < index.count; item++) {
    judge(batch, index, item, rules);
    yield;
  }
}

function rulesOf({ type }: JsonIndex): readonly Rule[] {
  return type === 'native' ? NATIVE_RULES : RUN_RULES;
}

function judge(batch: ReceivedBatch, index: JsonIndex, item: number, rules: readonly Rule[]): void {
  const isPlain = index.type === 'native' ? isPlainEvent : isPlainRun;
  if (!isOpen(batch, item) || isPlain(index, item)) return;
  if (!isObjectItem(index, item)) {
    reject(batch, item, 'invalid_event', 'must be an object', pathOf(index, item));
    return;
  }
  for (const rule of rules) {
    const problem = rule(index, item);
    if (problem === undefined) continue;
    const { code, field, reason } = problem;
    reject(batch, item, code, reason, `${pathOf(index, item)}.${field}`);
    return;
  }
}
