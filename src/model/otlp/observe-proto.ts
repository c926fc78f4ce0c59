import type { OtlpIndex } from '../batch-index.ts';
import type { Beginnings } from '../format-module.ts';
import { instantFromUnixNanos } from '../instant.ts';
import { QUOTE } from '../json/grammar.ts';
import type { Instant, Observation } from '../observation.ts';
import { MOST_SCANNED } from '../preview.ts';
import { isAt, repeatedTextAt } from '../repeated-text.ts';
import { takeCallEvent } from './call-event.ts';
import { resourceFacts, scopeName } from './context.ts';
import { decodeValue } from './decode.ts';
import { SpanFacts } from './facts.ts';
import { OTLP_STRIDE, OtlpField } from './fields.ts';
import { keyAt } from './keys.ts';
import { observationOfSpan } from './observe.ts';
import { companionKeyOf, givesPlainText } from './payload.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { hasValue, textOfValue } from './value.ts';
import { WireReader } from './wire.ts';

/**
 * The narrow decode of a protobuf span: one pass that makes strings only of the fields of an observation. An
 * attribute without a rule costs only the look-up of its key.
 */
export function observeProto(
  index: OtlpIndex,
  position: number,
  requestIndex: number,
): Observation {
  const { bytes, spans } = index;
  const base = position * OTLP_STRIDE;
  const facts = new SpanFacts();
  const start = spans[base + OtlpField.START] as number;
  const end = spans[base + OtlpField.END] as number;
  let name: string | null = null;
  let statusStart = 0;
  let statusEnd = 0;
  let startTime: Instant | null = null;
  let endTime: Instant | null = null;
  let hasEvents = false;
  let p = start;
  while (p < end) {
    const tag = varintAt(bytes, p);
    p = next;
    switch (tag) {
      case 74: {
        const length = varintAt(bytes, p);
        p = next + length;
        takeAttribute(facts, bytes, next, p);
        break;
      }
      case 42: {
        const length = varintAt(bytes, p);
        p = next + length;
        name = p === next ? null : repeatedTextAt(bytes, next, p);
        break;
      }
      case 57:
        startTime = instantAt(bytes, p);
        p += 8;
        break;
      case 65:
        endTime = instantAt(bytes, p);
        p += 8;
        break;
      case 90: {
        const length = varintAt(bytes, p);
        p = next + length;
        hasEvents = true;
        takeEvent(facts, bytes, next, p);
        break;
      }
      case 122: {
        const length = varintAt(bytes, p);
        p = next + length;
        statusStart = next;
        statusEnd = p;
        break;
      }
      default:
        p = skip(bytes, tag, p);
    }
  }
  const status = takeStatus(facts, bytes, statusStart, statusEnd);
  const parent = spans[base + OtlpField.PARENT_ID] as number;
  const traceId = traceIdAt(bytes, spans[base + OtlpField.TRACE_ID] as number);
  const id = idAt(bytes, spans[base + OtlpField.SPAN_ID] as number);
  const parentId = parent === 0 ? null : idAt(bytes, parent);
  return observationOfSpan(
    {
      traceId,
      id,
      spanId: id.slice(SPAN_ID_AT),
      parentId,
      parentSpanId: parentId === null ? null : parentId.slice(SPAN_ID_AT),
      name,
      status,
      startTime,
      endTime,
      hasEvents,
      scope: scopeName(index, spans[base + OtlpField.SCOPE] as number),
    },
    facts,
    resourceFacts(index, spans[base + OtlpField.RESOURCE] as number),
    requestIndex,
  );
}

/** Clients send the spans of a trace together, so the last trace id is likely to repeat. */
let lastTraceId = Buffer.alloc(16);
let lastTraceText = lastTraceId.toString('hex');
/** The digits of the last trace id, a colon, and room for those of a span id. */
const idDigits = Buffer.from(`${lastTraceText}:`.padEnd(49));
const SPAN_ID_AT = 33;

