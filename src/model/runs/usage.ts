import type { JsonIndex } from '../batch-index.ts';
import type { IgnoredValues } from '../ignored.ts';
import { membersAt } from '../json/details.ts';
import { COMMON } from '../json/fields.ts';
import { OPEN_BRACE } from '../json/grammar.ts';
import { takeCounts, tokenUsageAt } from '../json/item.ts';
import { placesAt } from '../json/places.ts';
import type { Member } from '../json/read.ts';
import { endOf, findMembers, isPresent, startOf, typeAt } from '../json/read.ts';
import type { TokenUsage } from '../observation.ts';
import { completeUsage, UsageCounts } from '../usage.ts';
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
  const counts = new UsageCounts();
  // An update without a type may be of a chain that returns the answer of a model.
  if (isCall && typeAt(index, position, RUN['outputs.usage']) === 'object') {
    const start = startOf(index, position, RUN['outputs.usage']);
    takeCounts(counts, bytes, start, { ignored, path: 'outputs.usage' }, slot === undefined);
  }
  if (slot === undefined) {
    const answered = counts.usage('anthropic');
    if (answered !== null || !(isCall || mayBeResult(index, position))) return answered;
    return usageOfResult(bytes, membersAt(index, position, COMMON.outputs, OUTPUTS_READ), ignored);
  }
  const path = slot === USAGE_SLOTS[0] ? 'outputs.usage_metadata' : 'extra.metadata.usage_metadata';
  const sent = tokenUsageAt(index, position, slot, 'included', { ignored, path });
  const added = counts.size === 0 ? null : counts.record('included');
  return sent === null && added === null ? null : completeUsage({ ...added, ...sent });
}

/** Hot path: most updates have no type, and to find a member takes longer than to find a text. */
function mayBeResult(index: JsonIndex, position: number): boolean {
  const start = startOf(index, position, COMMON.outputs);
  return index.bytes.subarray(start, endOf(index, position, COMMON.outputs)).includes(GENERATIONS);
}

const GENERATIONS = Buffer.from('"generations"');

export function isModelCall(runType: string | null): boolean {
  return runType !== null && MODEL_RUN_TYPES.has(runType);
}

const MODEL_RUN_TYPES: ReadonlySet<string> = new Set(['llm', 'embedding', 'generation', 'model']);
const USAGE_SLOTS = [RUN['outputs.usage_metadata'], RUN['extra.metadata.usage_metadata']];
const OUTPUTS_READ = ['generations', 'llm_output', 'llmOutput'] as const;

/** Of the messages of all generations for all prompts. */
const USAGE_OF_MESSAGES = ['*', '*', 'message', 'kwargs', 'usage_metadata'];
/** The usage of further generations is not looked at. A call of OpenAI has at most 128 for each prompt. */
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
  for (const start of placesAt(bytes, generations.start, USAGE_OF_MESSAGES, MAX_GENERATIONS)) {
    const path = 'outputs.generations.message.kwargs.usage_metadata';
    const counts = countsAt(bytes, start, { ignored, path });
    for (const [kind, count] of Object.entries(counts)) {
      sums[kind] = Math.min((sums[kind] ?? 0) + count, Number.MAX_SAFE_INTEGER);
    }
  }
  if (Object.keys(sums).length > 0) return completeUsage(sums);
  for (const [output, name] of [
    ['llm_output', 'token_usage'],
    ['llmOutput', 'tokenUsage'],
  ] as const) {
    const notes = { ignored, path: `outputs.${output}.${name}` };
    const result = outputs[output];
    if (result === undefined || bytes[result.start] !== OPEN_BRACE) continue;
    const counts = countsAt(bytes, findMembers(bytes, result.start, [name])[name]?.start, notes);
    if (Object.keys(counts).length > 0) return completeUsage(counts);
  }
  return null;
}

function countsAt(
  bytes: Buffer,
  start: number | undefined,
  notes: { readonly ignored: IgnoredValues; readonly path: string },
): TokenUsage {
  const counts = new UsageCounts();
  if (start !== undefined && bytes[start] === OPEN_BRACE)
    takeCounts(counts, bytes, start, notes, false);
  return counts.record('included');
}
