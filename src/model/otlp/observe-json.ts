import type { OtlpIndex } from '../batch-index.ts';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  OPEN_BRACKET,
  QUOTE,
  skipColon,
  skipString,
  skipValue,
  spaceFrom,
  type Text,
  textOf,
} from '../json/grammar.ts';
import { isTokenAt, type KeyTable, nodeFor, type PatternNode } from '../json/pattern.ts';
import { escapedStringIn, stringIn } from '../json/read.ts';
import type { Observation } from '../observation.ts';
import { repeatedTextAt } from '../repeated-text.ts';
import { resourceFacts, scopeName, spanAt, spanField } from './context.ts';
import { SpanFacts } from './facts.ts';
import { OtlpField, OtlpFlag } from './fields.ts';
import { SPAN, SPAN_KEYS } from './json-shape.ts';
import { keyAt } from './keys.ts';
import { factsOfSpan, observationOfSpan, spanHeadOf, takeAttributes, takeRest } from './observe.ts';
import { parseJson } from './parse.ts';
import { plainAttribute, plainInteger, plainTexts, skipPlainAttribute } from './plain-attribute.ts';
import type { OtlpKeyValue, OtlpSpan, OtlpValue } from './span.ts';

/** A span in JSON as an observation. */
export function observeJson(index: OtlpIndex, position: number, requestIndex: number): Observation {
  const resource = resourceFacts(index, spanField(index, position, OtlpField.RESOURCE));
  const scope = scopeName(index, spanField(index, position, OtlpField.SCOPE));
  const narrow = narrowSpan(index, position);
  if (narrow !== undefined) {
    const { span, facts } = narrow;
    return observationOfSpan(spanHeadOf(span, scope), facts, resource, requestIndex);
  }
  const span = spanAt(index, position);
  return observationOfSpan(spanHeadOf(span, scope), factsOfSpan(span), resource, requestIndex);
}

type NarrowSpan = {
  /** Without its attributes. */
  readonly span: OtlpSpan;
  readonly facts: SpanFacts;
};

/**
 * The narrow decode: one pass that makes strings and objects only of the fields of an observation. Undefined for a span with
 * invalid ids, a repeated member, or escapes in the name of a member, all of which are rare; these are parsed as a whole.
 */
function narrowSpan(index: OtlpIndex, position: number): NarrowSpan | undefined {
  const { bytes } = index;
  const span = index.escapedKeys === true ? undefined : idsOf(index, position);
  if (span === undefined) return undefined;
  const text = textOfIndex(index);
  const facts = new SpanFacts();
  let seen = 0;
  let before: KeyTable | PatternNode = SPAN_KEYS;
  let at = spaceFrom(text, spanField(index, position, OtlpField.START) + 1);
  while (bytes[at] !== CLOSE_BRACE) {
    // The first member follows the brace, every other one follows a comma.
    const keyStart = bytes[at] === QUOTE ? at : spaceFrom(text, at + 1);
    let node: PatternNode | undefined = before.next;
    let start: number;
    if (node !== undefined && isTokenAt(node, text, keyStart)) {
      before = node;
      start = spaceFrom(text, keyStart + node.tokenLength);
    } else {
      const keyEnd = skipString(text, keyStart + 1);
      start = skipColon(text, keyEnd);
      node = nodeFor(SPAN_KEYS, bytes, keyStart + 1, keyEnd - 1);
      if (node !== undefined) before = before.next = node;
    }
    const member = node === undefined ? undefined : MEMBERS[node.slot];
    if (node === undefined || member === undefined) {
      at = spaceFrom(text, skipValue(text, start, 0));
      continue;
    }
    const bit = 1 << node.slot;
    if ((seen & bit) !== 0) return undefined;
    seen |= bit;
    const isList = member === 'attributes' && bytes[start] === OPEN_BRACKET;
    const end = isList ? takeList(index, facts, text, start) : skipValue(text, start, 0);
    if (!isList) takeMember(index, span, member, start, end);
    at = spaceFrom(text, end);
  }
  takeRest(facts, span);
  return { span, facts };
}

/** One reader for all spans of a request. */
const texts = new WeakMap<OtlpIndex, Text>();

function textOfIndex(index: OtlpIndex): Text {
  let text = texts.get(index);
  if (text === undefined) {
    text = textOf(index.bytes, Number.MAX_SAFE_INTEGER);
    texts.set(index, text);
  }
  return text;
}

/** The members that an observation needs, beside the ids. */
const NAMES = [
  'attributes',
  'name',
  'startTimeUnixNano',
  'endTimeUnixNano',
  'events',
  'status',
] as const;
/** By the slots of `SPAN_KEYS`. */
const MEMBERS = [...SPAN.fields.keys()].map((key) => NAMES.find((name) => name === key));

