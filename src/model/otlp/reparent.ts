import { ORIGINAL_PARENT_KEY } from '../attributes.ts';
import type { OtlpIndex } from '../batch-index.ts';
import { encodeJsonText } from '../json/edit.ts';
import { CLOSE_BRACKET, OPEN_BRACKET, QUOTE, spaceFrom, textOf } from '../json/grammar.ts';
import { elementsOf, findMembers, stringIn } from '../json/read.ts';
import type { NewParent, Splice } from '../texts.ts';
import { spanAt, spanField } from './context.ts';
import { EMBEDDED_KEY, type EmbeddedFields, encodeEmbedded } from './embedded-observation.ts';
import { spanIdOf } from './encode-observation.ts';
import { OtlpField } from './fields.ts';
import { factsOfSpan } from './observe.ts';
import { lengthDelimited, WireReader } from './wire.ts';

/** New texts of a span; undefined for no change. */
type Change = {
  /** Hex; empty for a root. */
  readonly parentSpanId: string;
  readonly originalParentSpanId: string | undefined;
  readonly embedded: string | undefined;
};

/**
 * `FormatModule.reparent` for spans. The original parent's span id becomes an attribute, which `observe` reads. In a
 * span with an embedded observation it becomes a field of that, which overrides the span's own fields.
 */
export function reparentSpan(index: OtlpIndex, position: number, parent: NewParent): Splice[] {
  const facts = factsOfSpan(spanAt(index, position));
  const isMarked = facts.embedded !== undefined || facts.originalParent !== undefined;
  const change = {
    parentSpanId: parent.parentId === null ? '' : spanIdOf(parent.parentId),
    originalParentSpanId: isMarked ? undefined : spanIdOf(parent.originalParentId),
    embedded: facts.embedded === undefined ? undefined : embeddedText(facts.embedded, parent),
  };
  const start = spanField(index, position, OtlpField.START);
  const end = spanField(index, position, OtlpField.END);
  const splices =
    index.type === 'otlp_proto'
      ? wireSplices(index.bytes, start, end, change)
      : jsonSplices(index.bytes, start, end, change);
  return splices.sort((a, b) => a.start - b.start);
}

function embeddedText(fields: EmbeddedFields, { parentId, ...parent }: NewParent): string {
  return encodeEmbedded({
    ...fields,
    parentId,
    traceId: fields.traceId ?? parent.traceId,
    external: { parent_id: parent.originalParentId, ...fields.external },
  });
}

const SPAN_ID_TAG = 18;
const PARENT_TAG = 34;
const ATTRIBUTE_TAG = 74;

function wireSplices(bytes: Buffer, start: number, end: number, change: Change): Splice[] {
  const reader = new WireReader(bytes, start, end);
  let first: readonly [number, number] | undefined;
  let parent: readonly [number, number] | undefined;
  let embedded: readonly [number, number] | undefined;
  for (;;) {
    const fieldStart = reader.start;
    const tag = reader.nextTag();
    if (tag === 0) break;
    if (tag === ATTRIBUTE_TAG) embedded = embeddedRange(reader.message()) ?? embedded;
    else reader.skip();
    // The id, which every span here has: no other splice is within it.
    if (tag === SPAN_ID_TAG) first = [fieldStart, reader.start];
    if (tag === PARENT_TAG) parent = [fieldStart, reader.start];
  }
  const fields = [lengthDelimited(PARENT_TAG, Buffer.from(change.parentSpanId, 'hex'))];
  if (change.originalParentSpanId !== undefined) {
    fields.push(stringAttribute(ORIGINAL_PARENT_KEY, change.originalParentSpanId));
  }
  const splices: Splice[] = [];
  // A splice replaces whole fields, so it repeats a field to add another one.
  if (parent !== undefined) {
    splices.push({ start: parent[0], end: parent[1], bytes: Buffer.concat(fields) });
  } else if (first !== undefined) {
    const kept = bytes.subarray(...first);
    splices.push({ start: first[0], end: first[1], bytes: Buffer.concat([kept, ...fields]) });
  }
  if (embedded !== undefined && change.embedded !== undefined) {
    const [start, end] = embedded;
    splices.push({ start, end, bytes: Buffer.from(change.embedded) });
  }
  return splices;
}

