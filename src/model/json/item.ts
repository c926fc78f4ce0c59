import type { JsonIndex } from '../batch-index.ts';
import { type CustomFieldLayer, mergeCustomFields } from '../custom-fields.ts';
import type { IgnoredValues } from '../ignored.ts';
import { instantFromNumber, instantIn, parseInstant } from '../instant.ts';
import { NARROW_LIMITS } from '../narrow-limits.ts';
import type {
  Instant,
  ObservationError,
  Payload,
  PayloadField,
  TokenUsage,
} from '../observation.ts';
import { PAYLOAD_FIELDS } from '../observation.ts';
import { type CountForm, kindOfCount, nestedKinds, UsageCounts } from '../usage.ts';
import { COMMON, SIZED } from './fields.ts';
import { firstMembersOf } from './first-members.ts';
import { OPEN_BRACE, QUOTE } from './grammar.ts';
import { isId, MAX_ID_BYTES } from './id.ts';
import { narrowStringAt, narrowStringIn } from './narrow.ts';
import {
  endOf,
  findMembers,
  isPresent,
  itemRange,
  lengthAt,
  type Member,
  scalarIn,
  startOf,
  stringAt,
  stringIn,
  textAt,
  typeAt,
  typeOfByte,
} from './read.ts';
import { parseVersion } from './version.ts';

/** Readers of the common fields of native events and runs. */

/** The item's id; `observation_id` takes precedence over `id`. Undefined if it is invalid. */
export function ownId(index: JsonIndex, position: number): string | undefined {
  const slot = idSlot(index, position);
  const length = lengthAt(index, position, slot);
  if (length > LONGEST_ID) return undefined;
  if (length > LONG_ID) return longId(index, position, slot);
  return idIn(index, position, slot);
}

/** Quotes included, an id whose characters are all escapes. A longer one is not decoded. */
const LONGEST_ID = 6 * MAX_ID_BYTES + 2;
/** Longer ids are decoded once for each index. */
const LONG_ID = 512;
const longIds = new WeakMap<JsonIndex, Map<number, string | undefined>>();

function longId(index: JsonIndex, position: number, slot: number): string | undefined {
  const known = longIds.get(index) ?? new Map<number, string | undefined>();
  longIds.set(index, known);
  if (!known.has(position)) known.set(position, idIn(index, position, slot));
  return known.get(position);
}

function idIn(index: JsonIndex, position: number, slot: number): string | undefined {
  const id = stringAt(index, position, slot);
  return id !== undefined && isId(id) ? id : undefined;
}

export function idSlot(index: JsonIndex, position: number): number {
  return isPresent(index, position, COMMON.observation_id) ? COMMON.observation_id : COMMON.id;
}

/** The first string that is not empty. */
export function firstTextAt(
  index: JsonIndex,
  position: number,
  slots: readonly number[],
): string | null {
  for (const slot of slots) {
    const text = narrowStringAt(index, position, slot);
    if (text !== undefined && text !== '') return text;
  }
  return null;
}

/** An optional id; null if it is empty, or longer than any id: the validation processor rejects such items. */
export function idAt(index: JsonIndex, position: number, slot: number): string | null {
  if (lengthAt(index, position, slot) > LONGEST_ID) return null;
  return stringAt(index, position, slot) || null;
}

/** The id of a dropped parent; see `FormatModule.reparent`. */
export function originalParentAt(index: JsonIndex, position: number, slot: number): string | null {
  const id = stringAt(index, position, slot);
  return id !== undefined && isId(id) ? id : null;
}

/** A member of the effective metadata as text: a string's content, otherwise JSON. */
export function metadataText(index: JsonIndex, position: number, key: string): string | undefined {
  const slot = metadataSlot(index, position);
  if (typeAt(index, position, slot) !== 'object') return undefined;
  const { bytes } = index;
  const { [key]: found } = findMembers(bytes, startOf(index, position, slot), [key]);
  if (found === undefined || typeOfByte(bytes[found.start]) === 'null') return undefined;
  return bytes[found.start] === QUOTE
    ? stringIn(bytes, found.start, found.end)
    : bytes.toString('utf8', found.start, found.end);
}

/**
 * An instant as ISO 8601 text. If `isLenient`, also with a space in place of the `T`, or as a number of seconds or milliseconds.
 */
export function instantAt(
  index: JsonIndex,
  position: number,
  slot: number,
  isLenient: boolean,
): Instant | undefined {
  const start = startOf(index, position, slot);
  if (start !== 0 && index.bytes[start] === QUOTE) {
    const end = endOf(index, position, slot);
    const plain = instantIn(index.bytes, start + 1, end - 1, isLenient);
    // A short text that is no instant may still be one that is spelled with escapes.
    if (plain !== undefined || end - start > LONGEST_ESCAPED) return plain;
    return parseInstant(stringIn(index.bytes, start, end), isLenient);
  }
  if (!isLenient || typeAt(index, position, slot) !== 'number') return undefined;
  if (lengthAt(index, position, slot) > LONGEST_ESCAPED) return undefined;
  return instantFromNumber(textAt(index, position, slot) ?? '');
}

