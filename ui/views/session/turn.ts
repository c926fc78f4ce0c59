import type { Message } from '../../parts/conversation.ts';

/**
 * The messages that a turn adds to a conversation: clients send the earlier ones again. Keeps the answer, and the messages since the
 * last answer before it; the instructions to the model are left out.
 */
export function newMessages(messages: readonly Message[]): readonly Message[] {
  const sent = messages.filter(({ isOutput }) => !isOutput);
  const answered = messages.filter(({ isOutput }) => isOutput);
  const last = sent.findLastIndex(({ role }) => role === 'assistant');
  const added = sent
    .slice(last + 1)
    .filter(({ role }) => role !== 'system' && role !== 'developer');
  return [...(added.length === 0 ? sent.slice(-1) : added), ...answered];
}
