import { CALL_EVENTS } from '../call-events.ts';
import { decodeCheckedText } from '../json/checked.ts';
import type { OtlpEvent, OtlpKeyValue } from './span.ts';
import { contentText, hasValue, membersText, objectText, valueText } from './value.ts';

/** The most steps of a key, which bounds the nesting; the rest of a longer key is one dotted step. */
const MAX_STEPS = 16;

/** OpenInference wraps messages and their parts in objects of one member, which are unwrapped. */
const WRAPPERS = new Set(['message', 'tool_call', 'message_content', 'document']);

/** The value of a key, or its children by the next step. */
type Node = { text: string | undefined; children: Map<string, Node> | undefined };

/**
 * A numbered family of attributes as one JSON value: `llm.input_messages.0.message.role` and its siblings become
 * a list of messages. Numbers only order a list, so a sparse index costs nothing. If a key is both a value and a
 * parent, its children are siblings of the value with dotted keys. No key can change a prototype.
 */
export function unflatten(attributes: readonly OtlpKeyValue[], prefix: string): string {
  const root: Node = { text: undefined, children: new Map() };
  for (const { key, value } of attributes) {
    if (!key?.startsWith(prefix) || !hasValue(value)) continue;
    insert(root, stepsOf(key.slice(prefix.length)), contentOfMessage(key, value));
  }
  return textOf(root);
}

/** The arguments of tool calls stay JSON text in a string, as in the models' APIs. */
function contentOfMessage(key: string, value: OtlpKeyValue['value']): string {
  return key.endsWith('.arguments') ? valueText(value) : contentText(value);
}

function stepsOf(rest: string): string[] {
  const steps = rest.split('.');
  if (steps.length <= MAX_STEPS) return steps;
  return [...steps.slice(0, MAX_STEPS - 1), steps.slice(MAX_STEPS - 1).join('.')];
}

function insert(root: Node, steps: readonly string[], text: string): void {
  let node = root;
  for (const [i, step] of steps.entries()) {
    if (node.text !== undefined) {
      // The parent is a value: the dotted rest of the key becomes its sibling.
      node.children ??= new Map();
      node.children.set(steps.slice(i).join('.'), { text, children: undefined });
      return;
    }
    node.children ??= new Map();
    let child = node.children.get(step);
    if (child === undefined) {
      child = { text: undefined, children: undefined };
      node.children.set(step, child);
    }
    node = child;
  }
  node.text = text;
}

function textOf(node: Node): string {
  const children = node.children;
  if (children === undefined) return node.text ?? 'null';
  if (node.text !== undefined) {
    const members = new Map([['', node.text]]);
    for (const [step, child] of children) members.set(step, textOf(child));
    return membersText(members);
  }
  if (isList(children)) {
    const ordered = [...children].sort(([a], [b]) => Number(a) - Number(b));
    return `[${ordered.map(([, child]) => textOf(unwrapped(child))).join(',')}]`;
  }
  const members = new Map<string, string>();
  for (const [step, child] of children) members.set(step, textOf(child));
  return membersText(members);
}

/** Numbered children are list elements only if all of them have children. */
function isList(children: ReadonlyMap<string, Node>): boolean {
  for (const [step, child] of children) {
    if (!/^(?:0|[1-9]\d{0,14})$/.test(step) || child.children === undefined) return false;
  }
  return true;
}

function unwrapped(node: Node): Node {
  if (node.text !== undefined || node.children?.size !== 1) return node;
  const [[step, child] = ['', node]] = node.children;
  return WRAPPERS.has(step) && child.children !== undefined ? child : node;
}

/** Adds instructions, which the conventions keep apart from the messages, as a system message. */
export function withInstructions(messages: string, instructions: string): string {
  const parts = instructions.trimStart().startsWith('[')
    ? instructions
    : `[{"type":"text","content":${instructions}}]`;
  const rest = messages.slice(messages.indexOf('[') + 1);
  const isEmpty = rest.trimStart().startsWith(']');
  return `[{"role":"system","parts":${parts}}${isEmpty ? '' : ','}${rest}`;
}

const INPUT_MESSAGE = /^gen_ai\.(system|user|assistant|tool)\.message$/;

