import {
  attributeKey,
  IGNORED_KEY,
  type JsonForm,
  jsonFormOf,
  mimeTypeKeyOf,
  ORIGINAL_PARENT_KEY,
} from '../attributes.ts';
import { REPEATED_FAMILIES } from '../conventions.ts';
import { formatInstant } from '../instant.ts';
import { OPEN_BRACE } from '../json/grammar.ts';
import { type Member, membersOf } from '../json/read.ts';
import { checkJson } from '../json/scan.ts';
import { TYPED_VALUES } from '../json-conventions.ts';
import type { Payload, PayloadField } from '../observation.ts';
import { EMBEDDED_PAYLOAD_KEYS, type EmbeddedFields } from './embedded-observation.ts';
import type { SpanFacts } from './facts.ts';
import { isFunctionCall, withFunctionCalls } from './function-calls.ts';
import { contentOfEvents, unflatten, withInstructions } from './messages.ts';
import { factsOfSpan, instantOfNanos } from './observe.ts';
import {
  type OtlpEvent,
  type OtlpKeyValue,
  type OtlpLink,
  type OtlpResource,
  type OtlpScope,
  type OtlpSpan,
  type OtlpValue,
  spanKind,
  statusCode,
} from './span.ts';
import { contentText, entriesOf, hasValue, membersText, objectText, valueText } from './value.ts';

/** A decoded span with its resource and scope. */
export type SpanContext = {
  readonly span: OtlpSpan;
  readonly resource: OtlpResource;
  readonly scope: OtlpScope;
};

/** `FormatModule.payload` for a decoded span. */
export function payloadOfSpan(context: SpanContext, fields: readonly PayloadField[]): Payload {
  const { span } = context;
  const facts = factsOfSpan(span);
  const payload: Payload = {};
  for (const field of fields) {
    const text =
      facts.embedded === undefined
        ? fieldText(context, facts, field)
        : embeddedFieldText(span, facts.embedded, field);
    if (text !== undefined) payload[field] = text;
  }
  return payload;
}

/** The text that the other tracectl received, byte for byte. */
function embeddedFieldText(
  span: OtlpSpan,
  { forms }: EmbeddedFields,
  field: PayloadField,
): string | undefined {
  const form = forms[field];
  if (form === undefined) return undefined;
  const found = span.attributes?.findLast(({ key }) => key === EMBEDDED_PAYLOAD_KEYS[field]);
  const text = found?.value?.stringValue;
  if (typeof text !== 'string') return undefined;
  if (form === 'text') return JSON.stringify(text);
  return isJson(text) ? text : undefined;
}

function isJson(text: string): boolean {
  try {
    checkJson(Buffer.from(text));
    return true;
  } catch {
    return false;
  }
}

function fieldText(
  context: SpanContext,
  facts: SpanFacts,
  field: PayloadField,
): string | undefined {
  const { span } = context;
  switch (field) {
    case 'inputs':
      return content(span, facts, 'input');
    case 'outputs':
      return content(span, facts, 'output');
    case 'events':
      return (span.events?.length ?? 0) === 0
        ? undefined
        : `[${(span.events ?? []).map(eventText).join(',')}]`;
    case 'metadata':
      return membersText(metadataEntries(context, facts));
    case 'context_metadata':
      return facts.hasContextMetadata ? attributeText(span, 'context_metadata') : undefined;
  }
}

function content(span: OtlpSpan, facts: SpanFacts, role: 'input' | 'output'): string | undefined {
  const { key, family } = facts[role];
  if (key === undefined) return contentOfEvents(span.events ?? [], role);
  if (family) return unflatten(span.attributes ?? [], key);
  const messages = familyInstead(span, key);
  if (messages !== undefined) return unflatten(span.attributes ?? [], messages);
  const sent = attributeText(span, key, formOf(span, key));
  if (key === CALLED_MESSAGES && sent !== undefined) {
    return withFunctionCalls(sent, span.attributes ?? []) ?? sent;
  }
  const text = sent !== undefined && TYPED.has(key) ? typedValue(sent) : sent;
  const companion = companionOf(span, facts, role);
  return companion === undefined || text === undefined
    ? text
    : companion.join(text, attributeText(span, companion.key) ?? 'null');
}

/** The messages that may have their tool calls in other attributes. */
const CALLED_MESSAGES = 'gen_ai.output.messages';

const TYPED: ReadonlySet<string> = new Set(TYPED_VALUES);

