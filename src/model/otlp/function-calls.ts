import { OPEN_BRACE } from '../json/grammar.ts';
import { membersOf, typeOfByte } from '../json/read.ts';
import type { OtlpKeyValue } from './span.ts';
import { hasValue, membersText, valueText } from './value.ts';

const CALL = /^gen_ai\.completion\.(\d{1,6})\.function_call\.(name|arguments)$/;

/**
 * LiteLLM sends the messages of an answer without their tool calls, and each call in numbered attributes beside them. The number is that
 * of the call, not of the message: the calls are parts of the first message. Undefined if the messages have calls themselves, or if
 * there are none.
 */
export function withFunctionCalls(
  messages: string,
  attributes: readonly OtlpKeyValue[],
): string | undefined {
  const calls = functionCalls(attributes);
  if (calls.length === 0 || HAS_CALLS.test(messages) || !FIRST_MESSAGE.test(messages)) {
    return undefined;
  }
  const bytes = Buffer.from(messages);
  const start = bytes.indexOf(OPEN_BRACE);
  for (const { key, start: from, end } of membersOf(bytes, start)) {
    if (key !== 'parts' || typeOfByte(bytes[from]) !== 'array') continue;
    const before = bytes.toString('utf8', 0, end - 1).trimEnd();
    const comma = before.endsWith('[') ? '' : ',';
    return `${before}${comma}${calls.join()}${bytes.toString('utf8', end - 1)}`;
  }
  return undefined;
}

export function isFunctionCall(key: string): boolean {
  return CALL.test(key);
}

/** A list of messages begins with an object. */
const FIRST_MESSAGE = /^\s*\[\s*\{/;

/** As members or parts; the reason of an end has the same word. */
const HAS_CALLS = /"(?:tool_calls|function_call)"\s*:|"type"\s*:\s*"(?:tool|function)_call"/;

function functionCalls(attributes: readonly OtlpKeyValue[]): string[] {
  const found = new Map<number, Map<string, string>>();
  for (const { key = '', value } of attributes) {
    // Hot path: nearly all attributes have other keys.
    if (!key?.startsWith('gen_ai.completion.') || !hasValue(value)) continue;
    const [, number, member] = CALL.exec(key) ?? [];
    if (number === undefined || member === undefined) continue;
    const members = found.get(Number(number)) ?? new Map([['type', '"tool_call"']]);
    found.set(Number(number), members.set(member, valueText(value)));
  }
  return [...found].sort(([a], [b]) => a - b).map(([, members]) => membersText(members));
}
