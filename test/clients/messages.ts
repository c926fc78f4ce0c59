import { ANSWER, ANSWER_PARTS, ANTHROPIC_USAGE, CITY } from './plot.ts';

/** The Messages API of the fake model server, plain and streamed. */
export type MessagesBody = {
  readonly model: string;
  readonly stream?: boolean;
  readonly messages?: readonly { readonly role: string; readonly content: unknown }[];
  readonly tools?: readonly { readonly name: string }[];
};

type Block =
  | { readonly type: 'text'; readonly text: string }
  | {
      readonly type: 'tool_use';
      readonly id: string;
      readonly name: string;
      readonly input: object;
    };

/** The tools of coding agents, which take a command of a shell. */
export const SHELL_TOOLS: readonly string[] = ['Bash', 'exec_command', 'shell'];
export const SHELL_COMMAND = 'echo 4 degrees';

/** A call that asks for a tool, or the answer if the messages have a result. */
export function messageOf(body: MessagesBody, call: number) {
  const block = blockOf(body, call);
  const { input_tokens, cache_read, cache_write, output_tokens } = ANTHROPIC_USAGE;
  return {
    id: `msg_${call}`,
    type: 'message',
    role: 'assistant',
    model: body.model,
    content: [block],
    stop_reason: block.type === 'text' ? 'end_turn' : 'tool_use',
    stop_sequence: null,
    usage: {
      input_tokens,
      cache_read_input_tokens: cache_read,
      cache_creation_input_tokens: cache_write,
      output_tokens,
    },
  };
}

function blockOf({ tools = [], messages = [] }: MessagesBody, call: number): Block {
  const content = messages.at(-1)?.content;
  const hasResult = Array.isArray(content) && content.some(({ type }) => type === 'tool_result');
  const tool = tools.find(({ name }) => SHELL_TOOLS.includes(name)) ?? tools[0];
  if (hasResult || tool === undefined) return { type: 'text', text: ANSWER };
  const input = SHELL_TOOLS.includes(tool.name) ? { command: SHELL_COMMAND } : CITY;
  return { type: 'tool_use', id: `toolu_${call}`, name: tool.name, input };
}

/** The events of a stream. */
export function messageEvents(body: MessagesBody, call: number): string[] {
  const { content, stop_reason, stop_sequence, usage, ...message } = messageOf(body, call);
  const open = { ...message, content: [], stop_reason: null, stop_sequence };
  return [
    event('message_start', { message: { ...open, usage: { ...usage, output_tokens: 1 } } }),
    ...content.flatMap(blockEvents),
    event('message_delta', {
      delta: { stop_reason, stop_sequence },
      usage: { output_tokens: usage.output_tokens },
    }),
    event('message_stop', {}),
  ];
}

function blockEvents(block: Block, index: number): string[] {
  const isText = block.type === 'text';
  const deltas = isText
    ? ANSWER_PARTS.map((text) => ({ type: 'text_delta', text }))
    : [{ type: 'input_json_delta', partial_json: JSON.stringify(block.input) }];
  const content_block = isText ? { ...block, text: '' } : { ...block, input: {} };
  return [
    event('content_block_start', { index, content_block }),
    ...deltas.map((delta) => event('content_block_delta', { index, delta })),
    event('content_block_stop', { index }),
  ];
}

function event(type: string, data: object): string {
  return `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
}