/** The value within the object of its type, with its spelling; an object with another member keeps all of them. */
function typedValue(text: string): string {
  const bytes = Buffer.from(text.trimStart());
  if (bytes[0] !== OPEN_BRACE) return text;
  let value: Member | undefined;
  let hasType = false;
  for (const member of membersOf(bytes, 0)) {
    if (member.key === 'value' && value === undefined) value = member;
    else if (member.key === 'type' && !hasType) hasType = true;
    else return text;
  }
  return hasType && value !== undefined ? bytes.toString('utf8', value.start, value.end) : text;
}

/**
 * The numbered family that has the messages in place of an attribute. LlamaIndex has JSON there whose messages are texts as Python prints
 * objects, or a printed message, `assistant: ` and its text, without the tools that it asks for.
 */
function familyInstead(span: OtlpSpan, key: string): string | undefined {
  const found = REPEATED_FAMILIES.find(({ of }) => of === key);
  if (found === undefined) return undefined;
  const attributes = span.attributes ?? [];
  const text = attributes.findLast((attribute) => attribute.key === key)?.value?.stringValue ?? '';
  const isPrinted = CONTAINER.test(text)
    ? hasPrintedMessage(text)
    : isPrintedMessage(text, attributes, found.family);
  if (!isPrinted) return undefined;
  return attributes.some((attribute) => isOfFamily(attribute, found.family))
    ? found.family
    : undefined;
}

function isOfFamily({ key, value }: OtlpKeyValue, family: string): boolean {
  if (!key?.startsWith(family)) return false;
  return attributeKey(key).rules.length > 0 && hasValue(value);
}

function isPrintedMessage(
  text: string,
  attributes: readonly OtlpKeyValue[],
  family: string,
): boolean {
  const roleKey = `${family}0.message.role`;
  const role = attributes.findLast(({ key }) => key === roleKey)?.value?.stringValue;
  return typeof role === 'string' && role !== '' && text.startsWith(`${role}: `);
}