/** The longest instant has 56 characters, each of which may be an escape, and two quotes. */
const LONGEST_ESCAPED = 6 * 56 + 2;

/** The event's version in decimal digits; `0` if it has none. */
export function versionAt(index: JsonIndex, position: number): string {
  const text = textAt(index, position, COMMON.event_version);
  return text === undefined ? '0' : (parseVersion(text) ?? '0');
}

/** The slot of the effective metadata: `metadata` if present, else `extra.metadata`. */
export function metadataSlot(index: JsonIndex, position: number): number {
  return isPresent(index, position, COMMON.metadata) ? COMMON.metadata : COMMON['extra.metadata'];
}

function slotOfPayload(index: JsonIndex, position: number, field: PayloadField): number {
  return field === 'metadata' ? metadataSlot(index, position) : COMMON[field];
}

/** `FormatModule.payload`: the received text of every field that is present. */
export function payloadOfItem(
  index: JsonIndex,
  position: number,
  fields: readonly PayloadField[],
): Payload {
  const payload: Payload = {};
  for (const field of fields) {
    const text = textAt(index, position, slotOfPayload(index, position, field));
    if (text !== undefined) payload[field] = text;
  }
  return payload;
}

export function payloadMaskOf(index: JsonIndex, position: number): number {
  let mask = 0;
  for (const [bit, field] of PAYLOAD_FIELDS.entries()) {
    if (isPresent(index, position, slotOfPayload(index, position, field))) mask |= 1 << bit;
  }
  return mask;
}

/** Compact bytes of the five payload fields, of which metadata is the effective metadata. */
export function usageBytesOf(index: JsonIndex, position: number): number {
  let bytes = 0;
  for (let i = 0; i < SIZED_ALONE.length; i += 2) {
    if (!isPresent(index, position, SIZED_ALONE[i] ?? 0)) continue;
    bytes += compactSize(index, position, SIZED_ALONE[i + 1] ?? 0);
  }
  const slot = metadataSlot(index, position);
  if (!isPresent(index, position, slot)) return bytes;
  const place = slot === COMMON.metadata ? SIZED.metadata : SIZED['extra.metadata'];
  return bytes + compactSize(index, position, place);
}

/** Slot and place of the payload fields, except metadata. A flat list: the loop runs for every item of every request. */
const SIZED_ALONE: readonly number[] = PAYLOAD_FIELDS.filter(
  (field) => field !== 'metadata',
).flatMap((field) => [COMMON[field], SIZED[field]]);

/** Compact bytes of the inputs or outputs; undefined if they are absent. */
export function payloadBytes(
  index: JsonIndex,
  position: number,
  field: 'inputs' | 'outputs',
): number | undefined {
  if (!isPresent(index, position, COMMON[field])) return undefined;
  return compactSize(index, position, SIZED[field]);
}

const SIZED_COUNT = Object.keys(SIZED).length;

export function compactSize(index: JsonIndex, position: number, place: number): number {
  return index.sizes[position * SIZED_COUNT + place] ?? 0;
}

/** Bytes of the custom fields of all items: each of their members is decoded, at up to four microseconds. */
export function customFieldBytes(index: JsonIndex): number {
  let bytes = 0;
  for (let position = 0; position < index.count; position++) {
    for (const slot of CUSTOM_FIELD_SLOTS) bytes += lengthAt(index, position, slot);
  }
  return bytes;
}

const CUSTOM_FIELD_SLOTS: readonly number[] = [
  COMMON.custom_fields,
  COMMON['metadata.custom_fields'],
  COMMON['extra.metadata.custom_fields'],
  COMMON['context_metadata.custom_fields'],
];

/** Merged from context metadata, effective metadata and the event itself; later ones win. */
export function customFieldsOf(
  index: JsonIndex,
  position: number,
): Readonly<Record<string, string>> | null {
  const inMetadata =
    metadataSlot(index, position) === COMMON.metadata
      ? COMMON['metadata.custom_fields']
      : COMMON['extra.metadata.custom_fields'];
  const layers: CustomFieldLayer[] = [];
  for (const slot of [COMMON['context_metadata.custom_fields'], inMetadata, COMMON.custom_fields]) {
    if (typeAt(index, position, slot) === 'object') {
      layers.push(scalarMembers(index.bytes, startOf(index, position, slot)));
    }
  }
  return layers.length === 0 ? null : mergeCustomFields(layers);
}

