import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type MessagesBody,
  messageEvents,
  messageOf,
  SHELL_COMMAND,
  SHELL_TOOLS,
} from './messages.ts';
import { ANSWER, ANSWER_PARTS, CALL_USAGE, CITY, EMBEDDING_USAGE, MISSING_MODEL } from './plot.ts';

/**
 * A fake OpenAI and Anthropic on loopback: chat, responses and messages (plain, streamed, with tools), and embeddings. A call
 * with tools asks for a shell, else for the first tool, until the messages have a result. A model named `no-such-model` is 404.
 */
export type ModelServer = {
  /** With `/v1`, as `OPENAI_BASE_URL` takes it. */
  readonly url: string;
  close(): Promise<void>;
};

const CREATED = 1_767_225_600;

type Body = {
  readonly model: string;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
  readonly messages?: readonly { readonly role: string }[];
  readonly input?: unknown;
  readonly tools?: readonly { readonly name?: string; readonly function?: { name: string } }[];
  readonly encoding_format?: string;
};

export async function startModelServer(): Promise<ModelServer> {
  let calls = 0;
  const server = createServer((request, response) => {
    answer(request, response, ++calls).catch((error: unknown) => {
      response.destroy(error instanceof Error ? error : new Error(String(error)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  call: number,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = JSON.parse(Buffer.concat(chunks).toString() || '{}') as Body;
  const path = request.url?.replace(/\?.*/, '');
  if (body.model === MISSING_MODEL) return failed(response, path === '/v1/messages');
  if (path === '/v1/chat/completions') return chat(response, body, call);
  if (path === '/v1/responses') return respond(response, body, call);
  if (path === '/v1/messages') return write(response, body as MessagesBody, call);
  if (path === '/v1/embeddings') return embed(response, body);
  send(response, 404, { error: { message: `the fake model server has no ${path}` } });
}

function chat(response: ServerResponse, body: Body, call: number): void {
  const common = { id: `chatcmpl-${call}`, created: CREATED, model: `${body.model}-2024-07-18` };
  const tool = toolOf(body, body.messages?.at(-1)?.role === 'tool');
  const message = tool
    ? { role: 'assistant', content: null, tool_calls: [toolCall(tool, call)] }
    : { role: 'assistant', content: ANSWER };
  const finish_reason = tool ? 'tool_calls' : 'stop';
  const usage = {
    prompt_tokens: CALL_USAGE.input_tokens,
    completion_tokens: CALL_USAGE.output_tokens,
    total_tokens: CALL_USAGE.total_tokens,
    prompt_tokens_details: { cached_tokens: CALL_USAGE.cached_tokens },
    completion_tokens_details: { reasoning_tokens: CALL_USAGE.reasoning_tokens },
  };
  if (body.stream !== true) {
    const choices = [{ index: 0, message, finish_reason, logprobs: null }];
    send(response, 200, { ...common, object: 'chat.completion', choices, usage });
    return;
  }
  const chunk = (choices: readonly object[], more: object = {}) =>
    `data: ${JSON.stringify({ ...common, object: 'chat.completion.chunk', choices, ...more })}\n\n`;
  const deltas = tool
    ? [{ role: 'assistant', tool_calls: [{ index: 0, ...toolCall(tool, call) }] }]
    : ANSWER_PARTS.map((content) => ({ role: 'assistant', content }));
  stream(response, [
    ...deltas.map((delta) => chunk([{ index: 0, delta, finish_reason: null }])),
    chunk([{ index: 0, delta: {}, finish_reason }]),
    ...(body.stream_options?.include_usage ? [chunk([], { usage })] : []),
    'data: [DONE]\n\n',
  ]);
}

function toolCall(name: string, call: number) {
  return { id: `call_${call}`, type: 'function', function: { name, arguments: argumentsOf(name) } };
}

/** The tool that this answer calls. */
function toolOf(body: Body, hasResult: boolean): string | undefined {
  const names = (body.tools ?? []).map((tool) => tool.function?.name ?? tool.name);
  const shell = names.find((name) => name !== undefined && SHELL_TOOLS.includes(name));
  return hasResult ? undefined : (shell ?? names[0]);
}

function respond(response: ServerResponse, body: Body, call: number): void {
  const items = Array.isArray(body.input) ? (body.input as { type?: string }[]) : [];
  const tool = toolOf(body, items.at(-1)?.type === 'function_call_output');
  const text = { type: 'output_text', text: ANSWER, annotations: [] };
  const item = tool
    ? {
        ...{ type: 'function_call', id: `fc_${call}`, call_id: `call_${call}` },
        ...{ name: tool, arguments: argumentsOf(tool), status: 'completed' },
      }
    : {
        ...{ type: 'message', id: `msg_${call}`, role: 'assistant' },
        ...{ status: 'completed', content: [text] },
      };
  const whole = {
    id: `resp_${call}`,
    object: 'response',
    created_at: CREATED,
    status: 'completed',
    model: `${body.model}-2024-07-18`,
    output: [item],
    parallel_tool_calls: true,
    tool_choice: 'auto',
    tools: [],
    usage: {
      input_tokens: CALL_USAGE.input_tokens,
      output_tokens: CALL_USAGE.output_tokens,
      total_tokens: CALL_USAGE.total_tokens,
      input_tokens_details: { cached_tokens: CALL_USAGE.cached_tokens },
      output_tokens_details: { reasoning_tokens: CALL_USAGE.reasoning_tokens },
    },
  };
  if (body.stream !== true) {
    send(response, 200, whole);
    return;
  }
  const event = (type: string, data: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;
  stream(response, [
    event('response.created', { response: { ...whole, status: 'in_progress', output: [] } }),
    event('response.output_item.done', { output_index: 0, item }),
    event('response.completed', { response: whole }),
  ]);
}

/** Coding agents take a command, in one of two forms. */
function argumentsOf(tool: string): string {
  if (!SHELL_TOOLS.includes(tool)) return JSON.stringify(CITY);
  const command = tool === 'shell' ? ['sh', '-c', SHELL_COMMAND] : SHELL_COMMAND;
  return JSON.stringify(tool === 'exec_command' ? { cmd: command } : { command });
}

function write(response: ServerResponse, body: MessagesBody, call: number): void {
  response.setHeader('request-id', `req_${call}`);
  if (body.stream === true) stream(response, messageEvents(body, call));
  else send(response, 200, messageOf(body, call));
}

function embed(response: ServerResponse, body: Body): void {
  const texts = Array.isArray(body.input) ? body.input : [body.input];
  const vector = [0.5, 0.25, -0.125];
  const embedding =
    body.encoding_format === 'base64'
      ? Buffer.from(Float32Array.from(vector).buffer).toString('base64')
      : vector;
  send(response, 200, {
    object: 'list',
    model: body.model,
    data: texts.map((_, index) => ({ object: 'embedding', index, embedding })),
    usage: {
      prompt_tokens: EMBEDDING_USAGE.input_tokens,
      total_tokens: EMBEDDING_USAGE.total_tokens,
    },
  });
}

function failed(response: ServerResponse, isMessage: boolean): void {
  const message = `The model \`${MISSING_MODEL}\` does not exist`;
  const error = isMessage
    ? { type: 'not_found_error', message }
    : { message, type: 'invalid_request_error', param: null, code: 'model_not_found' };
  send(response, 404, isMessage ? { type: 'error', error } : { error });
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function stream(response: ServerResponse, chunks: readonly string[]): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const chunk of chunks) response.write(chunk);
  response.end();
}
