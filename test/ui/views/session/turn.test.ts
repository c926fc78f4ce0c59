import t from 'tap';
import { conversationOf } from '../../../../ui/parts/conversation.ts';
import { newMessages } from '../../../../ui/views/session/turn.ts';

const say = (role: string, content: string) => ({ role, content });

function rolesOf(messages: readonly object[], output: unknown): string[] {
  return newMessages(conversationOf({ messages }, output) ?? []).map(({ role }) => role);
}

t.test('leaves out the messages that a turn sends again', async (t) => {
  const before = [say('system', 'Be brief.'), say('user', 'Hi'), say('assistant', 'Hello')];
  t.same(rolesOf(before.slice(0, 2), say('assistant', 'Hello')), ['user', 'assistant']);
  t.same(rolesOf([...before, say('user', 'Bye')], say('assistant', 'Bye')), ['user', 'assistant']);
});

t.test('keeps the last message of a turn without a question', async (t) => {
  t.same(rolesOf([say('system', 'Go.')], say('assistant', 'Done')), ['system', 'assistant']);
});