const CONTAINER = /^[^\S\t\n\v\f\r]*[{[]/;

/** `"ChatMessage(role=…)"` */
function hasPrintedMessage(text: string): boolean {
  // Hot path: the expression stops at every quote of a text, and nearly all texts are without the word.
  return text.includes('Message(') && PRINTED_MESSAGE.test(text);
}

const PRINTED_MESSAGE = /"\w{0,64}Message\(/;

/** The JSON in a text of inputs or outputs: any value if the convention or the attribute's type says so. */
function formOf(span: OtlpSpan, key: string): JsonForm {
  const mimeKey = mimeTypeKeyOf(key);
  if (mimeKey === undefined) {
    const form = jsonFormOf(key);
    return form === 'containers' && isQuoted(span, key) ? 'values' : (form ?? 'containers');
  }
  return attributeText(span, mimeKey)?.includes('json') === true ? 'values' : 'containers';
}

function isQuoted(span: OtlpSpan, key: string): boolean {
  const found = span.attributes?.findLast((attribute) => attribute.key === key)?.value;
  return found?.stringValue?.startsWith('"') === true;
}

/** A second attribute that joins the one that gives an input or output. */
type Companion = { readonly key: string; readonly join: (text: string, other: string) => string };

/** Companions by the attribute that gives the input or output. */
const COMPANIONS: ReadonlyMap<string, Companion> = new Map([
  ['gen_ai.input.messages', { key: 'gen_ai.system_instructions', join: withInstructions }],
  ['ai.response.text', { key: 'ai.response.toolCalls', join: withToolCalls }],
  ['ai.result.text', { key: 'ai.result.toolCalls', join: withToolCalls }],
]);

/** Whether the attribute gives its text as a content as it is, unless a family or a companion gives more. */
export function givesPlainText(key: string): boolean {
  return !TYPED.has(key);
}

/** The attribute that joins the one with a content. */
export function companionKeyOf(key: string): string | undefined {
  return COMPANIONS.get(key)?.key;
}

function companionOf(
  span: OtlpSpan,
  facts: SpanFacts,
  role: 'input' | 'output',
): Companion | undefined {
  const companion = COMPANIONS.get(facts[role].key ?? '');
  if (companion === undefined || attributeText(span, companion.key) === undefined) return undefined;
  // Instructions can precede a list of messages, but no other value.
  const isList =
    attributeText(span, facts[role].key ?? '')
      ?.trimStart()
      .startsWith('[') === true;
  return companion.join === withInstructions && !isList ? undefined : companion;
}

/** Whether attributes beside the messages of the output have their tool calls. */
function hasFunctionCalls(span: OtlpSpan, { output }: SpanFacts): boolean {
  const attributes = span.attributes ?? [];
  if (output.key !== CALLED_MESSAGES || !attributes.some(({ key }) => isFunctionCall(key ?? '')))
    return false;
  const sent = attributeText(span, CALLED_MESSAGES);
  return sent !== undefined && withFunctionCalls(sent, attributes) !== undefined;
}

/** Joins text and tool calls to one message of the assistant. */
function withToolCalls(text: string, toolCalls: string): string {
  return `{"role":"assistant","content":${text},"tool_calls":${toolCalls}}`;
}

function attributeText(
  span: OtlpSpan,
  key: string,
  form: JsonForm = 'containers',
): string | undefined {
  const found = span.attributes?.findLast(
    (attribute) => attribute.key === key && hasValue(attribute.value),
  );
  return found === undefined ? undefined : contentText(found.value, form);
}

/**
 * The metadata, which is flat: attributes of the resource, the scope and the span, and the span's fields without a
 * counterpart in an observation. An attribute that became another field is left out. A resource attribute with
 * the key of a span attribute gets the prefix `resource.`.
 */
function metadataEntries(context: SpanContext, facts: SpanFacts): Map<string, string> {
  const { span, resource, scope } = context;
  const own = ownAttributes(span);
  const entries = new Map<string, string>();
  for (const [key, text] of resourceEntries(resource)) {
    entries.set(own.has(key) ? `${RESOURCE_PREFIX}${key}` : key, text);
  }
  addDroppedCount(entries, resource);
  for (const [key, text] of scopeEntries(scope)) entries.set(key, text);
  addOwnEntries(entries, own, span, facts);
  for (const [key, text] of spanEntries(span)) if (!entries.has(key)) entries.set(key, text);
  return entries;
}

/** The prefix of a resource's key that a span has, too. */
export const RESOURCE_PREFIX = 'resource.';

type OwnAttributes = ReadonlyMap<string, OtlpValue | undefined>;

/** The attributes of a span by key; the last value of a repeated one. */
export function ownAttributes(span: OtlpSpan): OwnAttributes {
  const own = new Map<string, OtlpValue | undefined>();
  for (const { key, value } of span.attributes ?? []) own.set(key ?? '', value ?? undefined);
  return own;
}

/** Adds the attributes of a span, but not those that became other fields. */
export function addOwnEntries(
  entries: Map<string, string>,
  own: OwnAttributes,
  span: OtlpSpan,
  facts: SpanFacts,
): void {
  const input = companionOf(span, facts, 'input')?.key;
  const output = companionOf(span, facts, 'output')?.key;
  const replaced = [facts.input.key, facts.output.key].filter(
    (key) => key !== undefined && familyInstead(span, key) !== undefined,
  );
  const hasCalls = hasFunctionCalls(span, facts);
  // Only what stays gets a text: inputs and outputs, which do not, are the longest values.
  for (const [key, value] of own) {
    if (key === input || key === output || (hasCalls && isFunctionCall(key))) continue;
    const isLeftOut = isRepeated(key, facts) && !replaced.includes(key);
    if (isLeftOut || isOfRepeatedFamily(key, own, replaced)) continue;
    entries.set(key, metadataText(key, value));
  }
}

export function addDroppedCount(entries: Map<string, string>, resource: OtlpResource): void {
  addNumber(entries, 'resource.dropped_attributes_count', resource.droppedAttributesCount);
}

/** The metadata of resources and scopes, made once because many spans share them. */
const ofResources = new WeakMap<OtlpResource, ReadonlyMap<string, string>>();
const ofScopes = new WeakMap<OtlpScope, ReadonlyMap<string, string>>();

/** By key, without the prefix. */
export function resourceEntries(resource: OtlpResource): ReadonlyMap<string, string> {
  const known = ofResources.get(resource);
  if (known !== undefined) return known;
  const entries = new Map<string, string>();
  for (const { key, value } of resource.attributes ?? []) {
    const name = key ?? '';
    entries.set(name, metadataText(name, value));
  }
  ofResources.set(resource, entries);
  return entries;
}

export function scopeEntries(scope: OtlpScope): ReadonlyMap<string, string> {
  const known = ofScopes.get(scope);
  if (known !== undefined) return known;
  const entries = new Map<string, string>();
  if (scope.name) entries.set('scope.name', JSON.stringify(scope.name));
  if (scope.version) entries.set('scope.version', JSON.stringify(scope.version));
  for (const [key, text] of entriesOf(scope.attributes)) entries.set(`scope.${key}`, text);
  addNumber(entries, 'scope.dropped_attributes_count', scope.droppedAttributesCount);
  ofScopes.set(scope, entries);
  return entries;
}

/** As `valueText`, with the JSON of a text that its convention defines as JSON. */
function metadataText(key: string, value: OtlpValue | null | undefined): string {
  const text = value?.stringValue;
  const form = typeof text === 'string' ? attributeKey(key).jsonForm : undefined;
  if (form === undefined) return valueText(value);
  // Objects, arrays and quoted texts are JSON in either form.
  return contentText(value, text?.startsWith('"') === true ? 'values' : form);
}

/** The attribute is one of a numbered family that repeats the JSON of another attribute, or takes the place of one. */
function isOfRepeatedFamily(
  key: string,
  own: OwnAttributes,
  replaced: readonly (string | undefined)[],
): boolean {
  const found = REPEATED_FAMILIES.find(({ family }) => key.startsWith(family));
  if (found === undefined) return false;
  return replaced.includes(found.of) || CONTAINER.test(own.get(found.of)?.stringValue ?? '');
}

/** The attribute became inputs, outputs, model, usage, context metadata or an external id. */
function isRepeated(key: string, facts: SpanFacts): boolean {
  if (key === facts.model?.key) return true;
  if (key === ORIGINAL_PARENT_KEY && facts.originalParent !== undefined) return true;
  if (key === IGNORED_KEY) return true;
  if (key === 'context_metadata' && facts.hasContextMetadata) return true;
  if (isContent(key, facts, 'input') || isContent(key, facts, 'output')) return true;
  return facts.tokens?.some((token) => token.key === key && !token.isPart) ?? false;
}

function isContent(key: string, facts: SpanFacts, role: 'input' | 'output'): boolean {
  const { key: from, family } = facts[role];
  if (!family || from === undefined) return key === from;
  return (
    key.startsWith(from) &&
    attributeKey(key).rules.some((rule) => rule.role === role && rule.family)
  );
}

/** Fields of a span that are no attributes, by the names that OpenTelemetry uses for them elsewhere. */
export function spanEntries(span: OtlpSpan): Map<string, string> {
  const entries = new Map<string, string>();
  const kind = spanKind(span.kind);
  if (kind !== undefined) entries.set('otel.span.kind', JSON.stringify(kind));
  if (span.traceState) entries.set('otel.trace_state', JSON.stringify(span.traceState));
  addNumber(entries, 'otel.flags', span.flags);
  const message = span.status?.message;
  if (message && statusCode(span.status?.code) !== 2) {
    entries.set('otel.status_description', JSON.stringify(message));
  }
  if ((span.links?.length ?? 0) > 0) {
    entries.set('otel.links', `[${(span.links ?? []).map(linkText).join(',')}]`);
  }
  addNumber(entries, 'otel.dropped_attributes_count', span.droppedAttributesCount);
  addNumber(entries, 'otel.dropped_events_count', span.droppedEventsCount);
  addNumber(entries, 'otel.dropped_links_count', span.droppedLinksCount);
  return entries;
}

function linkText(link: OtlpLink): string {
  const entries = new Map<string, string>();
  entries.set('trace_id', JSON.stringify((link.traceId ?? '').toLowerCase()));
  entries.set('span_id', JSON.stringify((link.spanId ?? '').toLowerCase()));
  if (link.traceState) entries.set('trace_state', JSON.stringify(link.traceState));
  addAttributes(entries, link.attributes);
  addNumber(entries, 'dropped_attributes_count', link.droppedAttributesCount);
  addNumber(entries, 'flags', link.flags);
  return membersText(entries);
}

function eventText(event: OtlpEvent): string {
  const entries = new Map<string, string>();
  entries.set('name', JSON.stringify(event.name ?? ''));
  const time = instantOfNanos(event.timeUnixNano);
  if (time !== null) entries.set('time', JSON.stringify(formatInstant(time)));
  addAttributes(entries, event.attributes);
  addNumber(entries, 'dropped_attributes_count', event.droppedAttributesCount);
  return membersText(entries);
}

function addAttributes(
  entries: Map<string, string>,
  attributes: readonly OtlpKeyValue[] | null | undefined,
): void {
  if ((attributes?.length ?? 0) > 0) entries.set('attributes', objectText(attributes));
}

/** Adds a number unless it is 0, which is OTLP's absent number. */
function addNumber(entries: Map<string, string>, key: string, value: number | undefined): void {
  // JSON may have decimal digits in a string.
  if (Number(value ?? 0) !== 0) entries.set(key, String(Number(value)));
}