function traceIdAt(bytes: Buffer, start: number): string {
  for (let i = 15; i >= 0; i--) {
    if (bytes[start + i] !== lastTraceId[i]) {
      lastTraceId = Buffer.from(bytes.subarray(start, start + 16));
      lastTraceText = lastTraceId.toString('hex');
      idDigits.write(lastTraceText, 'latin1');
      break;
    }
  }
  return lastTraceText;
}

/** The id of a span of the last trace. One text of all digits costs less than joining the texts of its parts. */
function idAt(bytes: Buffer, start: number): string {
  for (let i = 0; i < 8; i++) {
    const byte = bytes[start + i] as number;
    idDigits[SPAN_ID_AT + i * 2] = HEX_DIGITS[byte >> 4] as number;
    idDigits[SPAN_ID_AT + i * 2 + 1] = HEX_DIGITS[byte & 15] as number;
  }
  return idDigits.toString('latin1');
}

const HEX_DIGITS = Buffer.from('0123456789abcdef');

function takeAttribute(facts: SpanFacts, bytes: Buffer, start: number, end: number): void {
  findKeyValue(bytes, start, end);
  const key = keyAt(bytes, keyStart, keyEnd);
  if (key.rules.length === 0) return;
  const from = valueStart;
  const to = valueEnd;
  if (isEmptyAt(bytes, from, to)) return;
  if (key.needsValue) facts.take(key, valueAt(bytes, from, to));
  else facts.take(key, undefined, bytesOfText(bytes, from, to));
}

/** Bytes of a text value; undefined for any other value. */
function bytesOfText(bytes: Buffer, start: number, end: number): number | undefined {
  if (bytes[start] === 10) {
    const length = varintAt(bytes, start + 1);
    if (next + length === end) return length;
  }
  const { stringValue } = decodeValue(new WireReader(bytes, start, end));
  return typeof stringValue === 'string' ? Buffer.byteLength(stringValue) : undefined;
}

/** The last attribute with this key as text; see `ItemHead.attribute`. */
export function wireAttribute(index: OtlpIndex, position: number, key: string): string | undefined {
  const { bytes, spans } = index;
  const base = position * OTLP_STRIDE;
  const end = spans[base + OtlpField.END] as number;
  const wanted = Buffer.from(key);
  let found: string | undefined;
  const start = spans[base + OtlpField.START] as number;
  eachAttribute(bytes, start, end, OF_SPAN, (from, to) => {
    // Bytes cost less than the look-up of a key that is new.
    if (keyEnd - keyStart === wanted.length && isAt(wanted, bytes, keyStart, wanted.length)) {
      found = textOfValue(valueAt(bytes, from, to));
    }
  });
  return found;
}

/** The attribute that gives an input or output, with the place of its value. */
class GivingAttribute {
  rank = Number.MAX_SAFE_INTEGER;
  key = '';
  start = 0;
  end = 0;
  /** A numbered family may give the content in its place. */
  hasFamily = false;
}

/**
 * `FormatModule.beginnings`, without the decode of the span. `payloadOfSpan` prints a text, or takes JSON in it as it is: both begin with the
 * characters of the text, unless they are a JSON text themselves or `null`.
 */
export function beginningsInProto(index: OtlpIndex, position: number): Beginnings {
  const { bytes, spans } = index;
  const base = position * OTLP_STRIDE;
  const end = spans[base + OtlpField.END] as number;
  const input = new GivingAttribute();
  const output = new GivingAttribute();
  let hasEmbedded = false;
  const start = spans[base + OtlpField.START] as number;
  eachAttribute(bytes, start, end, OF_SPAN, (from, to) => {
    const { text, rules } = keyAt(bytes, keyStart, keyEnd);
    if (rules.length === 0 || isEmptyAt(bytes, from, to)) return;
    for (const rule of rules) {
      if (rule.role === 'embedded') hasEmbedded = true;
      else if (rule.role === 'input') takeGiving(input, rule, text);
      else if (rule.role === 'output') takeGiving(output, rule, text);
    }
  });
  if (hasEmbedded) return {};
  const beginnings: Beginnings = {};
  const inputs = beginningOf(index, position, input);
  const outputs = beginningOf(index, position, output);
  if (inputs !== undefined) beginnings.inputs = inputs;
  if (outputs !== undefined) beginnings.outputs = outputs;
  return beginnings;
}

