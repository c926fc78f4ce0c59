import type { JsonIndex } from '../batch-index.ts';
import type { Cost, ObservationDetails } from '../details.ts';
import { clipped, detailsOf, nanosOfUsd, sentCost } from '../details.ts';
import type { IgnoredValues } from '../ignored.ts';
import { costIn, detailScalar, detailText, membersAt, numberIn, tagsIn } from '../json/details.ts';
import { metadataSlot, payloadBytes } from '../json/item.ts';
import { narrowStringAt } from '../json/narrow.ts';
import type { Member } from '../json/read.ts';
import { endOf, isPresent, startOf, typeAt } from '../json/read.ts';
import { NATIVE } from './fields.ts';

/** Members of the metadata that give a detail which the event itself lacks. */
const IN_METADATA = ['environment', 'release', 'tags', 'prompt_name', 'prompt_version'] as const;

/** The details of a native event. */
export function nativeDetails(
  index: JsonIndex,
  position: number,
  ignored: IgnoredValues,
): ObservationDetails | null {
  const { bytes } = index;
  const inMetadata = membersAt(index, position, metadataSlot(index, position), IN_METADATA);
  const prompt = membersAt(index, position, NATIVE.prompt, ['name', 'version']);
  const own = (slot: number) => clipped(narrowStringAt(index, position, slot));
  const ownTags = memberAt(index, position, NATIVE.tags);
  const tags = ownTags ?? inMetadata.tags;
  return detailsOf({
    provider: own(NATIVE.provider),
    environment: own(NATIVE.environment) ?? detailText(bytes, inMetadata.environment),
    release: own(NATIVE.release) ?? detailText(bytes, inMetadata.release),
    tags: tags === undefined ? undefined : tagsIn(bytes, tags.start, ownTags && ignored),
    promptName: detailText(bytes, prompt.name) ?? detailText(bytes, inMetadata.prompt_name),
    promptVersion:
      detailScalar(bytes, prompt.version) ?? detailScalar(bytes, inMetadata.prompt_version),
    ttftMs: ttftAt(index, position, ignored),
    cost: costAt(index, position, ignored),
    inputBytes: payloadBytes(index, position, 'inputs'),
    outputBytes: payloadBytes(index, position, 'outputs'),
    ignored: ignored.list,
  });
}

function memberAt(index: JsonIndex, position: number, slot: number): Member | undefined {
  if (!isPresent(index, position, slot)) return undefined;
  return { key: '', start: startOf(index, position, slot), end: endOf(index, position, slot) };
}

function ttftAt(index: JsonIndex, position: number, ignored: IgnoredValues): number | undefined {
  const member = memberAt(index, position, NATIVE.ttft_ms);
  if (member === undefined) return undefined;
  const ms = numberIn(index.bytes, member);
  if (ms !== undefined && ms >= 0) return ms;
  ignored.add('ttft_ms', 'duration');
  return undefined;
}

/** A number is the total, an object has parts; in USD. */
function costAt(index: JsonIndex, position: number, ignored: IgnoredValues): Cost | undefined {
  const member = memberAt(index, position, NATIVE.cost);
  if (member === undefined) return undefined;
  const wrong: string[] = [];
  const cost = costOf(index, position, member, (part) => wrong.push(part));
  if (cost === undefined) ignored.add('cost', 'amount');
  else for (const part of wrong) ignored.add(`cost.${part}`, 'amount');
  return cost;
}

function costOf(
  index: JsonIndex,
  position: number,
  member: Member,
  note: (part: string) => void,
): Cost | undefined {
  if (typeAt(index, position, NATIVE.cost) === 'number') {
    return sentCost({ total: nanosOfUsd(numberIn(index.bytes, member)) });
  }
  const found = membersAt(index, position, NATIVE.cost, ['input', 'output', 'total']);
  const { input, output, total } = found;
  return costIn(index.bytes, { input, output, total }, note);
}
