import type { MessagePart, ToolCall } from './message-parts.ts';
import { contentParts, isRecord, textOf } from './message-parts.ts';

/** A message of a conversation with a model, whatever the form in which a client sent it. */
export type Message = {
  /** In lower case: `system`, `user`, `assistant`, `tool`, or a role of the client's own. */
  readonly role: string;
  readonly name: string | undefined;
  readonly parts: readonly MessagePart[];
  /** It is the answer of the model, not a part of its input. */
  readonly isOutput: boolean;
  /** Why the model stopped, as it says. */
  readonly finish: string | undefined;
};

/**
 * The conversation of inputs and outputs; undefined if neither has the form of messages. It reads the forms of OpenAI (chat,
 * completions, responses), Anthropic, Gemini, LangChain, the semantic conventions of OpenTelemetry, OpenInference and the AI SDK.
 * The result of a tool call is beside its call, if the call is there.
 */
export function conversationOf(inputs: unknown, outputs: unknown): Message[] | undefined {
  const sent = messagesIn(inputs, 0);
  const answered = messagesIn(outputs, 0);
  if (sent === undefined && answered === undefined) return undefined;
  return paired([
    ...(sent ?? single(inputs, 'user')).map((each) => ({ ...each, isOutput: false })),
    ...(answered ?? single(outputs, 'assistant')).map((each) => ({ ...each, isOutput: true })),
  ]);
}

/** A value that has no form of messages, beside one that has. */
function single(value: unknown, role: string): Message[] {
  if (value === undefined || value === null || value === '') return [];
  const part: MessagePart =
    typeof value === 'string'
      ? { type: 'text', text: value }
      : { type: 'data', label: role === 'user' ? 'Input' : 'Output', value };
  return [message(role, [part])];
}

function message(role: string, parts: readonly MessagePart[], finish?: string): Message {
  return { role, name: undefined, parts, isOutput: false, finish };
}

/** The nesting that a form has at most. */
const DEEPEST = 6;

function messagesIn(value: unknown, depth: number): Message[] | undefined {
  if (depth > DEEPEST) return undefined;
  if (Array.isArray(value)) return listed(value, depth);
  if (!isRecord(value)) return undefined;
  const one = oneMessage(value);
  if (one !== undefined) return [one];
  return insideOf(value, depth);
}

function listed(values: readonly unknown[], depth: number): Message[] | undefined {
  if (values.length === 0) return undefined;
  const messages: Message[] = [];
  for (const each of values) {
    const found = messagesIn(each, depth + 1);
    if (found === undefined) return undefined;
    // One by one: a call takes only so many arguments.
    for (const message of found) messages.push(message);
  }
  return messages;
}

/** The members that hold a list of messages, with the member that holds the instructions beside them. */
const LISTS: readonly (readonly [list: string, instructions: string])[] = [
  ['messages', 'system'],
  ['contents', 'systemInstruction'],
  ['contents', 'system_instruction'],
  ['input', 'instructions'],
  ['output', ''],
  ['choices', ''],
  ['candidates', ''],
  ['generations', ''],
];