/** The value is from `valueStart` to `valueEnd`. */
function takeGiving(
  found: GivingAttribute,
  { rank, family }: { readonly rank: number; readonly family: boolean },
  key: string,
): void {
  if (family) found.hasFamily = true;
  // The last one of a rank counts.
  if (rank > found.rank) return;
  found.rank = rank;
  found.key = key;
  found.start = valueStart;
  found.end = valueEnd;
}

/** Undefined unless one text gives the content. */
function beginningOf(
  index: OtlpIndex,
  position: number,
  { key, start, end, hasFamily }: GivingAttribute,
): string | undefined {
  const { bytes } = index;
  if (key === '' || hasFamily || !givesPlainText(key) || bytes[start] !== TEXT_TAG)
    return undefined;
  const length = varintAt(bytes, start + 1);
  const from = next;
  if (from + length !== end || bytes[from] === QUOTE) return undefined;
  const companion = companionKeyOf(key);
  if (companion !== undefined && wireAttribute(index, position, companion) !== undefined)
    return undefined;
  const text = bytes.toString('utf8', from, Math.min(from + MOST_SCANNED_BYTES, end));
  return text === 'null' ? undefined : text;
}

/** The tag of a text in a value. */
const TEXT_TAG = 10;
/** A unit of UTF-16 has at most three bytes, and a character that the end divides is behind those that matter. */
const MOST_SCANNED_BYTES = MOST_SCANNED * 3 + 3;

/** A value. Strings and small integers, which most values are, need no `WireReader`. */
function valueAt(bytes: Buffer, start: number, end: number): OtlpValue {
  const tag = bytes[start];
  if (tag === 10) {
    const length = varintAt(bytes, start + 1);
    if (next + length === end) return { stringValue: repeatedTextAt(bytes, next, end) };
  } else if (tag === 24 && end - start <= MAX_SMALL_INTEGER) {
    const intValue = varintAt(bytes, start + 1);
    if (next === end) return { intValue };
  }
  return decodeValue(new WireReader(bytes, start, end));
}

/** A tag and a varint of seven bytes, which has 49 bits and is not negative. */
const MAX_SMALL_INTEGER = 8;

let keyStart = 0;
let keyEnd = 0;
let valueStart = 0;
let valueEnd = 0;

function findKeyValue(bytes: Buffer, start: number, end: number): void {
  keyStart = keyEnd = valueStart = valueEnd = 0;
  let p = start;
  while (p < end) {
    const tag = varintAt(bytes, p);
    if (tag === 10) {
      const length = varintAt(bytes, next);
      keyStart = next;
      keyEnd = p = next + length;
    } else if (tag === 18) {
      const length = varintAt(bytes, next);
      valueStart = next;
      valueEnd = p = next + length;
    } else {
      p = skip(bytes, tag, next);
    }
  }
}

/** The AnyValue message is unset or an empty string. */
function isEmptyAt(bytes: Buffer, start: number, end: number): boolean {
  if (start === end) return true;
  if (end - start === 2 && bytes[start] === 10) return true;
  if (bytes[start] === 10) {
    const length = varintAt(bytes, start + 1);
    if (length > 0 && next + length === end) return false;
  } else if (bytes[start] === 24) {
    varintAt(bytes, start + 1);
    if (next === end) return false;
  }
  return !hasValue(decodeValue(new WireReader(bytes, start, end)));
}

function takeEvent(facts: SpanFacts, bytes: Buffer, start: number, end: number): void {
  let nameStart = 0;
  let nameEnd = 0;
  let time: Instant | null = null;
  let p = start;
  while (p < end) {
    const tag = varintAt(bytes, p);
    if (tag === 18) {
      const length = varintAt(bytes, next);
      nameStart = next;
      nameEnd = p = next + length;
    } else if (tag === 9) {
      time = instantAt(bytes, next);
      p = next + 8;
    } else {
      p = skip(bytes, tag, next);
    }
  }
  const { event: role, text: name } = keyAt(bytes, nameStart, nameEnd);
  if (role === undefined) return;
  if (role === 'call') takeCallEvent(facts, name, eventAttributes(bytes, start, end));
  else if (role === 'input') facts.input.inEvents = true;
  else if (role === 'output') facts.output.inEvents = true;
  else if (role === 'token') facts.takeToken(time);
  else takeEventAttributes(facts, bytes, start, end, role);
}

