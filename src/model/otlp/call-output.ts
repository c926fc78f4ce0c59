import type { CallOutputRule } from '../attributes.ts';
import {
  CLOSE_BRACKET,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  spaceFrom,
  textOf,
} from '../json/grammar.ts';
import { findMembers, type Member, stringIn } from '../json/read.ts';
import { type SentCount, UsageCounts } from '../usage.ts';
import {
  checkedBytes,
  jsonMembersAt,
  MAX_OBJECT_TEXT,
  type NoteIgnored,
  takeMemberCounts,
} from './objects.ts';

/** The model and the tokens that only the outputs of a model call name; see `CALLS_IN_OUTPUTS`. */
export type CallOutput = {
  readonly model: string | undefined;
  readonly counts: readonly SentCount[];
};

/** The outputs are read as bytes: they may have 100,000 names, and JSON.parse takes a microsecond for each. */
export function callOutputIn(
  text: string,
  { places, usage: names, form }: CallOutputRule,
  countOf: (value: unknown) => number | undefined,
  note: NoteIgnored,
): CallOutput | undefined {
  const bytes = text.length > MAX_OBJECT_TEXT ? undefined : checkedBytes(text);
  if (bytes === undefined) return undefined;
  for (const place of places) {
    const call = placeOf(bytes, place);
    if (bytes[call] !== OPEN_BRACE) continue;
    const found = findMembers(bytes, call, [MODEL, ...names]);
    const model = modelIn(bytes, found[MODEL]);
    const usageAt = found[names.find((name) => found[name] !== undefined) ?? '']?.start ?? NOWHERE;
    const usage = jsonMembersAt(bytes, usageAt);
    if (usage === undefined && model === undefined) continue;
    const counts = new UsageCounts();
    // Genkit has counts of other names in an object of their own: those of Anthropic's caches.
    const customAt = usage && findMembers(bytes, usageAt, ['custom']).custom?.start;
    const custom = jsonMembersAt(bytes, customAt ?? NOWHERE) ?? [];
    takeMemberCounts(counts, [...(usage ?? []), ...custom], countOf, note);
    return { model, counts: counts.counts(form) };
  }
  return undefined;
}

const MODEL = 'model';
/** The place of a value that is absent. */
const NOWHERE = -1;

function modelIn(bytes: Buffer, member: Member | undefined): string | undefined {
  if (member === undefined || bytes[member.start] !== QUOTE) return undefined;
  return stringIn(bytes, member.start, member.end) || undefined;
}

/** The start of the value at a path of members, and of `0` for the first element of an array. */
function placeOf(bytes: Buffer, path: readonly string[]): number {
  const text = textOf(bytes);
  let at = spaceFrom(text, 0);
  for (const step of path) {
    if (bytes[at] === OPEN_BRACE) {
      at = findMembers(bytes, at, [step])[step]?.start ?? NOWHERE;
    } else if (bytes[at] === OPEN_BRACKET && step === '0') {
      at = spaceFrom(text, at + 1);
      if (bytes[at] === CLOSE_BRACKET) return NOWHERE;
    } else return NOWHERE;
  }
  return at;
}
