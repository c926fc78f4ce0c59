import type { JsonIndex } from '../batch-index.ts';
import type { IgnoredValues } from '../ignored.ts';
import { membersAt } from '../json/details.ts';
import { COMMON } from '../json/fields.ts';
import { OPEN_BRACE } from '../json/grammar.ts';
import { takeCounts, tokenUsageAt } from '../json/item.ts';
import type { Member } from '../json/read.ts';
import { elementsOf, findMembers, isPresent } from '../json/read.ts';
import type { TokenUsage } from '../observation.ts';
import { UsageCounts, withTotal } from '../usage.ts';
import { RUN } from './fields.ts';

/**
 * Only model calls have usage: LangSmith's clients repeat the sums of child runs on their parents, which would
 * count them twice. The usage that a provider answered adds the kinds that the clients leave out.
 */
export function usageOf(
  index: JsonIndex,
  position: number,
  runType: string | null,
  ignored: IgnoredValues,
): TokenUsage | null {
  if (runType !== null && !isModelCall(runType)) return null;
  const { bytes } = index;
  const slot = USAGE_SLOTS.find((slot) => isPresent(index, position, slot));
  const isCall = isModelCall(runType);
  // Finding members reads all outputs.
  const outputs =
    isCall || slot === undefined ? membersAt(index, position, COMMON.outputs, OUTPUTS_READ) : {};
  // An update without a type may be of a chain that returns the answer of a model.
  const answered = isCall ? outputs.usage : undefined;
  const counts = new UsageCounts();
  if (answered !== undefined && bytes[answered.start] === OPEN_BRACE) {
    const notes = { ignored, path: 'outputs.usage' };
    takeCounts(counts, bytes, answered.start, notes, slot === undefined);
  }
  if (slot === undefined) {
    return counts.usage('anthropic') ?? usageOfResult(bytes, outputs, ignored);
  }
  const path = slot === USAGE_SLOTS[0] ? 'outputs.usage_metadata' : 'extra.metadata.usage_metadata';
  const sent = tokenUsageAt(index, position, slot, 'included', { ignored, path });
  const added = counts.size === 0 ? null : counts.record('included');
  return sent === null && added === null ? null : withTotal({ ...added, ...sent });
}

export function isModelCall(runType: string | null): boolean {
  return runType !== null && MODEL_RUN_TYPES.has(runType);
}

const MODEL_RUN_TYPES: ReadonlySet<string> = new Set(['llm', 'embedding', 'generation', 'model']);
const USAGE_SLOTS = [RUN['outputs.usage_metadata'], RUN['extra.metadata.usage_metadata']];
const OUTPUTS_READ = ['usage', 'generations', 'llm_output', 'llmOutput'] as const;

/** Further generations are not looked at. A call of OpenAI has at most 128 for each prompt. */
const MAX_GENERATIONS = 1000;

/**
 * The usage in a result of LangChain, the only place that older versions have it in: that of its messages, else that of the model. Only
 * model calls have such a result, so it also counts in an update without a type.
 *
 *   {"generations":[[{"message":{"kwargs":{"usage_metadata":{…}}}}]],"llm_output":{"token_usage":{…}}}
 */
function usageOfResult(
  bytes: Buffer,
  { generations, ...outputs }: Partial<Record<(typeof OUTPUTS_READ)[number], Member>>,
  ignored: IgnoredValues,
): TokenUsage | null {
  if (generations === undefined) return null;
  const sums: Record<string, number> = {};
  for (const start of generationsIn(bytes, generations.start)) {
    const message = objectIn(bytes, start, 'message');
    const fields = objectIn(bytes, message, 'kwargs');
    const path = 'outputs.generations.message.kwargs.usage_metadata';
    const counts = countsAt(bytes, objectIn(bytes, fields, 'usage_metadata'), { ignored, path });
    for (const [kind, count] of Object.entries(counts)) {
      sums[kind] = Math.min((sums[kind] ?? 0) + count, Number.MAX_SAFE_INTEGER);
    }
  }
  if (Object.keys(sums).length > 0) return withTotal(sums);
  for (const [output, name] of [
    ['llm_output', 'token_usage'],
    ['llmOutput', 'tokenUsage'],
  ] as const) {
    const notes = { ignored, path: `outputs.${output}.${name}` };
    const counts = countsAt(bytes, objectIn(bytes, outputs[output]?.start, name), notes);
    if (Object.keys(counts).length > 0) return withTotal(counts);
  }
  return null;
}

/** The starts of the generations of all prompts. */
function* generationsIn(bytes: Buffer, start: number): Generator<number, void> {
  let read = 0;
  for (const ofPrompt of elementsOf(bytes, start)) {
    for (const generation of elementsOf(bytes, ofPrompt.start)) {
      if (read++ === MAX_GENERATIONS) return;
      yield generation.start;
    }
  }
}

/** The start of a member that is an object; undefined for any other, and if `start` is not that of an object. */
function objectIn(bytes: Buffer, start: number | undefined, name: string): number | undefined {
  if (start === undefined || bytes[start] !== OPEN_BRACE) return undefined;
  const member = findMembers(bytes, start, [name])[name];
  return member !== undefined && bytes[member.start] === OPEN_BRACE ? member.start : undefined;
}

function countsAt(
  bytes: Buffer,
  start: number | undefined,
  notes: { readonly ignored: IgnoredValues; readonly path: string },
): TokenUsage {
  const counts = new UsageCounts();
  if (start !== undefined) takeCounts(counts, bytes, start, notes, false);
  return counts.record('included');
}
