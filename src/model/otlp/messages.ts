import type { OtlpEvent, OtlpKeyValue } from './span.ts';
import { contentText, hasValue, membersText, objectText, valueText } from './value.ts';

/** Steps that a key may have; what follows stays one dotted step, so that no key nests without end. */
const MAX_STEPS = 16;

/** OpenInference wraps each message and its parts in an object of one member; readers want what is inside. */
const WRAPPERS = new Set(['message', 'tool_call', 'message_content', 'document']);

/** A value, or what stands under a key by its next step. */
type Node = { text: string | undefined; children: Map<string, Node> | undefined };

/**
 * A numbered family of attributes as one JSON value: `llm.input_messages.0.message.role` and its siblings become
 * a list of messages. Numbers only order a list, so a sparse index costs nothing; a key that is both a
 * value and a parent keeps its dotted rest beside the value; no key can touch a prototype.
 */
export function unflatten(attributes: readonly OtlpKeyValue[], prefix: string): string {
  const root: Node = { text: undefined, children: new Map() };
  for (const { key, value } of attributes) {
    if (key === undefined || !key.startsWith(prefix) || !hasValue(value)) continue;
    insert(root, stepsOf(key.slice(prefix.length)), contentOfMessage(key, value));
  }
  return textOf(root);
}

/** Tool call arguments are JSON text by convention and stay text, as their APIs have them. */
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
      // A value stands where a parent would: the rest of the key goes beside it, with its dots.
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

/** Numbers count as places only where what stands there has parts of its own. */
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

const INPUT_MESSAGE = /^gen_ai\.(system|user|assistant|tool)\.message$/;

/** What a span's events say went in or came out, where no attribute does; undefined where nothing. */
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
      if (hasValue(value)) return contentText(value);
    } else if (name === legacyEvent) {
      const value = attributeOf(event, legacyKey);
      legacy = hasValue(value) ? contentText(value) : objectText(event.attributes);
    } else if (role === 'input' ? INPUT_MESSAGE.test(name) : name === 'gen_ai.choice') {
      messages.push(messageText(event, INPUT_MESSAGE.exec(name)?.[1]));
    }
  }
  return messages.length === 0 ? legacy : `[${messages.join(',')}]`;
}

function messageText(event: OtlpEvent, role: string | undefined): string {
  const members = new Map<string, string>();
  if (role !== undefined) members.set('role', JSON.stringify(role));
  for (const { key, value } of event.attributes ?? []) {
    if (key !== 'gen_ai.system') members.set(key ?? '', contentText(value));
  }
  return membersText(members);
}

function attributeOf(event: OtlpEvent, key: string): OtlpKeyValue['value'] {
  return event.attributes?.findLast((attribute) => attribute.key === key)?.value;
}
