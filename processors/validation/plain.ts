import type { JsonIndex } from '../../src/model/batch-index.ts';
import { instantIn } from '../../src/model/instant.ts';
import { COMMON, MAX_FIELD_BYTES } from '../../src/model/json/fields.ts';
import { BACKSLASH, QUOTE } from '../../src/model/json/grammar.ts';
import { idSlot } from '../../src/model/json/item.ts';
import { compilePattern, type KeyTable, nodeFor } from '../../src/model/json/pattern.ts';
import { endOf, isPresent, itemRange, startOf, typeAt } from '../../src/model/json/read.ts';
import { NATIVE } from '../../src/model/native/fields.ts';
import { kindSlot, parentSlot } from '../../src/model/native/format.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
} from '../../src/model/observation.ts';
import { RUN } from '../../src/model/runs/fields.ts';
import { isSmallInteger } from './checks.ts';

/**
 * Hot path: items whose fields all have their usual form, in which they break no rule. The rules judge any other item, valid or not,
 * and only they say what is wrong. Both pass over a plain item alike: the rules take four times as long.
 */
export function isPlainEvent(index: JsonIndex, position: number): boolean {
  return (
    isPlainId(index, position, idSlot(index, position)) &&
    isPlainId(index, position, COMMON.trace_id) &&
    isMember(index, position, NATIVE.operation, OPERATIONS) &&
    isMember(index, position, kindSlot(index, position), KINDS) &&
    isMember(index, position, NATIVE.status, STATUSES) &&
    isPlainInstant(index, position, COMMON.start_time) &&
    isPlainInstant(index, position, COMMON.end_time) &&
    isPlainInteger(index, position, COMMON.event_version) &&
    isStringOrAbsent(index, position, COMMON.name) &&
    isPlainIdOrAbsent(index, position, parentSlot(index, position)) &&
    isObjectOrAbsent(index, position, NATIVE.usage) &&
    isPlainInteger(index, position, NATIVE['usage.input_tokens']) &&
    isPlainInteger(index, position, NATIVE['usage.output_tokens']) &&
    isSmall(index, position)
  );
}

export function isPlainRun(index: JsonIndex, position: number): boolean {
  return (
    isPlainId(index, position, idSlot(index, position)) &&
    isPlainIdOrAbsent(index, position, COMMON.trace_id) &&
    isPlainIdOrAbsent(index, position, RUN.parent_run_id) &&
    isStringOrAbsent(index, position, COMMON.name) &&
    isStringOrAbsent(index, position, COMMON.run_type) &&
    isPlainInteger(index, position, COMMON.event_version) &&
    isSmall(index, position)
  );
}

const OPERATIONS = compilePattern(OBSERVATION_OPERATIONS, []).root;
const KINDS = compilePattern(OBSERVATION_KINDS, []).root;
const STATUSES = compilePattern(OBSERVATION_STATUSES, []).root;

/** Longer ids are left to the rules. */
const PLAIN_ID_BYTES = 256;

/** A short string without escapes. */
function isPlainId(index: JsonIndex, position: number, slot: number): boolean {
  const { bytes } = index;
  const start = startOf(index, position, slot);
  const end = endOf(index, position, slot);
  const length = end - start - 2;
  if (bytes[start] !== QUOTE || length <= 0 || length > PLAIN_ID_BYTES) return false;
  for (let at = start + 1; at < end; at++) if (bytes[at] === BACKSLASH) return false;
  return true;
}

function isPlainIdOrAbsent(index: JsonIndex, position: number, slot: number): boolean {
  return !isPresent(index, position, slot) || isPlainId(index, position, slot);
}

function isMember(index: JsonIndex, position: number, slot: number, members: KeyTable): boolean {
  const { bytes } = index;
  const start = startOf(index, position, slot);
  if (bytes[start] !== QUOTE) return false;
  return nodeFor(members, bytes, start + 1, endOf(index, position, slot) - 1) !== undefined;
}

function isPlainInstant(index: JsonIndex, position: number, slot: number): boolean {
  if (!isPresent(index, position, slot)) return true;
  const start = startOf(index, position, slot);
  if (index.bytes[start] !== QUOTE) return false;
  const end = endOf(index, position, slot) - 1;
  return (
    isUsual(index.bytes, start + 1, end) || instantIn(index.bytes, start + 1, end) !== undefined
  );
}

/** An instant as clients write it: `YYYY-MM-DDThh:mm:ss.ffffffZ`, on a day that every month has. */
function isUsual(bytes: Buffer, start: number, end: number): boolean {
  const length = end - start;
  if (length < 20 || length > 30 || bytes[end - 1] !== LETTER_Z) return false;
  if (bytes[start + 4] !== MINUS || bytes[start + 7] !== MINUS) return false;
  if (bytes[start + 10] !== LETTER_T || bytes[start + 13] !== COLON) return false;
  if (bytes[start + 16] !== COLON) return false;
  const century = pairIn(bytes, start);
  const ofCentury = pairIn(bytes, start + 2);
  const month = pairIn(bytes, start + 5);
  const day = pairIn(bytes, start + 8);
  if (!(century >= 1 && ofCentury >= 0 && month >= 1 && month <= 12)) return false;
  if (!(day >= 1 && day <= 28)) return false;
  const hour = pairIn(bytes, start + 11);
  const minute = pairIn(bytes, start + 14);
  const second = pairIn(bytes, start + 17);
  if (!(hour >= 0 && hour <= 23 && minute >= 0 && minute <= 59)) return false;
  if (!(second >= 0 && second <= 59)) return false;
  if (length === 20) return true;
  if (bytes[start + 19] !== DOT || length === 21) return false;
  for (let at = start + 20; at < end - 1; at++) if (digitAt(bytes, at) < 0) return false;
  return true;
}

const MINUS = 0x2d;
const DOT = 0x2e;
const COLON = 0x3a;
const LETTER_T = 0x54;
const LETTER_Z = 0x5a;

/** The number that two digits spell; negative if another character is among them. */
function pairIn(bytes: Buffer, at: number): number {
  const tens = digitAt(bytes, at);
  const ones = digitAt(bytes, at + 1);
  return tens < 0 || ones < 0 ? -1 : tens * 10 + ones;
}

function digitAt(bytes: Buffer, at: number): number {
  const digit = (bytes[at] ?? 0) - 0x30;
  return digit <= 9 ? digit : -1;
}

function isPlainInteger(index: JsonIndex, position: number, slot: number): boolean {
  return !isPresent(index, position, slot) || isSmallInteger(index, position, slot);
}

function isStringOrAbsent(index: JsonIndex, position: number, slot: number): boolean {
  return !isPresent(index, position, slot) || typeAt(index, position, slot) === 'string';
}

function isObjectOrAbsent(index: JsonIndex, position: number, slot: number): boolean {
  return !isPresent(index, position, slot) || typeAt(index, position, slot) === 'object';
}

/** No field is larger than its item, and compact JSON is never longer than any other. */
function isSmall(index: JsonIndex, position: number): boolean {
  const [start, end] = itemRange(index, position);
  return end - start <= MAX_FIELD_BYTES;
}
