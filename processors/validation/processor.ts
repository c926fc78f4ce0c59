import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Processor, Settings } from '../../src/component/component.ts';
import type { Batch, Rejection, SealedBatch } from '../../src/model/batch.ts';
import { reject } from '../../src/model/batch.ts';
import type { JsonIndex, OtlpIndex } from '../../src/model/batch-index.ts';
import { indexOf, itemId, requestIndexOf, SMALL_BODY_BYTES } from '../../src/model/formats.ts';
import { isJsonIndex, isObjectItem, pathOf } from '../../src/model/json/read.ts';
import { otlpRejections } from '../../src/model/otlp/rules.ts';
import type { Rule } from './checks.ts';
import { NATIVE_RULES } from './native.ts';
import { RUN_RULES } from './runs.ts';

/**
 * Decides for every event on its own (spec 4.1): what is wrong with it is its first broken rule. In large
 * batches it gives way to others after a while.
 *
 *   batch ── its index ─┬─ native, runs: an object? ── rules in their order ──┐
 *                       └─ OTLP: ids, attribute sizes ────────────────────────┴─ rejections
 */
export function createProcessor({ clock }: Pick<Settings, 'clock'>): Processor {
  return {
    async start() {},
    async shutdown() {},
    process(batch: Batch): Batch | Promise<Batch> {
      if (batch.kind !== 'raw') return batch;
      const index = indexOf(batch);
      if (!isJsonIndex(index)) {
        reject(batch, otlpRejectionsOf(batch, index));
        return batch;
      }
      if (index.bytes.length <= SMALL_BODY_BYTES) {
        reject(batch, rejectionsOf(batch, index, 0, () => false).rejections);
        return batch;
      }
      return rejectInTurns(batch, index, clock);
    },
  };
}

function otlpRejectionsOf(batch: SealedBatch, index: OtlpIndex): Rejection[] {
  return otlpRejections(index).map((rejection) => ({
    ...rejection,
    index: requestIndexOf(batch, rejection.index),
  }));
}

/** Milliseconds that the rules may take at a time. */
const TURN_MS = 20;

async function rejectInTurns(batch: SealedBatch, index: JsonIndex, clock: Clock): Promise<Batch> {
  for (let from = 0; from < index.count; ) {
    const end = clock.now() + TURN_MS;
    const { rejections, next } = rejectionsOf(batch, index, from, () => clock.now() > end);
    reject(batch, rejections);
    from = next;
    if (from < index.count) await nextTurn();
  }
  return batch;
}

/** Of the items from a position on, until the turn is over. */
function rejectionsOf(
  batch: SealedBatch,
  index: JsonIndex,
  from: number,
  isOver: () => boolean,
): { rejections: Rejection[]; next: number } {
  const rules = index.type === 'native' ? NATIVE_RULES : RUN_RULES;
  const rejections: Rejection[] = [];
  let position = from;
  while (position < index.count) {
    const problem = firstProblem(index, position, rules);
    if (problem !== undefined) {
      const id = itemId(index, position);
      rejections.push({
        index: requestIndexOf(batch, position),
        ...(id === undefined ? {} : { id }),
        ...problem,
      });
    }
    position++;
    if (isOver()) break;
  }
  return { rejections, next: position };
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