/** A span with its ids only; undefined if one of them is invalid. */
function idsOf(index: OtlpIndex, position: number): OtlpSpan | undefined {
  const { bytes } = index;
  const traceId = spanField(index, position, OtlpField.TRACE_ID);
  const spanId = spanField(index, position, OtlpField.SPAN_ID);
  const parentId = spanField(index, position, OtlpField.PARENT_ID);
  const flags = spanField(index, position, OtlpField.FLAGS);
  if (traceId === 0 || spanId === 0 || (flags & OtlpFlag.BAD_PARENT) !== 0) return undefined;
  return {
    traceId: traceIdAt(bytes, traceId),
    spanId: bytes.toString('latin1', spanId, spanId + 16),
    parentSpanId: parentId === 0 ? '' : bytes.toString('latin1', parentId, parentId + 16),
  };
}

/** Clients send the spans of a trace together, so the last trace id is likely to repeat. */
let lastTraceText = '';

function traceIdAt(bytes: Buffer, start: number): string {
  for (let i = 31; i >= 0; i--) {
    if (bytes[start + i] !== lastTraceText.charCodeAt(i)) {
      lastTraceText = bytes.toString('latin1', start, start + 32);
      break;
    }
  }
  return lastTraceText;
}

function takeMember(
  index: OtlpIndex,
  span: OtlpSpan,
  name: (typeof NAMES)[number],
  start: number,
  end: number,
): void {
  const { bytes } = index;
  switch (name) {
    case 'name':
      if (bytes[start] === QUOTE) span.name = textAt(bytes, start, end);
      break;
    case 'startTimeUnixNano':
    case 'endTimeUnixNano':
      if (bytes[start] === QUOTE) span[name] = stringIn(bytes, start, end);
      else Object.assign(span, { [name]: parseJson(index, start, end) });
      break;
    default:
      Object.assign(span, { [name]: parseJson(index, start, end) });
  }
}

/** The string at [start, end), quotes included, which clients are likely to repeat. */
function textAt(bytes: Buffer, start: number, end: number): string {
  const text = repeatedTextAt(bytes, start + 1, end - 1);
  return text.includes('\\') ? stringIn(bytes, start, end) : text;
}

/** Takes the attributes of the list at `start`; returns its end. */
function takeList(index: OtlpIndex, facts: SpanFacts, text: Text, start: number): number {
  const { bytes } = index;
  let at = spaceFrom(text, start + 1);
  while (bytes[at] !== CLOSE_BRACKET) {
    const from = bytes[at] === COMMA ? spaceFrom(text, at + 1) : at;
    let end = skipPlainAttribute(text, from, 0, 0);
    if (end !== 0) {
      takePlain(facts, text);
    } else {
      end = skipValue(text, from, 0);
      takeAttributes(facts, [parseJson(index, from, end) as OtlpKeyValue]);
    }
    at = spaceFrom(text, end);
  }
  return at + 1;
}

/** Takes the attribute that was found last. */
function takePlain(facts: SpanFacts, text: Text): void {
  const { keyStart, keyEnd, form, valueStart, valueEnd } = plainAttribute;
  const key = keyAt(text.bytes, keyStart, keyEnd);
  if (key.rules.length === 0 || valueStart === valueEnd) return;
  if (key.needsValue) facts.take(key, plainValue(text));
  else facts.take(key, undefined, form === 'text' ? bytesOfPlain(text.bytes) : undefined);
}

function plainValue(text: Text): OtlpValue {
  const { bytes } = text;
  const { form, valueStart, valueEnd, escapes } = plainAttribute;
  switch (form) {
    case 'text':
      return {
        stringValue:
          escapes > 0
            ? escapedStringIn(bytes, valueStart - 1, valueEnd + 1)
            : repeatedTextAt(bytes, valueStart, valueEnd),
      };
    case 'integer':
      return { intValue: plainInteger(bytes) };
    case 'double':
      return { doubleValue: Number(bytes.toString('latin1', valueStart, valueEnd)) };
    case 'flag':
      return { boolValue: bytes[valueStart] === LETTER_T };
    case 'texts': {
      const values: OtlpValue[] = [];
      for (const [start, end] of plainTexts(text))
        values.push({ stringValue: textAt(bytes, start, end) });
      return { arrayValue: { values } };
    }
  }
}

const LETTER_T = 0x74;

/** UTF-8 bytes of the text of the attribute that was found last. */
function bytesOfPlain(bytes: Buffer): number {
  const { valueStart, valueEnd, escapes, hasUnicodeEscapes } = plainAttribute;
  // Surrogates make the length of an escape depend on its neighbours.
  if (hasUnicodeEscapes) return Buffer.byteLength(stringIn(bytes, valueStart - 1, valueEnd + 1));
  // Each of the other escapes is one character of one byte.
  return valueEnd - valueStart - escapes;
}
