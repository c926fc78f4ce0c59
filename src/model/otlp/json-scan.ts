import { isUtf8 } from 'node:buffer';
import type { OtlpIndex } from '../batch-index.ts';
import { Refusal } from '../errors.ts';
import type { ScanLimits } from '../format-module.ts';
import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  deeper,
  fail,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
  spaceFrom,
  type Text,
  textOf,
} from '../json/grammar.ts';
import {
  isTokenAt,
  type KeyTable,
  nodeFor,
  nodeForAny,
  type PatternNode,
} from '../json/pattern.ts';
import { stringIn } from '../json/read.ts';
import { mayHoldCustomFields } from './custom-fields.ts';
import { FREE_FIELDS, OtlpField, OtlpFlag, WEIGHT_OF_KEY } from './fields.ts';
import {
  type Field,
  isScalar,
  KEY_VALUE,
  LOGS_REQUEST,
  type Message,
  messageKeysOf,
  type Note,
  REQUEST,
  type ScalarType,
  SPAN,
  SPAN_FIELDS,
  SPAN_KEYS,
  VALUE,
} from './json-shape.ts';
import { plainAttribute, skipPlainAttribute } from './plain-attribute.ts';
import { Recorder, type RecorderMark } from './recorder.ts';
import { MAX_VALUE_DEPTH } from './wire.ts';

/**
 * One pass over an export request in OTLP's JSON form: checks the grammar, the nesting and the types of all known
 * fields, and records the ranges of spans. As in protobuf's own JSON readers, unknown fields are ignored, null
 * means absent, 64-bit integers are decimal digits or numbers, and enumerations are numbers or names. A
 * repeated key replaces the earlier one.
 *
 * Invalid JSON throws an `invalid_json`. Valid JSON of another shape throws an `invalid_request`, after the whole
 * body was read.
 */
export function scanJson(bytes: Buffer, limits: ScanLimits): OtlpIndex {
  return scanRequest(bytes, limits, new Recorder(limits.maxItems), REQUEST);
}

/** The same for an ExportLogsServiceRequest. The index has log records in place of spans. */
export function scanJsonLogs(bytes: Buffer, limits: ScanLimits): OtlpIndex {
  return scanRequest(bytes, limits, new Recorder(limits.maxItems, 'log records'), LOGS_REQUEST);
}

function scanRequest(
  bytes: Buffer,
  limits: ScanLimits,
  recorder: Recorder,
  request: Message,
): OtlpIndex {
  if (!isUtf8(bytes)) throw new Refusal('invalid_json', 'The body is not valid UTF-8.');
  const text = textOf(bytes, limits.maxDepth);
  const walk = newWalk(text, recorder);
  const end = walkMessage(walk, spaceFrom(text, 0), 0, request, 0);
  const rest = skipSpace(text, end);
  if (rest < bytes.length) fail(text, rest);
  if (walk.wrong !== undefined) throw new Refusal('invalid_request', walk.wrong);
  walk.recorder.checkCount();
  const index = walk.recorder.index('otlp_json', bytes);
  if (!walk.escapedKeys && !walk.lateKeys) return index;
  return { ...index, escapedKeys: walk.escapedKeys, lateKeys: walk.lateKeys };
}

/** The state of a pass: the notes of the current span, scope and resource. */
type Walk = {
  readonly text: Text;
  readonly recorder: Recorder;
  /** The first reason why the body is no export request. */
  wrong: string | undefined;
  resourceStart: number;
  resourceEnd: number;
  /** `OtlpFlag`s of the resource. */
  resourceFlags: number;
  resourceWeight: number;
  scopeStart: number;
  scopeEnd: number;
  scopeWeight: number;
  /** The weight of the current span, scope or resource. */
  weight: number;
  traceId: number;
  spanId: number;
  parentId: number;
  badParent: boolean;
  attributeBytes: number;
  eventBytes: number;
  events: number;
  links: number;
  /** The body has a key of a message with escapes. */
  escapedKeys: boolean;
  /** The body has a `key` that is not the first member of its object. */
  lateKeys: boolean;
  /** An attribute of the current span or resource may hold `custom_fields`. */
  customFields: boolean;
};

function newWalk(text: Text, recorder: Recorder): Walk {
  return {
    text,
    recorder,
    wrong: undefined,
    resourceStart: 0,
    resourceEnd: 0,
    resourceFlags: 0,
    resourceWeight: 0,
    scopeStart: 0,
    scopeEnd: 0,
    scopeWeight: 0,
    weight: 0,
    traceId: 0,
    spanId: 0,
    parentId: 0,
    badParent: false,
    attributeBytes: 0,
    eventBytes: 0,
    events: 0,
    links: 0,
    escapedKeys: false,
    lateKeys: false,
    customFields: false,
  };
}