function insideOf(value: Readonly<Record<string, unknown>>, depth: number): Message[] | undefined {
  for (const [list, instructions] of LISTS) {
    const inner = value[list];
    const found =
      list === 'input' && typeof inner === 'string' && instructions in value
        ? single(inner, 'user')
        : Array.isArray(inner)
          ? listed(inner, depth + 1)
          : undefined;
    if (found === undefined) continue;
    const system = value[instructions];
    return system === undefined || system === null
      ? found
      : [message('system', contentParts(contentOf(system))), ...found];
  }
  const { kwargs, message: wrapped, response } = value;
  for (const inner of [kwargs, wrapped, response]) {
    const found = isRecord(inner) ? messagesIn(inner, depth + 1) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}

function contentOf(value: unknown): unknown {
  return isRecord(value) ? (value['parts'] ?? value['content'] ?? value) : value;
}

function oneMessage(value: Readonly<Record<string, unknown>>): Message | undefined {
  return wrappedMessage(value) ?? langChainMessage(value) ?? item(value) ?? roleMessage(value);
}

/** `{message: …, finish_reason}` of choices, candidates and generations. */
function wrappedMessage(value: Readonly<Record<string, unknown>>): Message | undefined {
  const { message: given, delta, content, text } = value;
  const finish = finishOf(value);
  for (const inner of [given, delta]) {
    const found = isRecord(inner) ? oneMessage(inner) : undefined;
    if (found !== undefined) return { ...found, finish: found.finish ?? finish };
  }
  const isChoice = finish !== undefined || 'index' in value || 'generationInfo' in value;
  if (isRecord(content) && Array.isArray(content['parts'])) {
    const role = typeof content['role'] === 'string' ? content['role'] : 'assistant';
    return message(roleOf(role), contentParts(content['parts']), finish);
  }
  if (typeof text === 'string' && isChoice && !('role' in value) && !('type' in value)) {
    return message('assistant', [{ type: 'text', text }], finish);
  }
  return undefined;
}

function finishOf(value: Readonly<Record<string, unknown>>): string | undefined {
  const reasons = ['finish_reason', 'finishReason', 'stop_reason'].map((name) => value[name]);
  return reasons.find((reason) => typeof reason === 'string');
}

/** Messages of LangChain: serialized, as a dictionary, or with a `type` in the place of a role. */
function langChainMessage(value: Readonly<Record<string, unknown>>): Message | undefined {
  const { lc, id, kwargs, type, data } = value;
  if (lc !== undefined && Array.isArray(id) && isRecord(kwargs)) {
    const role = LANGCHAIN_CLASSES.get(textOf(id.at(-1))?.replace(/Chunk$/, '') ?? '');
    return role === undefined
      ? undefined
      : roleMessage({ ...kwargs, role: kwargs['role'] ?? role });
  }
  const role = typeof type === 'string' ? LANGCHAIN_TYPES.get(type) : undefined;
  if (role === undefined) return undefined;
  if (isRecord(data)) return roleMessage({ ...data, role: data['role'] ?? role });
  return 'content' in value ? roleMessage({ ...value, role }) : undefined;
}

const LANGCHAIN_CLASSES: ReadonlyMap<string, string> = new Map([
  ...[['HumanMessage', 'user'] as const, ['AIMessage', 'assistant'] as const],
  ...[['SystemMessage', 'system'] as const, ['ToolMessage', 'tool'] as const],
  ...[['FunctionMessage', 'tool'] as const, ['ChatMessage', 'user'] as const],
]);
const LANGCHAIN_TYPES: ReadonlyMap<string, string> = new Map([
  ...[['human', 'user'] as const, ['ai', 'assistant'] as const, ['system', 'system'] as const],
  ...[['tool', 'tool'] as const, ['function', 'tool'] as const],
  ...[['AIMessageChunk', 'assistant'] as const],
]);

/** The items of OpenAI's responses that have no role. */
function item(value: Readonly<Record<string, unknown>>): Message | undefined {
  const { type } = value;
  if ('role' in value) return undefined;
  if (type === 'function_call' || type === 'custom_tool_call' || type === 'reasoning') {
    return message('assistant', contentParts([value]));
  }
  if (type === 'function_call_output' || type === 'custom_tool_call_output') {
    return message('tool', contentParts([value]));
  }
  return undefined;
}

/** The members of which a message with a role has at least one. */
const BODIES = [
  ...['content', 'parts', 'tool_calls', 'contents', 'function_call', 'refusal'],
  // LlamaIndex.
  'blocks',
];

function roleMessage(value: Readonly<Record<string, unknown>>): Message | undefined {
  const { role, name } = value;
  if (typeof role !== 'string' || role === '' || !BODIES.some((body) => body in value)) {
    return undefined;
  }
  const parts = [
    ...contentParts(reasoningOf(value)),
    ...contentParts(value['content'] ?? value['parts'] ?? value['contents'] ?? value['blocks']),
    ...contentParts(value['refusal']),
    ...calledTools(value),
  ];
  const isResult = roleOf(role) === 'tool';
  const id = value['tool_call_id'] ?? value['toolCallId'] ?? idInMore(value);
  const shown: readonly MessagePart[] =
    isResult && !parts.some(({ type }) => type === 'tool_result')
      ? [{ type: 'tool_result', id: textOf(id), name: textOf(name), parts }]
      : parts;
  return {
    role: roleOf(role),
    name: textOf(name),
    parts: shown,
    isOutput: false,
    finish: finishOf(value),
  };
}

function reasoningOf(value: Readonly<Record<string, unknown>>): unknown {
  const text = value['reasoning_content'] ?? value['reasoning'];
  return typeof text === 'string' && text !== '' ? [{ type: 'reasoning', text }] : undefined;
}

function idInMore({ additional_kwargs: more }: Readonly<Record<string, unknown>>): unknown {
  return isRecord(more) ? more['tool_call_id'] : undefined;
}

function calledTools(value: Readonly<Record<string, unknown>>): MessagePart[] {
  const { tool_calls: calls, additional_kwargs: more, function_call: legacy, blocks } = value;
  // LlamaIndex has its calls as blocks, too.
  if (Array.isArray(blocks) && blocks.some((block) => isRecord(block) && 'tool_name' in block)) {
    return [];
  }
  const own = Array.isArray(calls) ? calls : [];
  const given =
    own.length === 0 && isRecord(more) && Array.isArray(more['tool_calls'])
      ? more['tool_calls']
      : own;
  const all = isRecord(legacy) ? [...given, legacy] : given;
  return contentParts(all.map((call) => (isRecord(call) ? { ...call, type: 'tool_call' } : call)));
}

function roleOf(role: string): string {
  const lower = role.toLowerCase();
  if (lower === 'human') return 'user';
  if (lower === 'ai' || lower === 'model') return 'assistant';
  if (lower === 'function') return 'tool';
  return lower;
}

/**
 * Puts results of tool calls beside their calls, and leaves out messages that had nothing else. Some clients begin the ids again with each
 * turn: a result belongs to the first call before it that has its id and no result yet. A call that got none does not wait for that of a
 * call with its id in a later turn.
 */
function paired(messages: readonly Message[]): Message[] {
  const waiting = new Map<string, { turn: number; calls: ToolCall[] }>();
  const results = new Map<MessagePart, readonly MessagePart[]>();
  const placed = new Set<MessagePart>();
  let turn = 0;
  for (const { role, parts } of messages) {
    // Some clients send results with the role of a user.
    if (role === 'user' && !parts.some(({ type }) => type === 'tool_result')) turn += 1;
    for (const part of parts) {
      if (part.type === 'tool_call' && part.id !== undefined) {
        const before = waiting.get(part.id);
        if (before?.turn === turn) before.calls.push(part);
        else waiting.set(part.id, { turn, calls: [part] });
      }
      if (part.type !== 'tool_result' || part.id === undefined) continue;
      const call = waiting.get(part.id)?.calls.shift();
      if (call === undefined) continue;
      results.set(call, part.parts);
      placed.add(part);
    }
  }
  const withResult = (part: MessagePart): MessagePart => {
    const result = results.get(part);
    return result === undefined ? part : ({ ...part, result } as ToolCall);
  };
  return messages
    .map((each) => ({ each, left: each.parts.filter((part) => !placed.has(part)) }))
    .filter(({ each, left }) => left.length > 0 || each.parts.length === 0)
    .map(({ each, left }) => ({ ...each, parts: left.map(withResult) }));
}