/** The input or output in a span's events, for spans without an attribute for it; undefined if none. */
export function contentOfEvents(
  events: readonly OtlpEvent[],
  role: 'input' | 'output',
): string | undefined {
  const details = role === 'input' ? 'gen_ai.input.messages' : 'gen_ai.output.messages';
  const legacyEvent = role === 'input' ? 'gen_ai.content.prompt' : 'gen_ai.content.completion';
  const legacyKey = role === 'input' ? 'gen_ai.prompt' : 'gen_ai.completion';
  const messages: string[] = [];
  let legacy: string | undefined;
  for (const event of events) {
    const name = event.name ?? '';
    if (name === 'gen_ai.client.inference.operation.details') {
      const value = attributeOf(event, details);
      if (!hasValue(value)) continue;
      const text = contentText(value);
      return role === 'input' ? withInstructionsOf(events, text) : text;
    } else if (name === legacyEvent) {
      const value = attributeOf(event, legacyKey);
      legacy = hasValue(value) ? contentText(value) : objectText(event.attributes);
    } else if (role === 'input' ? INPUT_MESSAGE.test(name) : name === 'gen_ai.choice') {
      messages.push(messageText(event, INPUT_MESSAGE.exec(name)?.[1]));
    } else {
      legacy = contentOfCall(event, role) ?? legacy;
    }
  }
  return messages.length === 0 ? legacy : `[${messages.join(',')}]`;
}

/** The input or output in an event that describes the call of its span. */
function contentOfCall(event: OtlpEvent, role: 'input' | 'output'): string | undefined {
  const call = CALL_EVENTS.get(event.name ?? '');
  const attributes = event.attributes ?? [];
  for (const key of call?.[`${role}s`] ?? []) {
    const beginning = key.endsWith('.*') ? key.slice(0, -1) : undefined;
    const value = attributeOf(event, key);
    if (beginning === undefined && hasValue(value)) return contentText(value);
    const isFound = ({ key: of, value: own }: OtlpKeyValue) =>
      beginning !== undefined && of?.startsWith(beginning) === true && hasValue(own);
    if (beginning !== undefined && attributes.some(isFound))
      return unflatten(attributes, beginning);
  }
  return undefined;
}

/** Messages with the instructions in the same event, or in another one; they can precede a list only. */
function withInstructionsOf(events: readonly OtlpEvent[], messages: string): string {
  if (!messages.trimStart().startsWith('[')) return messages;
  for (const event of events) {
    if (event.name !== 'gen_ai.client.inference.operation.details') continue;
    const value = attributeOf(event, 'gen_ai.system_instructions');
    if (hasValue(value)) return withInstructions(messages, contentText(value));
  }
  return messages;
}

function messageText(event: OtlpEvent, role: string | undefined): string {
  const members = new Map<string, string>();
  if (role !== undefined) members.set('role', JSON.stringify(role));
  for (const { key, value } of event.attributes ?? []) {
    if (!isAboutMessage(key ?? '')) members.set(key ?? '', contentText(value));
  }
  const whole = attributeOf(event, WHOLE_MESSAGE);
  return hasValue(whole) ? withMessage(members, contentText(whole)) : membersText(members);
}

/** Clients of Azure have a whole message, as JSON, in one attribute; Semantic Kernel has it in the text of a log record. */
export const WHOLE_MESSAGE = 'gen_ai.event.content';

/** Attributes of a message's event that are no part of the message, as handlers of Python's logging add them. */
const ABOUT_MESSAGE: ReadonlySet<string> = new Set([
  ...['gen_ai.system', 'gen_ai.provider.name', 'event.name', 'user.id', WHOLE_MESSAGE],
  'CHAT_MESSAGE_INDEX',
]);

function isAboutMessage(key: string): boolean {
  return ABOUT_MESSAGE.has(key) || key.startsWith('code.');
}

/** The members of a message precede the others; a content that is no object is its only member. */
function withMessage(others: Map<string, string>, message: string): string {
  const decoded = message.trimStart().startsWith('{') ? decodeCheckedText(message) : undefined;
  if (!isObject(decoded)) return membersText(others.set('content', message));
  for (const key of Object.keys(decoded)) others.delete(key);
  if (others.size === 0) return message;
  const inner = message.slice(message.indexOf('{') + 1);
  const isEmpty = inner.trimStart().startsWith('}');
  return `${membersText(others).slice(0, -1)}${isEmpty ? '' : ','}${inner}`;
}

/** Whether a text is a message as JSON. A text that a user sends may be another object. */
export function isWholeMessage(text: string): boolean {
  const decoded = text.trimStart().startsWith('{') ? decodeCheckedText(text) : undefined;
  return isObject(decoded) && MESSAGE_MEMBERS.some((name) => Object.hasOwn(decoded, name));
}

const MESSAGE_MEMBERS = ['role', 'content', 'parts', 'message', 'tool_calls'] as const;

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function attributeOf(event: OtlpEvent, key: string): OtlpKeyValue['value'] {
  return event.attributes?.findLast((attribute) => attribute.key === key)?.value;
}
