import type { Processor } from '../../src/component/component.ts';
import type { Batch, RawBatch, Rejection } from '../../src/model/batch.ts';
import { reject } from '../../src/model/batch.ts';
import type { JsonIndex } from '../../src/model/batch-index.ts';
import { indexOf, itemId, requestIndexOf } from '../../src/model/formats.ts';
import { isJsonIndex, isObjectItem, pathOf } from '../../src/model/json/read.ts';
import { otlpRejections } from '../../src/model/otlp/rules.ts';
import type { Rule } from './checks.ts';
import { NATIVE_RULES } from './native.ts';
import { RUN_RULES } from './runs.ts';

/**
 * Decides for every event on its own (spec 4.1): what is wrong with it is its first broken rule.
 *
 *   batch ── its index ─┬─ native, runs: an object? ── rules in their order ──┐
 *                       └─ OTLP: ids, attribute sizes ────────────────────────┴─ rejections
 */
export function createValidation(): Processor {
  return {
    async start() {},
    async shutdown() {},
    process(batch: Batch): Batch {
      if (batch.kind === 'raw') reject(batch, rejectionsOf(batch));
      return batch;
    },
  };
}

function rejectionsOf(batch: RawBatch): readonly Rejection[] {
  const index = indexOf(batch);
  if (!isJsonIndex(index)) {
    return otlpRejections(index).map((rejection) => ({
      ...rejection,
      index: requestIndexOf(batch, rejection.index),
    }));
  }
  const rules = index.type === 'native' ? NATIVE_RULES : RUN_RULES;
  const rejections: Rejection[] = [];
  for (let position = 0; position < index.count; position++) {
    const problem = firstProblem(index, position, rules);
    if (problem === undefined) continue;
    const id = itemId(index, position);
    rejections.push({
      index: requestIndexOf(batch, position),
      ...(id === undefined ? {} : { id }),
      ...problem,
    });
  }
  return rejections;
}

function firstProblem(
  index: JsonIndex,
  position: number,
  rules: readonly Rule[],
): Pick<Rejection, 'code' | 'reason'> | undefined {
  if (!isObjectItem(index, position)) {
    return { code: 'invalid_event', reason: `${pathOf(index, position)} must be an object` };
  }
  for (const rule of rules) {
    const problem = rule(index, position);
    if (problem !== undefined) {
      return { code: problem.code, reason: `${pathOf(index, position)}.${problem.reason}` };
    }
  }
  return undefined;
}