const HOLDS_SPANS: ReadonlySet<Message['name']> = new Set([
  'request',
  'resource_spans',
  'scope_spans',
]);

/** `lists` is the number of arrays and kvlists around this message. */
function walkMessage(
  walk: Walk,
  start: number,
  outer: number,
  message: Message,
  lists: number,
): number {
  const { text } = walk;
  const { bytes } = text;
  if (bytes[start] !== OPEN_BRACE) return mismatch(walk, start, outer, 'an object');
  const inner = message.name === 'list' ? lists + 1 : lists;
  if (inner > MAX_VALUE_DEPTH) {
    walk.wrong ??= `A value is nested deeper than ${MAX_VALUE_DEPTH} levels.`;
  }
  const depth = deeper(text, outer);
  enter(walk, message, start);
  const keys = messageKeysOf(message);
  let marks: Map<PatternNode, RecorderMark> | undefined;
  // Hot path: most members are those of spans.
  let before: KeyTable | PatternNode | undefined = message === SPAN ? SPAN_KEYS : undefined;
  let at = spaceFrom(text, start + 1);
  const first = at;
  let members = 0;
  if (bytes[at] !== CLOSE_BRACE) {
    for (;;) {
      if (bytes[at] !== QUOTE) fail(text, at);
      members++;
      const predicted: PatternNode | undefined = before?.next;
      if (predicted !== undefined && isTokenAt(predicted, text, at)) {
        before = predicted;
        at = spaceFrom(text, at + predicted.tokenLength);
        const field = SPAN_FIELDS[predicted.slot] as Field;
        at = spaceFrom(text, walkField(walk, at, depth, field, inner));
        if (bytes[at] === CLOSE_BRACE) break;
        if (bytes[at] !== COMMA) fail(text, at);
        at = spaceFrom(text, at + 1);
        continue;
      }
      const keyStart = at;
      const { escapes } = text;
      const keyEnd = skipString(text, at + 1);
      if (text.escapes !== escapes) walk.escapedKeys = true;
      at = skipColon(text, keyEnd);
      // No text is made of a key: a body may have millions that are unknown.
      const key = nodeForAny(keys.table, bytes, keyStart + 1, keyEnd - 1);
      const field = key && keys.fields[key.slot];
      if (before !== undefined) before = predict(before, bytes, keyStart + 1, keyEnd - 1);
      if (key === undefined || field === undefined) {
        const from = at;
        at = skipValue(text, at, depth);
        walk.weight += Math.floor((at - from) / UNKNOWN_BYTES);
      } else {
        if (field.list && HOLDS_SPANS.has(message.name)) {
          marks ??= new Map();
          startOver(walk, marks, key);
        }
        if (field.note === 'key' && keyStart !== first) walk.lateKeys = true;
        at = walkField(walk, at, depth, field, inner);
      }
      at = spaceFrom(text, at);
      if (bytes[at] === CLOSE_BRACE) break;
      if (bytes[at] !== COMMA) fail(text, at);
      at = spaceFrom(text, at + 1);
    }
  }
  if (members > FREE_FIELDS) walk.weight += members - FREE_FIELDS;
  leave(walk, message, start, at + 1);
  return at + 1;
}

/** So many bytes of a member without a meaning have the weight of a value: JSON.parse reads them, too. */
const UNKNOWN_BYTES = 16;

/** Predicts that the key at [start, end), if it is known, will again follow the one before; returns the last known key. */
function predict(
  before: KeyTable | PatternNode,
  bytes: Buffer,
  start: number,
  end: number,
): KeyTable | PatternNode {
  const node = nodeFor(SPAN_KEYS, bytes, start, end);
  if (node === undefined) return before;
  before.next = node;
  return node;
}

/** Forgets the records below an earlier occurrence of a repeated key. */
function startOver(walk: Walk, marks: Map<PatternNode, RecorderMark>, key: PatternNode): void {
  const mark = marks.get(key);
  if (mark === undefined) marks.set(key, walk.recorder.mark());
  else walk.recorder.restore(mark);
}

function walkField(walk: Walk, start: number, depth: number, field: Field, lists: number): number {
  const { text } = walk;
  const { bytes } = text;
  if (field.note === 'attributes' || field.note === 'resource') walk.customFields = false;
  if (field.note === 'resource' || field.note === 'scope') walk.weight = 0;
  const isNull = bytes[start] === 0x6e;
  const saved = text.saved;
  let count = 0;
  let end: number;
  if (isNull) {
    end = skipValue(text, start, depth);
  } else if (field.list) {
    end = walkList(walk, start, depth, field.type as Message, lists);
    count = listCount;
  } else if (typeof field.type === 'string') {
    end = skipValue(text, start, depth);
    checkScalar(walk, start, end, field.type);
  } else {
    end = walkMessage(walk, start, depth, field.type, lists);
  }
  if (field.note !== undefined) {
    const size = isNull ? 0 : end - start - (text.saved - saved);
    note(walk, field.note, isNull ? 0 : start, isNull ? 0 : end, size, count);
  }
  return end;
}

