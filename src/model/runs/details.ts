import type { JsonIndex } from '../batch-index.ts';
import type { Cost, ObservationDetails } from '../details.ts';
import { detailsOf, millisecondsBetween } from '../details.ts';
import type { IgnoredValues } from '../ignored.ts';
import { instantIn } from '../instant.ts';
import { costIn, detailScalar, detailText, membersAt, tagsIn } from '../json/details.ts';
import { COMMON } from '../json/fields.ts';
import { OPEN_BRACE, QUOTE } from '../json/grammar.ts';
import { metadataSlot, payloadBytes } from '../json/item.ts';
import type { Member } from '../json/read.ts';
import { elementsOf, findMembers, isPresent, startOf, stringIn, typeOfByte } from '../json/read.ts';
import type { Instant } from '../observation.ts';
import { isSentTwice, TRACING_VARIABLES } from '../sent-twice.ts';
import { attachmentsOf } from './attached.ts';
import { RUN } from './fields.ts';

const IN_METADATA = [
  ...(['environment', 'release', 'tags', 'prompt_name', 'prompt_version'] as const),
  ...(['ls_provider', 'usage_metadata'] as const),
  ...TRACING_VARIABLES,
] as const;

type RunMetadata = Partial<Record<(typeof IN_METADATA)[number], Member>>;

/** The members of a run's metadata that its details and `isRunSentTwice` read. */
export function runMetadata(index: JsonIndex, position: number): RunMetadata {
  return membersAt(index, position, metadataSlot(index, position), IN_METADATA);
}

/** Whether the client sends the run as a span too. */
export function isRunSentTwice({ bytes }: JsonIndex, metadata: RunMetadata): boolean {
  const { LANGSMITH_OTEL_ENABLED: enabled, LANGSMITH_TRACING_MODE: mode } = metadata;
  if (enabled === undefined && mode === undefined) return false;
  return isSentTwice({
    LANGSMITH_OTEL_ENABLED: detailText(bytes, enabled),
    LANGSMITH_OTEL_ONLY: detailText(bytes, metadata.LANGSMITH_OTEL_ONLY),
    LANGSMITH_TRACING_MODE: detailText(bytes, mode),
  });
}

const COSTS = ['input_cost', 'output_cost', 'total_cost'] as const;

/** The details of a run; `start` is its start, and `inMetadata` its `runMetadata`. */
export function runDetails(
  index: JsonIndex,
  position: number,
  start: Instant | null,
  inMetadata: RunMetadata,
  ignored: IgnoredValues,
): ObservationDetails | null {
  const { bytes } = index;
  const hasTags = isPresent(index, position, RUN.tags);
  const tags = hasTags ? startOf(index, position, RUN.tags) : inMetadata.tags?.start;
  const attachments = attachmentsOf(index, position, ignored);
  return detailsOf({
    provider: detailText(bytes, inMetadata.ls_provider),
    environment: detailText(bytes, inMetadata.environment),
    release: detailText(bytes, inMetadata.release),
    tags: tags === undefined ? undefined : tagsIn(bytes, tags, hasTags ? ignored : undefined),
    promptName: detailText(bytes, inMetadata.prompt_name),
    promptVersion: detailScalar(bytes, inMetadata.prompt_version),
    ttftMs: millisecondsBetween(start, firstTokenAt(index, position)),
    cost: costAt(index, position, inMetadata.usage_metadata, ignored),
    inputBytes: payloadBytes(index, position, 'inputs'),
    outputBytes: payloadBytes(index, position, 'outputs'),
    ignored: ignored.list,
    attachments,
  });
}

function costAt(
  index: JsonIndex,
  position: number,
  inMetadata: Member | undefined,
  ignored: IgnoredValues,
): Cost | undefined {
  const { bytes } = index;
  let path = 'outputs.usage_metadata';
  let found = sentAmounts(bytes, membersAt(index, position, RUN['outputs.usage_metadata'], COSTS));
  const isEmpty = Object.keys(found).length === 0;
  if (isEmpty && inMetadata !== undefined && bytes[inMetadata.start] === OPEN_BRACE) {
    path = 'extra.metadata.usage_metadata';
    found = sentAmounts(bytes, findMembers(bytes, inMetadata.start, COSTS));
  }
  const { input_cost: input, output_cost: output, total_cost: total } = found;
  return costIn(bytes, { input, output, total }, (part) =>
    ignored.add(`${path}.${part}_cost`, 'amount'),
  );
}

type Amounts = Partial<Record<(typeof COSTS)[number], Member>>;

/** Clients send null for an unknown amount. */
function sentAmounts(bytes: Buffer, found: Amounts): Amounts {
  const sent: Amounts = {};
  for (const name of COSTS) {
    const member = found[name];
    if (member !== undefined && typeOfByte(bytes[member.start]) !== 'null') sent[name] = member;
  }
  return sent;
}

/** Later events of a run are not looked at. */
const EVENTS_READ = 16;

/** The time of the first `new_token` event, which LangSmith's clients send for streamed answers. */
function firstTokenAt(index: JsonIndex, position: number): Instant | undefined {
  const { bytes } = index;
  if (!isPresent(index, position, COMMON.events)) return undefined;
  let read = 0;
  for (const { start } of elementsOf(bytes, startOf(index, position, COMMON.events))) {
    if (read++ === EVENTS_READ) break;
    if (bytes[start] !== OPEN_BRACE) continue;
    const { name, time } = findMembers(bytes, start, ['name', 'time']);
    if (!isText(bytes, name) || !isText(bytes, time)) continue;
    if (stringIn(bytes, name.start, name.end) !== 'new_token') continue;
    return instantIn(bytes, time.start + 1, time.end - 1, true);
  }
  return undefined;
}

function isText(bytes: Buffer, member: Member | undefined): member is Member {
  return member !== undefined && bytes[member.start] === QUOTE;
}
