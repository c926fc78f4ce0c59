import type { JsonIndex } from '../../src/model/batch-index.ts';
import { COMMON, MAX_FIELD_BYTES, SIZED, SIZED_FIELDS } from '../../src/model/json/fields.ts';
import { isId, MAX_ID_BYTES } from '../../src/model/json/id.ts';
import { compactSize, idSlot, instantAt, ownId } from '../../src/model/json/item.ts';
import { compilePattern, nodeFor } from '../../src/model/json/pattern.ts';
import {
  endOf,
  isPresent,
  lengthAt,
  startOf,
  stringAt,
  textAt,
  typeAt,
} from '../../src/model/json/read.ts';
import { MAX_SPELLING, parseVersion } from '../../src/model/json/version.ts';
import type { RejectionCode } from '../../src/model/rejection.ts';

/** A broken rule about a field of an item. `reason` continues the field's path and never echoes its value. */
type Problem = {
  readonly code: RejectionCode;
  readonly field: string;
  readonly reason: string;
};
/** One rule about one field of one item. An optional field that is null counts as absent. */
export type Rule = (index: JsonIndex, position: number) => Problem | undefined;

/** The place of a field: its path and slot. A field with several names has its place per item. */
export type FieldAt = (index: JsonIndex, position: number) => Named;
export type Named = { readonly name: string; readonly slot: number };

const ID: Named = { name: 'id', slot: COMMON.id };
const OBSERVATION_ID: Named = { name: 'observation_id', slot: COMMON.observation_id };

/** `observation_id` wins over `id`. */
export const itemIdField: FieldAt = (index, position) =>
  idSlot(index, position) === COMMON.id ? ID : OBSERVATION_ID;

export function requiredId(field: FieldAt): Rule {
  return (index, position) => {
    const { name, slot } = field(index, position);
    if (!isPresent(index, position, slot)) return missing(name);
    return isIdAt(index, position, slot) ? undefined : invalid(name, ID_RULE);
  };
}

/** An optional id; an empty one counts as absent. */
export function optionalId(field: FieldAt): Rule {
  return (index, position) => {
    const { name, slot } = field(index, position);
    if (!isPresent(index, position, slot) || isIdAt(index, position, slot)) return undefined;
    return stringAt(index, position, slot) === '' ? undefined : invalid(name, ID_RULE);
  };
}

const ID_RULE = `must be a non-empty string of at most ${MAX_ID_BYTES} bytes, well-formed and without NUL`;

/** Without escapes the bytes themselves are the id: valid UTF-8, so neither NUL nor half a pair. */
function isIdAt(index: JsonIndex, position: number, slot: number): boolean {
  const start = startOf(index, position, slot);
  if (index.bytes[start] !== 0x22) return false;
  const end = endOf(index, position, slot);
  const length = end - start - 2;
  // An escape has at most six bytes per byte of the id.
  if (length > 6 * MAX_ID_BYTES) return false;
  if (!hasEscapes(index, start, end)) return length > 0 && length <= MAX_ID_BYTES;
  // The answer needs the item's own id, too: it is decoded once.
  if (slot === idSlot(index, position)) return ownId(index, position) !== undefined;
  return isId(stringAt(index, position, slot) ?? '');
}

function hasEscapes(index: JsonIndex, start: number, end: number): boolean {
  const { bytes } = index;
  for (let at = start; at < end; at++) {
    if (bytes[at] === 0x5c) return true;
  }
  return false;
}

/** A required member of a closed list. */
export function requiredMember(field: FieldAt, members: readonly string[]): Rule {
  const table = compilePattern(members, []).root;
  const rule = `must be one of ${members.join(', ')}`;
  return (index, position) => {
    const { name, slot } = field(index, position);
    if (!isPresent(index, position, slot)) return missing(name);
    if (typeAt(index, position, slot) !== 'string') return invalid(name, rule);
    const start = startOf(index, position, slot) + 1;
    if (nodeFor(table, index.bytes, start, endOf(index, position, slot) - 1)) return undefined;
    // The member may be spelled with escapes; every member is short.
    const isShort = endOf(index, position, slot) - start <= 128;
    const text = isShort ? stringAt(index, position, slot) : undefined;
    return text !== undefined && members.includes(text) ? undefined : invalid(name, rule);
  };
}

export function optionalString(name: string, slot: number): Rule {
  return (index, position) =>
    !isPresent(index, position, slot) || typeAt(index, position, slot) === 'string'
      ? undefined
      : invalid(name, 'must be a string');
}

export function optionalInstant(name: string, slot: number): Rule {
  return (index, position) => {
    if (!isPresent(index, position, slot)) return undefined;
    return instantAt(index, position, slot, false) === undefined
      ? invalid(name, 'must be an ISO 8601 date and time')
      : undefined;
  };
}

export const eventVersion: Rule = (index, position) => {
  if (isSmallInteger(index, position, COMMON.event_version)) return undefined;
  if (!isPresent(index, position, COMMON.event_version)) return undefined;
  // Avoids decoding a long text only to refuse it.
  const isShort = lengthAt(index, position, COMMON.event_version) <= MAX_SPELLING;
  const text = isShort ? textAt(index, position, COMMON.event_version) : undefined;
  if (text !== undefined && parseVersion(text) !== undefined) return undefined;
  return invalid('event_version', 'must be an integer from 0 through 18446744073709551615');
};

/** An object, or absent. */
export function optionalObject(name: string, slot: number): Rule {
  return (index, position) =>
    !isPresent(index, position, slot) || typeAt(index, position, slot) === 'object'
      ? undefined
      : invalid(name, 'must be an object');
}

/** A number of integral value that a double holds exactly. */
export function optionalInteger(name: string, slot: number): Rule {
  return (index, position) => {
    if (!isPresent(index, position, slot) || isSmallInteger(index, position, slot))
      return undefined;
    const isNumber =
      typeAt(index, position, slot) === 'number' && lengthAt(index, position, slot) <= MAX_SPELLING;
    const value = isNumber ? Number(textAt(index, position, slot)) : Number.NaN;
    return Number.isSafeInteger(value) ? undefined : invalid(name, 'must be an integer');
  };
}

/** The common case, checked without building a string: only digits, at most 15. */
export function isSmallInteger(index: JsonIndex, position: number, slot: number): boolean {
  const start = startOf(index, position, slot);
  const end = endOf(index, position, slot);
  if (start === end || end - start > 15) return false;
  for (let at = start; at < end; at++) {
    const byte = index.bytes[at] ?? 0;
    if (byte < 0x30 || byte > 0x39) return false;
  }
  return true;
}

/** Spec 8: exactly 4 MiB of compact JSON is accepted. */
export const fieldSizes: Rule = (index, position) => {
  for (const field of SIZED_FIELDS) {
    if (compactSize(index, position, SIZED[field]) <= MAX_FIELD_BYTES) continue;
    const reason = 'is larger than 4 MiB as compact JSON';
    return { code: 'payload_too_large', field, reason };
  }
  return undefined;
};

function missing(field: string): Problem {
  return { code: 'missing_field', field, reason: 'is required' };
}

function invalid(field: string, reason: string): Problem {
  return { code: 'invalid_field', field, reason };
}