function takeEventAttributes(
  facts: SpanFacts,
  bytes: Buffer,
  start: number,
  end: number,
  role: 'exception' | 'both',
): void {
  eachAttribute(bytes, start, end, OF_EVENT, (from, to) => {
    const key = keyAt(bytes, keyStart, keyEnd).text;
    if (isEmptyAt(bytes, from, to)) return;
    if (role === 'exception') facts.takeFromException(key, valueAt(bytes, from, to));
    else if (key === 'gen_ai.input.messages') facts.input.inEvents = true;
    else if (key === 'gen_ai.output.messages') facts.output.inEvents = true;
  });
}

function eventAttributes(bytes: Buffer, start: number, end: number): OtlpKeyValue[] {
  const attributes: OtlpKeyValue[] = [];
  eachAttribute(bytes, start, end, OF_EVENT, (from, to) => {
    const key = bytes.toString('utf8', keyStart, keyEnd);
    attributes.push({ key, value: valueAt(bytes, from, to) });
  });
  return attributes;
}

/** The tags of attributes. */
const OF_SPAN = 74;
const OF_EVENT = 26;

/** Calls back with the place of the value of each attribute with the tag; the key is from `keyStart` to `keyEnd`. */
function eachAttribute(
  bytes: Buffer,
  start: number,
  end: number,
  attribute: typeof OF_SPAN | typeof OF_EVENT,
  take: (valueStart: number, valueEnd: number) => void,
): void {
  let p = start;
  while (p < end) {
    const tag = varintAt(bytes, p);
    if (tag !== attribute) {
      p = skip(bytes, tag, next);
      continue;
    }
    const length = varintAt(bytes, next);
    p = next + length;
    findKeyValue(bytes, next, p);
    take(valueStart, valueEnd);
  }
}

function takeStatus(facts: SpanFacts, bytes: Buffer, start: number, end: number): 0 | 1 | 2 {
  const reader = new WireReader(bytes, start, end);
  let code = 0;
  let message = '';
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 24) code = reader.int32();
    else if (tag === 18) message = reader.text();
    else reader.skip();
  }
  if (code === 2) facts.takeStatusMessage(message);
  return code === 1 || code === 2 ? code : 0;
}

/** The instant of 64 bits of nanoseconds since the epoch; null for 0, which is OTLP's absent time. */
function instantAt(bytes: Buffer, p: number): Instant | null {
  const low = bytes.readUInt32LE(p);
  const high = bytes.readUInt32LE(p + 4);
  return low === 0 && high === 0 ? null : instantFromUnixNanos(high, low);
}

/** The position behind the varint or field that was read last. */
let next = 0;

function varintAt(bytes: Buffer, start: number): number {
  const first = bytes[start] as number;
  if (first < 128) {
    next = start + 1;
    return first;
  }
  let value = first & 127;
  let scale = 128;
  let p = start + 1;
  for (;;) {
    const byte = bytes[p++] as number;
    value += (byte & 127) * scale;
    if (byte < 128) break;
    scale *= 128;
  }
  next = p;
  return value;
}

function skip(bytes: Buffer, tag: number, p: number): number {
  switch (tag & 7) {
    case 0:
      varintAt(bytes, p);
      return next;
    case 1:
      return p + 8;
    case 2: {
      const length = varintAt(bytes, p);
      return next + length;
    }
    case 3:
      return skipGroup(bytes, p);
    default:
      return p + 4;
  }
}

function skipGroup(bytes: Buffer, start: number): number {
  let p = start;
  for (;;) {
    const tag = varintAt(bytes, p);
    if ((tag & 7) === 4) return next;
    p = skip(bytes, tag, next);
  }
}