/** The length of the list that was walked last. */
let listCount = 0;

function walkList(
  walk: Walk,
  start: number,
  outer: number,
  message: Message,
  lists: number,
): number {
  const { text } = walk;
  const { bytes } = text;
  let count = 0;
  if (bytes[start] !== OPEN_BRACKET) return mismatch(walk, start, outer, 'an array');
  const depth = deeper(text, outer);
  let at = spaceFrom(text, start + 1);
  if (bytes[at] !== CLOSE_BRACKET) {
    for (;;) {
      const end = message === KEY_VALUE ? skipAttribute(walk, at, depth, lists) : 0;
      at = spaceFrom(text, end === 0 ? walkMessage(walk, at, depth, message, lists) : end);
      count++;
      if (bytes[at] === CLOSE_BRACKET) break;
      if (bytes[at] !== COMMA) fail(text, at);
      at = spaceFrom(text, at + 1);
    }
  }
  if (message === KEY_VALUE) walk.weight += WEIGHT_OF_KEY * count;
  else if (message === VALUE) walk.weight += count;
  listCount = count;
  return at + 1;
}

/** The end of a plain attribute; 0 for any other one. */
function skipAttribute(walk: Walk, start: number, depth: number, lists: number): number {
  const end = skipPlainAttribute(walk.text, start, depth, lists);
  if (end !== 0 && plainAttribute.form === 'texts') walk.weight += plainAttribute.texts;
  if (end !== 0 && !walk.customFields) {
    walk.customFields = mayHoldCustomFields(
      walk.text.bytes,
      plainAttribute.keyStart,
      plainAttribute.keyEnd,
    );
  }
  return end;
}

/** Notes a value of a wrong type and skips it. The scan goes on, because the body may also be invalid JSON. */
function mismatch(walk: Walk, start: number, depth: number, wanted: string): number {
  walk.wrong ??= `The body is not an export request: ${wanted} is expected at byte ${start}.`;
  listCount = 0;
  return skipValue(walk.text, start, depth);
}

function checkScalar(walk: Walk, start: number, end: number, type: ScalarType): void {
  if (type === 'string') {
    if (walk.text.bytes[start] !== QUOTE) mismatchAt(walk, start, type);
    return;
  }
  if (type === 'bytes') {
    if (!isBase64(walk.text.bytes, start, end)) mismatchAt(walk, start, type);
    return;
  }
  if (isPlainInteger(walk.text.bytes, start, end, type)) return;
  // Valid numbers are shorter, so no long string is made.
  const isShort = end - start <= 64;
  if (!isShort || !isScalar(type, walk.text.bytes.toString('latin1', start, end))) {
    mismatchAt(walk, start, type);
  }
}

/** Only digits, quoted or not, and too few to be out of range. Most integers are such. */
function isPlainInteger(bytes: Buffer, start: number, end: number, type: ScalarType): boolean {
  if (type === 'bool' || type === 'double') return false;
  const isQuoted = bytes[start] === QUOTE;
  const from = isQuoted ? start + 1 : start;
  const to = isQuoted ? end - 1 : end;
  const length = to - from;
  // A present time in nanoseconds has 19 digits and starts with a 1.
  const most =
    type === 'int64' || type === 'uint64' ? ((bytes[from] as number) < 0x39 ? 19 : 18) : 9;
  if (length === 0 || length > most) return false;
  for (let at = from; at < to; at++) {
    const c = bytes[at] as number;
    if (c < 0x30 || c > 0x39) return false;
  }
  return true;
}

/** Base64, or its form for URLs, with or without padding, as in protobuf's own JSON readers. */
function isBase64(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] !== QUOTE) return false;
  let last = end - 2;
  while (last > start && end - 2 - last < 2 && bytes[last] === EQUALS) last--;
  for (let at = start + 1; at <= last; at++) {
    if (BASE64[bytes[at] as number] === 0) {
      // Base64 needs no escapes, but a sender may escape a slash.
      return bytes[at] === BACKSLASH && isBase64Text(stringIn(bytes, start, end));
    }
  }
  const digits = last - start;
  const padding = end - 2 - last;
  return digits % 4 !== 1 && (padding === 0 || (digits + padding) % 4 === 0);
}

function isBase64Text(text: string): boolean {
  const plain = Buffer.from(JSON.stringify(text));
  return !plain.includes(BACKSLASH) && isBase64(plain, 0, plain.length);
}

const EQUALS = 0x3d;
const BASE64 = new Uint8Array(256);
for (const c of 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_') {
  BASE64[c.charCodeAt(0)] = 1;
}

