import type { IgnoredReason } from '../ignored.ts';
import { decodeCheckedText } from '../json/checked.ts';
import { firstMembersOf } from '../json/first-members.ts';
import { numberMembersOf } from '../json/flat.ts';
import { OPEN_BRACE, spaceFrom, textOf } from '../json/grammar.ts';
import { pythonToJson } from '../json/python.ts';
import { scalarIn } from '../json/read.ts';
import { checkJson } from '../json/scan.ts';
import { kindOfCount, nestedKinds, type UsageCounts } from '../usage.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { scalarOf } from './value.ts';

/** Objects in attributes: JSON in a text, or a kvlist. */

/** The members of an object; a member that is an object is read by `nestedMembers`. */
export type ObjectMembers = readonly (readonly [name: string, value: unknown])[];

/** A longer text gives no members, counts, amounts or tags: to read one as long as a body would hold the event loop up. */
export const MAX_OBJECT_TEXT = 1_048_576;

/** The members of an attribute's object; undefined for any other value. */
export function membersOfValue(value: OtlpValue | undefined): ObjectMembers | undefined {
  const text = value?.stringValue;
  if (typeof text !== 'string') return membersOfList(value);
  if (text.length > MAX_OBJECT_TEXT) return undefined;
  return numberMembersOf(text) ?? membersOfText(text);
}

/** JSON.parse takes a microsecond for each new name, of which a longer text may have 100,000. */
const SHORT_TEXT = 512;
/** The most members of an object in a longer text. */
const MAX_MEMBERS = 256;

function membersOfText(text: string): ObjectMembers | undefined {
  if (text.length <= SHORT_TEXT) return membersOfJson(decodeCheckedText(text));
  const bytes = checkedBytes(text);
  return bytes && jsonMembersAt(bytes, spaceFrom(textOf(bytes), 0));
}

/** The bytes of a JSON text; undefined if it is no JSON, or nested too deeply. */
export function checkedBytes(text: string): Buffer | undefined {
  const bytes = Buffer.from(text);
  try {
    checkJson(bytes);
    return bytes;
  } catch {
    return undefined;
  }
}

/** The first members of the object at `start`; undefined for any other value. */
export function jsonMembersAt(bytes: Buffer, start: number): ObjectMembers | undefined {
  return bytes[start] === OPEN_BRACE ? membersIn(bytes, start, true) : undefined;
}

/** The first members of the object at `start`. Only objects whose counts are known are read within it. */
function membersIn(bytes: Buffer, start: number, mayNest: boolean): ObjectMembers {
  const members = new Map<string, unknown>();
  for (const { key, start: at, end } of firstMembersOf(bytes, start, MAX_MEMBERS)) {
    const isNested = mayNest && bytes[at] === OPEN_BRACE && nestedKinds(key) !== undefined;
    const value = isNested ? membersIn(bytes, at, false) : scalarIn(bytes, at, end);
    // PHP sends an empty object as an empty array.
    members.set(key, value === undefined ? (end - at === EMPTY ? [] : UNREAD) : value);
  }
  return [...members];
}

/** The length of `[]`. */
const EMPTY = 2;
/** In place of an object or array of no known meaning. It is no object of counts. */
const UNREAD = [null];

function membersOfList(value: OtlpValue | null | undefined): ObjectMembers | undefined {
  return value?.kvlistValue?.values?.map(memberOf);
}

function memberOf({ key, value }: OtlpKeyValue): readonly [string, unknown] {
  return [key ?? '', membersOfList(value) ?? scalarOf(value)];
}

/** The members of a decoded object; undefined for any other value. */
function membersOfJson(value: unknown): ObjectMembers | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return Object.entries(value);
}

/** The members of a member; undefined for a scalar. */
export function nestedMembers(member: unknown): ObjectMembers | undefined {
  if (typeof member !== 'object') return undefined;
  return isMembers(member) ? member : membersOfJson(member);
}

/** An object as Python prints it: `{'prompt_tokens': 21, 'cost': 2e-05, 'prompt_tokens_details': {'cached_tokens': None}}`. */
function membersOfPython(value: OtlpValue | undefined): ObjectMembers | undefined {
  const text = value?.stringValue;
  if (typeof text !== 'string' || text.length > MAX_OBJECT_TEXT) return undefined;
  const bytes = Buffer.from(text);
  return pythonToJson(bytes) ? membersOfText(bytes.toString()) : undefined;
}

/** Notes that a value, or a member of it, is malformed. */
export type NoteIgnored = (reason: IgnoredReason, member?: string) => void;

/** Adds the known counts of an attribute's object and of the objects in it. */
export function takeAttributeCounts(
  counts: UsageCounts,
  value: OtlpValue | undefined,
  within: string | undefined,
  countOf: (value: unknown) => number | undefined,
  note: NoteIgnored,
): void {
  const sent = membersOfValue(value) ?? membersOfPython(value);
  const members: ObjectMembers | undefined =
    within === undefined || sent === undefined ? sent : [[within, sent]];
  if (members === undefined) note('counts');
  takeMemberCounts(counts, members ?? [], countOf, note);
}

/** Adds the known counts among members and in the objects in them. */
export function takeMemberCounts(
  counts: UsageCounts,
  members: ObjectMembers,
  countOf: (value: unknown) => number | undefined,
  note: NoteIgnored,
): void {
  for (const [name, member] of members) {
    const kinds = nestedKinds(name);
    const nested = kinds === undefined ? undefined : nestedMembers(member);
    if (kinds !== undefined && nested !== undefined) {
      for (const [inner, innerValue] of nested) {
        const count = countOf(innerValue);
        if (count !== undefined) counts.addNested(kinds, inner, count);
        else if (innerValue !== null && kinds.has(inner)) note('count', `${name}.${inner}`);
      }
      continue;
    }
    const isCount = kinds === undefined || kindOfCount(name) !== undefined;
    const count = isCount ? countOf(member) : undefined;
    if (count !== undefined) counts.add(name, count, false);
    else if (member !== null && !isCount) note('counts', name);
    else if (member !== null && kindOfCount(name) !== undefined) note('count', name);
  }
}

function isMembers(value: unknown): value is ObjectMembers {
  return Array.isArray(value) && value.every((member) => Array.isArray(member));
}

/** A JSON string without escapes. */
const PLAIN_STRING = /^"[^"\\\p{Cc}]*"$/u;

/** The content of a text that is a JSON string, as MLflow sends names; any other text as it is. */
export function unquoted(text: string): string {
  if (text.length < 2 || !text.startsWith('"') || !text.endsWith('"')) return text;
  if (PLAIN_STRING.test(text)) return text.slice(1, -1);
  const content = decodeCheckedText(text);
  return typeof content === 'string' ? content : text;
}
