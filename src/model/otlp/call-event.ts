import { attributeKey } from '../attributes.ts';
import type { CallEvent } from '../call-events.ts';
import { CALL_EVENTS } from '../call-events.ts';
import type { SpanFacts } from './facts.ts';
import type { ObjectMembers } from './objects.ts';
import type { OtlpKeyValue, OtlpValue } from './span.ts';
import { hasValue, scalarOf } from './value.ts';

const OPERATION = attributeKey('gen_ai.operation.name');

/** Takes the fields of an event that describes the call of its span. */
export function takeCallEvent(
  facts: SpanFacts,
  name: string,
  attributes: readonly OtlpKeyValue[],
): void {
  const event = CALL_EVENTS.get(name);
  if (event === undefined) return;
  facts.takeFromCall(OPERATION, { stringValue: event.operation });
  for (const { key, value } of attributes) {
    const to = event.attributes?.get(key ?? '');
    if (to !== undefined && isGiven(value)) facts.takeFromCall(attributeKey(to), value);
  }
  if (hasAny(event.inputs, attributes)) facts.input.inEvents = true;
  if (hasAny(event.outputs, attributes)) facts.output.inEvents = true;
  takeCounts(facts, event, attributes);
}

function takeCounts(
  facts: SpanFacts,
  { usage = [] }: CallEvent,
  attributes: readonly OtlpKeyValue[],
): void {
  for (const beginning of usage) {
    const members = membersOf(attributes, beginning);
    if (members.length === 0) continue;
    facts.takeCounts(beginning.slice(0, -1), members);
    return;
  }
}

/** The members of an object that was sent as attributes: `usage.details.cached_tokens` is a member of the member `details`. */
function membersOf(attributes: readonly OtlpKeyValue[], beginning: string): ObjectMembers {
  const members = new Map<string, unknown>();
  const inner = new Map<string, [name: string, value: unknown][]>();
  for (const { key, value } of attributes) {
    if (key?.startsWith(beginning) !== true || !isGiven(value)) continue;
    const path = key.slice(beginning.length);
    const dot = path.indexOf('.');
    if (dot === -1) {
      members.set(path, scalarOf(value));
      continue;
    }
    const name = path.slice(0, dot);
    const object = inner.get(name) ?? [];
    if (object.length === 0) inner.set(name, object);
    object.push([path.slice(dot + 1), scalarOf(value)]);
  }
  return [...members, ...inner];
}

/** A member without a value is the JSON of null. */
function isGiven(value: OtlpKeyValue['value']): value is OtlpValue {
  return hasValue(value) && value.stringValue !== 'null';
}

function hasAny(keys: readonly string[] = [], attributes: readonly OtlpKeyValue[]): boolean {
  return attributes.some(
    ({ key, value }) => hasValue(value) && keys.some((wanted) => isOf(key ?? '', wanted)),
  );
}

function isOf(key: string, wanted: string): boolean {
  return wanted.endsWith('.*') ? key.startsWith(wanted.slice(0, -1)) : key === wanted;
}