function mismatchAt(walk: Walk, start: number, type: ScalarType): void {
  walk.wrong ??= `The body is not an export request: a value of type ${type} is expected at byte ${start}.`;
}

function enter(walk: Walk, message: Message, start: number): void {
  switch (message.name) {
    case 'resource_spans':
      walk.resourceStart = walk.resourceEnd = walk.resourceFlags = walk.resourceWeight = 0;
      walk.recorder.enterResource(start);
      break;
    case 'scope_spans':
      walk.scopeStart = walk.scopeEnd = walk.scopeWeight = 0;
      walk.recorder.enterScope(start);
      break;
    case 'span':
      walk.traceId = walk.spanId = walk.parentId = 0;
      walk.attributeBytes = walk.eventBytes = walk.events = walk.links = walk.weight = 0;
      walk.badParent = walk.customFields = false;
      break;
    default:
  }
}

function leave(walk: Walk, message: Message, start: number, end: number): void {
  switch (message.name) {
    case 'resource_spans':
      walk.recorder.leaveResource(
        end,
        walk.resourceStart,
        walk.resourceEnd,
        walk.resourceFlags,
        walk.resourceWeight,
      );
      break;
    case 'scope_spans':
      walk.recorder.leaveScope(end, walk.scopeStart, walk.scopeEnd, walk.scopeWeight);
      break;
    case 'span':
      recordSpan(walk, start, end);
      break;
    default:
  }
}

function note(
  walk: Walk,
  what: Note,
  start: number,
  end: number,
  size: number,
  count: number,
): void {
  const { bytes } = walk.text;
  switch (what) {
    case 'resource':
      walk.resourceStart = start;
      walk.resourceEnd = end;
      walk.resourceFlags = walk.customFields ? OtlpFlag.CUSTOM_FIELDS : 0;
      walk.resourceWeight = walk.weight;
      break;
    case 'scope':
      walk.scopeStart = start;
      walk.scopeEnd = end;
      walk.scopeWeight = walk.weight;
      break;
    case 'trace_id':
      walk.traceId = idAt(bytes, start, end, 32);
      break;
    case 'span_id':
      walk.spanId = idAt(bytes, start, end, 16);
      break;
    case 'parent_id':
      walk.parentId = idAt(bytes, start, end, 16);
      walk.badParent = walk.parentId === 0 && end - start > 2 && !isZero(bytes, start, end);
      break;
    case 'attributes':
      walk.attributeBytes = size;
      break;
    case 'events':
      walk.eventBytes = size;
      walk.events = count;
      break;
    case 'links':
      walk.links = count;
      break;
    case 'key':
      walk.customFields ||= mayHoldCustomFields(bytes, start + 1, end - 1) || size !== end - start;
  }
}

function recordSpan(walk: Walk, start: number, end: number): void {
  const { recorder } = walk;
  if (!recorder.addSpan()) return;
  const { spans, base } = recorder;
  spans[base + OtlpField.START] = start;
  spans[base + OtlpField.END] = end;
  spans[base + OtlpField.TRACE_ID] = walk.traceId;
  spans[base + OtlpField.SPAN_ID] = walk.spanId;
  spans[base + OtlpField.PARENT_ID] = walk.parentId;
  spans[base + OtlpField.RESOURCE] = recorder.resource;
  spans[base + OtlpField.SCOPE] = recorder.scope;
  spans[base + OtlpField.ATTRIBUTE_BYTES] = walk.attributeBytes;
  spans[base + OtlpField.EVENT_BYTES] = walk.eventBytes;
  spans[base + OtlpField.EVENTS] = walk.events;
  spans[base + OtlpField.LINKS] = walk.links;
  spans[base + OtlpField.WEIGHT] = walk.weight;
  spans[base + OtlpField.FLAGS] =
    (walk.customFields ? OtlpFlag.CUSTOM_FIELDS : 0) | (walk.badParent ? OtlpFlag.BAD_PARENT : 0);
}

/** The start of a valid id's digits; 0 for any other text. The range includes the quotes. */
function idAt(bytes: Buffer, start: number, end: number, digits: number): number {
  if (end - start !== digits + 2) return 0;
  let isNonZero = false;
  for (let at = start + 1; at < end - 1; at++) {
    const c = bytes[at] as number;
    const lower = c | 0x20;
    if (!((c >= 0x30 && c <= 0x39) || (lower >= 0x61 && lower <= 0x66))) return 0;
    if (c !== 0x30) isNonZero = true;
  }
  return isNonZero ? start + 1 : 0;
}

/** Some senders write a root span's parent id as zeros. */
function isZero(bytes: Buffer, start: number, end: number): boolean {
  return bytes.toString('latin1', start + 1, end - 1) === '0'.repeat(16);
}
