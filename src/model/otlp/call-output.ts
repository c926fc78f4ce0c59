import type { CallOutputRule } from '../attributes.ts';
import { decodeCheckedText } from '../json/checked.ts';
import { type SentCount, UsageCounts } from '../usage.ts';
import { MAX_OBJECT_TEXT, membersOfJson, type NoteIgnored, takeMemberCounts } from './objects.ts';

/** The model and the tokens that only the outputs of a model call name; see `CALLS_IN_OUTPUTS`. */
export type CallOutput = {
  readonly model: string | undefined;
  readonly counts: readonly SentCount[];
};

export function callOutputIn(
  text: string,
  { places, usage: names, form }: CallOutputRule,
  countOf: (value: unknown) => number | undefined,
  note: NoteIgnored,
): CallOutput | undefined {
  if (text.length > MAX_OBJECT_TEXT) return undefined;
  const outputs = decodeCheckedText(text);
  for (const place of places) {
    const call = Object.fromEntries(membersOfJson(valueAt(outputs, place)) ?? []);
    const model = typeof call.model === 'string' && call.model !== '' ? call.model : undefined;
    const usage = membersOfJson(call[names.find((name) => Object.hasOwn(call, name)) ?? '']);
    if (usage === undefined && model === undefined) continue;
    const counts = new UsageCounts();
    // Genkit has counts of other names in an object of their own: those of Anthropic's caches.
    const custom = membersOfJson(usage?.find(([name]) => name === 'custom')?.[1]) ?? [];
    takeMemberCounts(counts, [...(usage ?? []), ...custom], countOf, note);
    return { model, counts: counts.counts(form) };
  }
  return undefined;
}

/** The value at a place of members and positions; undefined if a value on the path has none. */
function valueAt(value: unknown, place: readonly string[]): unknown {
  let found = value;
  for (const step of place) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, step))
      return undefined;
    found = (found as Record<string, unknown>)[step];
  }
  return found;
}