/** The content of a KeyValue's string value if it holds an embedded observation. */
function embeddedRange(reader: WireReader): readonly [number, number] | undefined {
  let key = '';
  let found: readonly [number, number] | undefined;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) key = reader.text();
    else if (tag === 18) found = stringRange(reader.message());
    else reader.skip();
  }
  return key === EMBEDDED_KEY ? found : undefined;
}

function stringRange(reader: WireReader): readonly [number, number] | undefined {
  let found: readonly [number, number] | undefined;
  for (let tag = reader.nextTag(); tag !== 0; tag = reader.nextTag()) {
    if (tag === 10) {
      const { start, end } = reader.message();
      found = [start, end];
    } else {
      reader.skip();
    }
  }
  return found;
}

function stringAttribute(key: string, value: string): Buffer {
  const text = lengthDelimited(10, Buffer.from(value));
  const parts = [lengthDelimited(10, Buffer.from(key)), lengthDelimited(18, text)];
  return lengthDelimited(ATTRIBUTE_TAG, Buffer.concat(parts));
}

function jsonSplices(bytes: Buffer, start: number, end: number, change: Change): Splice[] {
  const { parentSpanId, attributes } = findMembers(bytes, start, ['parentSpanId', 'attributes']);
  const splices: Splice[] = [];
  const added: string[] = [];
  const id = JSON.stringify(change.parentSpanId);
  if (parentSpanId === undefined) added.push(`"parentSpanId":${id}`);
  else splices.push({ start: parentSpanId.start, end: parentSpanId.end, bytes: Buffer.from(id) });
  if (change.originalParentSpanId !== undefined) {
    const value = { stringValue: change.originalParentSpanId };
    const attribute = JSON.stringify({ key: ORIGINAL_PARENT_KEY, value });
    if (attributes === undefined) {
      added.push(`"attributes":[${attribute}]`);
    } else if (bytes[attributes.start] === OPEN_BRACKET) {
      const at = attributes.start + 1;
      const isEmpty = bytes[spaceFrom(textOf(bytes), at)] === CLOSE_BRACKET;
      splices.push({ start: at, end: at, bytes: Buffer.from(`${attribute}${isEmpty ? '' : ','}`) });
    } else {
      const { start, end } = attributes;
      splices.push({ start, end, bytes: Buffer.from(`[${attribute}]`) });
    }
  }
  if (change.embedded !== undefined && attributes !== undefined) {
    const range = embeddedJsonRange(bytes, attributes.start);
    if (range !== undefined) {
      splices.push({ start: range[0], end: range[1], bytes: encodeJsonText(change.embedded) });
    }
  }
  // A span with a parent also has ids, so a member precedes the comma.
  if (added.length > 0) {
    splices.push({ start: end - 1, end: end - 1, bytes: Buffer.from(`,${added.join(',')}`) });
  }
  return splices;
}

function embeddedJsonRange(bytes: Buffer, start: number): readonly [number, number] | undefined {
  let found: readonly [number, number] | undefined;
  for (const element of elementsOf(bytes, start)) {
    const { key, value } = findMembers(bytes, element.start, ['key', 'value']);
    if (key === undefined || value === undefined) continue;
    if (bytes[key.start] !== QUOTE || stringIn(bytes, key.start, key.end) !== EMBEDDED_KEY)
      continue;
    const { stringValue } = findMembers(bytes, value.start, ['stringValue']);
    if (stringValue === undefined || bytes[stringValue.start] !== QUOTE) continue;
    found = [stringValue.start + 1, stringValue.end - 1];
  }
  return found;
}