/**
 * Members of the object at `start`. Nested values are undefined, because custom fields ignore them. The keys
 * are not read by JSON.parse, which can confuse keys; see decode.ts.
 */
function* scalarMembers(bytes: Buffer, start: number): Generator<[string, unknown], void> {
  for (const { key, start: at, end } of firstMembersOf(bytes, start, MAX_CUSTOM_FIELDS)) {
    yield [key, scalarIn(bytes, at, end)];
  }
}

/** Not more fit into the limit of all custom fields: each has a name and a value. */
const MAX_CUSTOM_FIELDS = NARROW_LIMITS.CUSTOM_FIELDS / 2;

/** The most token counts of one event; clients send about ten. */
const MAX_COUNTS = 64;

/** The counts of an object of token counts, limited to the names of its first 64 members; null if there are none. */
export function tokenUsageAt(
  index: JsonIndex,
  position: number,
  slot: number,
  form: CountForm,
  notes: Notes,
): TokenUsage | null {
  if (!isPresent(index, position, slot)) return null;
  if (typeAt(index, position, slot) !== 'object') {
    notes.ignored.add(notes.path, 'counts');
    return null;
  }
  const counts = new UsageCounts();
  takeCounts(counts, index.bytes, startOf(index, position, slot), notes);
  return counts.usage(form);
}

/** The place of the ignored values of an object of counts. */
type Notes = { readonly ignored: IgnoredValues; readonly path: string };

/** Adds the counts of the object at `start` and of the known objects in it. Malformed counts of known names are noted. */
export function takeCounts(
  counts: UsageCounts,
  bytes: Buffer,
  start: number,
  notes: Notes,
  keepsUnknown = true,
): void {
  for (const [name, member] of lastMembers(bytes, start)) {
    const nested = nestedKinds(name);
    if (nested !== undefined && bytes[member.start] === OPEN_BRACE) {
      for (const [inner, place] of lastMembers(bytes, member.start)) {
        if (!nested.has(inner)) continue;
        const count = countOrNote(bytes, place, notes, `${name}.${inner}`);
        if (count !== undefined) counts.addNested(nested, inner, count);
      }
      continue;
    }
    const isKnown = nested !== undefined || kindOfCount(name) !== undefined;
    const count = isKnown
      ? countOrNote(bytes, member, notes, name)
      : countIn(bytes, member.start, member.end);
    if (count !== undefined) counts.add(name, count, keepsUnknown);
  }
}

function countOrNote(
  bytes: Buffer,
  { start, end }: Member,
  { ignored, path }: Notes,
  name: string,
): number | undefined {
  const count = countIn(bytes, start, end);
  if (count === undefined && typeOfByte(bytes[start]) !== 'null') {
    ignored.add(`${path}.${name}`, 'count');
  }
  return count;
}

/** The members of an object by name, limited to the names of the first ones. The last value of a repeated key counts. */
function lastMembers(bytes: Buffer, start: number): ReadonlyMap<string, Member> {
  const members = new Map<string, Member>();
  for (const member of firstMembersOf(bytes, start, MAX_COUNTS)) {
    members.set(member.key, member);
  }
  return members;
}

/** Longer spellings of an integer are not parsed. */
const LONGEST_COUNT = 64;

function countIn(bytes: Buffer, start: number, end: number): number | undefined {
  if (typeOfByte(bytes[start]) !== 'number' || end - start > LONGEST_COUNT) return undefined;
  const count = Number(bytes.toString('latin1', start, end));
  return Number.isSafeInteger(count) ? count : undefined;
}

/** The `error` field: a string is its message, an object has a message, a type and a stack trace. */
export function errorAt(index: JsonIndex, position: number): ObservationError | null {
  const type = typeAt(index, position, COMMON.error);
  if (type === 'string') {
    const message = narrowStringAt(index, position, COMMON.error);
    return message === '' ? null : { message: message ?? null, type: null, stacktrace: null };
  }
  if (type !== 'object') return null;
  const { bytes } = index;
  const start = startOf(index, position, COMMON.error);
  const found = findMembers(bytes, start, ['message', 'type', 'stacktrace']);
  return {
    message: textOf(bytes, found.message),
    type: textOf(bytes, found.type),
    stacktrace: textOf(bytes, found.stacktrace),
  };
}

function textOf(bytes: Buffer, member: Member | undefined): string | null {
  if (member === undefined || bytes[member.start] !== QUOTE) return null;
  return narrowStringIn(bytes, member.start, member.end);
}

/** `FormatModule.source`: the received text of the item. */
export function sourceOfItem(index: JsonIndex, position: number): string {
  const [start, end] = itemRange(index, position);
  return index.bytes.toString('utf8', start, end);
}
