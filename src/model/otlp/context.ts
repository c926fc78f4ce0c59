import type { OtlpIndex } from '../batch-index.ts';
import { QUOTE } from '../json/grammar.ts';
import { findMembers, stringIn } from '../json/read.ts';
import { decodeResource, decodeSchemaUrl, decodeScope, decodeSpan } from './decode.ts';
import type { SpanFacts } from './facts.ts';
import {
  OTLP_STRIDE,
  OtlpField,
  RESOURCE_STRIDE,
  ResourceField,
  SCOPE_STRIDE,
  ScopeField,
} from './fields.ts';
import { factsOfAttributes } from './observe.ts';
import { parseResource, parseScope, parseSpan } from './parse.ts';
import type { OtlpKeyValue, OtlpResource, OtlpScope, OtlpSpan } from './span.ts';
import { textOfValue } from './value.ts';

/** A number in the record of a span. */
export function spanField(index: OtlpIndex, position: number, field: number): number {
  return index.spans[position * OTLP_STRIDE + field] ?? 0;
}

export function resourceField(index: OtlpIndex, resource: number, field: number): number {
  return index.resources[resource * RESOURCE_STRIDE + field] ?? 0;
}

export function scopeField(index: OtlpIndex, scope: number, field: number): number {
  return index.scopes[scope * SCOPE_STRIDE + field] ?? 0;
}

export function spanAt(index: OtlpIndex, position: number): OtlpSpan {
  const start = spanField(index, position, OtlpField.START);
  const end = spanField(index, position, OtlpField.END);
  return index.type === 'otlp_proto'
    ? decodeSpan(index.bytes, start, end)
    : parseSpan(index, start, end);
}

export function resourceAt(index: OtlpIndex, resource: number): OtlpResource {
  const start = resourceField(index, resource, ResourceField.RESOURCE_START);
  const end = resourceField(index, resource, ResourceField.RESOURCE_END);
  return index.type === 'otlp_proto'
    ? decodeResource(index.bytes, start, end)
    : parseResource(index, start, end);
}

export function scopeAt(index: OtlpIndex, scope: number): OtlpScope {
  const start = scopeField(index, scope, ScopeField.SCOPE_START);
  const end = scopeField(index, scope, ScopeField.SCOPE_END);
  return index.type === 'otlp_proto'
    ? decodeScope(index.bytes, start, end)
    : parseScope(index, start, end);
}

/** Resources, scopes and parts of them, decoded once per index because many spans share them. */
type Decoded = {
  readonly resources: (OtlpResource | undefined)[];
  readonly scopes: (OtlpScope | undefined)[];
  readonly facts: (SpanFacts | undefined)[];
  readonly resourceTexts: (ReadonlyMap<string, string> | undefined)[];
  readonly scopeNames: (string | null | undefined)[];
};

const decoded = new WeakMap<OtlpIndex, Decoded>();

function decodedOf(index: OtlpIndex): Decoded {
  let found = decoded.get(index);
  if (found === undefined) {
    found = { resources: [], scopes: [], facts: [], resourceTexts: [], scopeNames: [] };
    decoded.set(index, found);
  }
  return found;
}

/** A resource that all its spans share. */
export function sharedResource(index: OtlpIndex, resource: number): OtlpResource {
  const { resources } = decodedOf(index);
  resources[resource] ??= resourceAt(index, resource);
  return resources[resource];
}

/** A scope that all its spans share. */
export function sharedScope(index: OtlpIndex, scope: number): OtlpScope {
  const { scopes } = decodedOf(index);
  scopes[scope] ??= scopeAt(index, scope);
  return scopes[scope];
}

export function resourceFacts(index: OtlpIndex, resource: number): SpanFacts {
  const { facts } = decodedOf(index);
  facts[resource] ??= factsOfAttributes(resourceAt(index, resource).attributes);
  return facts[resource];
}

/** An attribute of a resource as text; see `ItemHead.attribute`. */
export function resourceAttribute(
  index: OtlpIndex,
  resource: number,
  key: string,
): string | undefined {
  const { resourceTexts } = decodedOf(index);
  resourceTexts[resource] ??= attributeTexts(resourceAt(index, resource).attributes);
  return resourceTexts[resource].get(key);
}

function attributeTexts(
  attributes: readonly OtlpKeyValue[] | null | undefined,
): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const { key, value } of attributes ?? []) {
    const text = textOfValue(value);
    if (text === undefined) texts.delete(key ?? '');
    else texts.set(key ?? '', text);
  }
  return texts;
}

/** Null if the scope has no name. */
export function scopeName(index: OtlpIndex, scope: number): string | null {
  const { scopeNames } = decodedOf(index);
  const known = scopeNames[scope];
  if (known !== undefined) return known;
  const name = scopeAt(index, scope).name || null;
  scopeNames[scope] = name;
  return name;
}

/** Finding a schema URL reads the whole message, so each is found once, however many spans ask for it. */
const schemaUrls = new WeakMap<OtlpIndex, Map<number, string | undefined>>();

/** The schema URL of the ResourceSpans or ScopeSpans at [start, end). */
export function schemaUrlAt(index: OtlpIndex, start: number, end: number): string | undefined {
  let known = schemaUrls.get(index);
  if (known === undefined) {
    known = new Map();
    schemaUrls.set(index, known);
  }
  if (!known.has(start)) known.set(start, findSchemaUrl(index, start, end));
  return known.get(start);
}

function findSchemaUrl({ type, bytes }: OtlpIndex, start: number, end: number): string | undefined {
  if (type === 'otlp_proto') return decodeSchemaUrl(bytes, start, end);
  const { schemaUrl } = findMembers(bytes, start, ['schemaUrl']);
  if (schemaUrl === undefined || bytes[schemaUrl.start] !== QUOTE) return undefined;
  return stringIn(bytes, schemaUrl.start, schemaUrl.end);
}
