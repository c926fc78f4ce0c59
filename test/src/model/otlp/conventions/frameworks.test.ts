import t from 'tap';
import { attributesOf, spanOf } from '../../../../helper/otlp-proto.ts';
import { read, withAttributes } from '../reading.ts';

/** Attributes of frameworks for agents and applications. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

t.test('Spring AI: tools, searches of vectors and conversations', async (t) => {
  const tool = withAttributes({
    'gen_ai.operation.name': 'framework',
    'spring.ai.tool.definition.name': 'weather',
    'spring.ai.tool.call.arguments': '{"city":"Oslo"}',
    'spring.ai.tool.call.result': '"sunny"',
  });
  t.match(tool.observation, { kind: 'tool', details: { tool: 'weather' } });
  t.match(tool.payload, { inputs: { city: 'Oslo' }, outputs: '"sunny"' });
  const search = {
    'db.vector.query.content': 'capital',
    'db.vector.query.response.documents': '["Paris"]',
  };
  t.match(withAttributes(search).payload, { inputs: 'capital', outputs: ['Paris'] });
  const chat = withAttributes({ 'spring.ai.chat.client.conversation.id': 'c-1' });
  t.equal(chat.observation.sessionId, 'c-1');
});

t.test('Mastra: agents, loops of model calls, workflows and scorers', async (t) => {
  for (const [type, kind, operation] of [
    ['agent_run', 'agent', 'invoke_agent'],
    ['model_generation', 'chain', 'model_generation'],
    ['model_step', 'chain', 'agent_step'],
    ['workflow_run', 'chain', 'invoke_workflow'],
    ['workflow_step', 'chain', 'workflow_step'],
    ['scorer_run', 'evaluator', 'scorer_run'],
    ['processor_run', 'span', 'processor_run'],
  ] as const) {
    const { observation, payload } = withAttributes({
      ...{ 'gen_ai.operation.name': operation, 'mastra.span.type': type },
      [`mastra.${type}.input`]: 'Weather?',
      [`mastra.${type}.output`]: '{"text":"sunny"}',
    });
    t.equal(observation.kind, kind, type);
    t.match(payload, { inputs: 'Weather?', outputs: { text: 'sunny' } }, type);
  }
  // Versions without spans of model calls give the loop the role of one.
  const older = { 'gen_ai.operation.name': 'chat', 'mastra.span.type': 'model_generation' };
  t.equal(withAttributes(older).observation.kind, 'generation');
  const { observation } = withAttributes({
    ...{ 'mastra.metadata.userId': 'u', 'mastra.metadata.sessionId': 's', 'mastra.tags': '["a"]' },
  });
  t.match(observation, { userId: 'u', sessionId: 's', details: { tags: ['a'] } });
});

t.test(
  'Vercel AI SDK: the tokens of embeddings are those of inputs, which have a price',
  async (t) => {
    const sent = { 'ai.operationId': 'ai.embed.doEmbed', 'ai.usage.tokens': 5 };
    t.match(withAttributes(sent).observation, { usage: { input_tokens: 5, total_tokens: 5 } });
  },
);

t.test('Vercel AI SDK: texts that it sends as JSON', async (t) => {
  const sent = { 'ai.toolCall.result': '"sunny"', 'ai.value': '"a text"' };
  t.match(withAttributes(sent).payload, { inputs: 'a text', outputs: 'sunny' });
  const values = ['"say \\"hi\\""', '"{\\"x\\":1}"', '{"y":2}', 'no JSON', '5'];
  t.match(withAttributes({ 'ai.values': values }).payload, {
    inputs: ['say "hi"', '{"x":1}', { y: 2 }, 'no JSON', 5],
  });
  t.match(withAttributes({ 'ai.values': '["a"]' }).payload, { inputs: ['a'] });
  t.match(withAttributes({ 'ai.values': 'b' }).payload, { inputs: 'b' });
});

t.test('Strands Agents for JavaScript: graphs and swarms', async (t) => {
  for (const operation of ['invoke_graph', 'invoke_swarm', 'execute_node']) {
    const { observation, payload } = withAttributes({
      'gen_ai.operation.name': operation,
      'gen_ai.agent.input': '"a question"',
      'gen_ai.usage.input_tokens': 21,
    });
    t.match(observation, { kind: 'chain', usage: { input_tokens: 21 } }, operation);
    t.match(payload, { inputs: 'a question' });
  }
});

t.test('Mastra: tokens of audio are parts of their sides', async (t) => {
  const sent = { 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 };
  const audio = { 'gen_ai.usage.audio_input_tokens': 5, 'gen_ai.usage.audio_output_tokens': 3 };
  t.same(usageOf({ ...sent, ...audio }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ input_audio_tokens: 5, output_audio_tokens: 3 },
  });
});

t.test('Haystack: pipelines, components, agents and tools', async (t) => {
  for (const [input, output] of [
    ['pipeline.input_data', 'pipeline.output_data'],
    ['component.input', 'component.output'],
    ['agent.step.llm.input', 'agent.step.llm.output'],
  ]) {
    const sent = { [`haystack.${input}`]: '{"q":1}', [`haystack.${output}`]: '{"a":2}' };
    t.match(withAttributes(sent).payload, { inputs: { q: 1 }, outputs: { a: 2 } });
  }
  const agent = { 'haystack.agent.max_steps': 3, 'haystack.agent.input': '{}' };
  t.match(withAttributes(agent).observation, { kind: 'agent' });
  const tool = { 'haystack.tool.name': 'weather', 'haystack.agent.step.tool.input': '{}' };
  t.match(withAttributes(tool).observation, { kind: 'tool', details: { tool: 'weather' } });
});

t.test('LiveKit Agents: turns, and the spans around model calls', async (t) => {
  const turn = { 'gen_ai.operation.name': 'invoke_agent', 'lk.pii.user_input': 'How warm?' };
  const { observation, payload } = withAttributes({ ...turn, 'lk.pii.response.text': '4' });
  t.equal(observation.kind, 'agent');
  t.match(payload, { inputs: 'How warm?', outputs: '4' });
  const items = [{ type: 'message', role: 'user', content: ['How warm?'] }];
  const calls = [{ name: 'get_weather', arguments: '{}' }];
  const asking = withAttributes({
    'lk.pii.chat_ctx': JSON.stringify({ items }),
    'lk.pii.response.text': '',
    'lk.pii.response.function_calls': JSON.stringify(calls),
  });
  t.match(asking.payload, { inputs: { items }, outputs: calls });
  const call = { 'gen_ai.output.messages': '[{"role":"assistant"}]', 'lk.pii.response.text': '4' };
  t.match(withAttributes(call).payload, { outputs: [{ role: 'assistant' }] });
  t.match(withAttributes({ 'lk.pii.user_transcript': 'How warm?' }).payload, {
    outputs: 'How warm?',
  });
  t.match(withAttributes({ 'lk.pii.input_text': '4' }).payload, { inputs: '4' });
});

t.test('Haystack: the model and the tokens of a call are in its outputs', async (t) => {
  const usage = {
    ...{ completion_tokens: 9, prompt_tokens: 21, total_tokens: 30 },
    completion_tokens_details: { audio_tokens: null, reasoning_tokens: 4 },
    prompt_tokens_details: { audio_tokens: null, cached_tokens: 8 },
  };
  const meta = { model: 'gpt-4o-mini-2024-07-18', index: 0, finish_reason: 'stop', usage };
  const expected = {
    kind: 'generation',
    model: 'gpt-4o-mini-2024-07-18',
    usage: {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ cached_tokens: 8, reasoning_tokens: 4 },
    },
  };
  const replies = [{ role: 'assistant', meta, content: [{ text: 'It is 4 degrees.' }] }];
  const output = JSON.stringify({ replies });
  const component = (type: string, outputs = output) => ({
    'haystack.component.type': type,
    'haystack.component.output': outputs,
  });
  const chat = withAttributes(component('OpenAIChatGenerator'));
  t.match(chat.observation, expected);
  t.match(chat.payload.outputs, { replies }, 'the outputs stay whole');
  const texts = JSON.stringify({ replies: ['It is 4 degrees.'], meta: [meta] });
  t.match(withAttributes(component('OpenAIGenerator', texts)).observation, expected);
  const step = {
    'haystack.agent.step.llm.input': '{"messages":[]}',
    'haystack.agent.step.llm.output': output,
  };
  t.match(withAttributes(step).observation, expected);
  const embedded = { embedding: [0.5], meta: { model: 'e-3', usage: { prompt_tokens: 5 } } };
  t.match(withAttributes(component('OpenAITextEmbedder', JSON.stringify(embedded))).observation, {
    ...{ kind: 'embedding', model: 'e-3', usage: { input_tokens: 5, total_tokens: 5 } },
  });
  const streamed = { replies: [{ meta: { ...meta, usage: null } }] };
  t.match(
    withAttributes(component('OpenAIChatGenerator', JSON.stringify(streamed))).observation,
    { kind: 'generation', model: 'gpt-4o-mini-2024-07-18', usage: null },
    'a streamed call without tokens',
  );
  const anthropic = {
    ...{ input_tokens: 5, cache_read_input_tokens: 8, cache_creation_input_tokens: 0 },
    output_tokens: 9,
  };
  const replied = { replies: [{ meta: { model: 'claude', usage: anthropic } }] };
  t.match(
    withAttributes(component('AnthropicChatGenerator', JSON.stringify(replied))).observation,
    { usage: { input_tokens: 13, output_tokens: 9, cached_tokens: 8, total_tokens: 22 } },
  );
});

t.test('Haystack: only model calls have tokens', async (t) => {
  const replies = [{ meta: { model: 'm', usage: { prompt_tokens: 21 } } }];
  const output = JSON.stringify({ replies });
  for (const [type, kind] of [
    ['BranchJoiner', 'span'],
    ['InMemoryBM25Retriever', 'retriever'],
    ['LostInTheMiddleRanker', 'retriever'],
    ['Agent', 'agent'],
  ]) {
    const sent = { 'haystack.component.type': type, 'haystack.component.output': output };
    t.match(withAttributes(sent).observation, { kind, model: null, usage: null }, String(type));
  }
  const pipeline = {
    'haystack.pipeline.max_runs_per_component': 100,
    'haystack.pipeline.output_data': JSON.stringify({ llm: { replies } }),
  };
  t.match(withAttributes(pipeline).observation, { kind: 'chain', model: null, usage: null });
  t.match(withAttributes({ 'haystack.agent.step': 0 }).observation, { kind: 'chain' });
  for (const outputs of ['{', '5', '[]', '{"replies":[null]}', '{"meta":{"usage":5}}']) {
    const sent = {
      'haystack.component.type': 'OpenAIChatGenerator',
      'haystack.component.output': outputs,
    };
    const { observation } = withAttributes(sent);
    t.match(observation, { kind: 'generation', model: null, usage: null }, outputs);
  }
});

t.test('Vercel AI SDK 6: counts in the object of a side', async (t) => {
  const attribute = 'langsmith.usage_metadata';
  const of = (usage: object) => usageOf({ [attribute]: JSON.stringify(usage) });
  const inputTokens = { total: 21, noCache: 13, cacheRead: 8 };
  const expected = { input_tokens: 21, output_tokens: 9, total_tokens: 30, cached_tokens: 8 };
  t.same(of({ inputTokens, outputTokens: { total: 9 } }), expected);
  t.same(of({ inputTokens, outputTokens: 9 }), expected);
});

t.test('Strands Agents, by its first names: tokens that were written to a cache', async (t) => {
  t.same(usageOf({ 'gen_ai.usage.input_tokens': 30, 'gen_ai.usage.cache_write_input_tokens': 8 }), {
    input_tokens: 30,
    total_tokens: 30,
    cache_write_tokens: 8,
  });
});

t.test('pydantic-ai: the agent, its details of usage and its cost', async (t) => {
  const { observation, payload } = withAttributes({
    agent_name: 'support',
    model_name: 'gpt-4o',
    'pydantic_ai.all_messages': '[{"role":"user"}]',
    final_result: 'done',
    'gen_ai.usage.input_tokens': 21,
    'gen_ai.usage.output_tokens': 9,
    'gen_ai.usage.details.reasoning_tokens': 4,
    'gen_ai.usage.details.cache_read_tokens': 8,
    'gen_ai.usage.details.input_audio_tokens': 2,
    'gen_ai.usage.details.invented': 3,
    'operation.cost': 0.25,
    'logfire.tags': ['x'],
  });
  t.match(observation, {
    kind: 'agent',
    model: 'gpt-4o',
    usage: {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ reasoning_tokens: 4, cached_tokens: 8, input_audio_tokens: 2 },
    },
    details: { tags: ['x'], cost: { total: 250_000_000 } },
  });
  t.match(payload, {
    inputs: [{ role: 'user' }],
    outputs: 'done',
    metadata: { 'gen_ai.usage.details.invented': 3 },
  });
});

t.test('pydantic-ai: the thoughts of Gemini are part of its output', async (t) => {
  const usage = usageOf({
    ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 },
    'gen_ai.usage.details.cached_content_tokens': 8,
    'gen_ai.usage.details.thoughts_tokens': 4,
  });
  t.same(usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
});

t.test('AG2: a record of usage repeats a call, unless it is the only one', async (t) => {
  const counts = { 'gen_ai.response.model': 'gpt', 'gen_ai.usage.input_tokens': 21 };
  const of = (kind: string) => withAttributes({ ...counts, 'ag2.usage.kind': kind });
  const { observation, payload } = of('model_call');
  t.match(observation, { kind: 'span', model: null, usage: null });
  t.match(payload.metadata, counts, 'nothing is lost');
  t.match(of('compaction').observation, {
    ...{ kind: 'generation', model: 'gpt', usage: { input_tokens: 21 } },
  });
  t.match(of('subtask').observation, { kind: 'span', usage: { input_tokens: 21 } });
});

t.test('AG2: tokens of thinking are tokens of reasoning', async (t) => {
  t.same(usageOf({ 'gen_ai.usage.output_tokens': 9, 'gen_ai.usage.thinking_tokens': 4 }), {
    ...{ output_tokens: 9, reasoning_tokens: 4, total_tokens: 9 },
  });
});

t.test('Spring AI: the model of a failed call, and its advisors and stores', async (t) => {
  const { observation, payload } = withAttributes({
    ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.system': 'openai' },
    ...{ 'gen_ai.request.model': 'gpt-4o-mini', 'gen_ai.response.model': 'none' },
  });
  t.match(observation, { kind: 'generation', model: 'gpt-4o-mini' });
  t.match(payload, { metadata: { 'gen_ai.response.model': 'none' } });
  for (const [attributes, kind] of [
    [{ 'spring.ai.kind': 'chat_client' }, 'chain'],
    [{ 'spring.ai.kind': 'advisor' }, 'chain'],
    [{ 'spring.ai.kind': 'tool_call', 'spring.ai.tool.definition.name': 'weather' }, 'tool'],
    [{ 'spring.ai.kind': 'vector_store', 'db.vector.query.top_k': '4' }, 'retriever'],
    [{ 'spring.ai.kind': 'vector_store', 'db.operation.name': 'add' }, 'span'],
  ] as const) {
    const sent = { 'gen_ai.operation.name': 'framework', ...attributes };
    t.match(withAttributes(sent).observation, { kind }, JSON.stringify(attributes));
  }
});

t.test('Pipecat: conversations, the time to the first byte, and tokens of caches', async (t) => {
  const turn = withAttributes({ 'turn.number': 1, 'conversation.id': 'conv-1' });
  t.match(turn.observation, { kind: 'span', sessionId: 'conv-1' });
  const attributes = {
    ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm', 'metrics.ttfb': 0.25 },
    ...{ 'gen_ai.usage.input_tokens': 13, 'gen_ai.usage.output_tokens': 9 },
    ...{
      'gen_ai.usage.cache_read.input_tokens': 5,
      'gen_ai.usage.cache_creation.input_tokens': 3,
    },
  };
  for (const [name, provider, input] of [
    ['pipecat', 'anthropic', 21],
    ['pipecat', 'aws.bedrock', 21],
    ['pipecat', 'openai', 13],
    ['other', 'anthropic', 13],
  ] as const) {
    const sent = attributesOf({ ...attributes, 'gen_ai.provider.name': provider });
    const { observation } = read(spanOf(0, { attributes: sent }), { scope: { name } });
    t.match(observation, {
      details: { ttftMs: 250 },
      usage: { input_tokens: input, output_tokens: 9, cached_tokens: 5, cache_write_tokens: 3 },
    });
  }
});

t.test('TanStack AI: the span around its model calls is no call', async (t) => {
  const sent = { 'gen_ai.system': 'openai', 'gen_ai.request.model': 'gpt-4o-mini' };
  const around = { ...sent, 'tanstack.ai.iterations': 2, 'langfuse.trace.input': '[]' };
  t.match(withAttributes(around).observation, { kind: 'chain' });
  const call = { ...sent, 'tanstack.ai.iteration': 0, 'gen_ai.operation.name': 'chat' };
  t.match(withAttributes(call).observation, { kind: 'generation' });
});

t.test('Copilot Chat in VS Code: the time to the first token', async (t) => {
  const attributes = { 'gen_ai.operation.name': 'chat', 'copilot_chat.time_to_first_token': 450 };
  t.match(withAttributes(attributes).observation, { details: { ttftMs: 450 } });
});

/** Events as `llama-index-observability-otel` sends them: objects as attributes with dots, and nulls as JSON. */
const llamaIndex = (...events: readonly (readonly [string, Record<string, unknown>])[]) =>
  read(
    spanOf(0, {
      events: events.map(([name, values]) => ({
        name,
        attributes: attributesOf({ ...values, class_name: name }),
      })),
    }),
    { scope: { name: 'llamaindex.opentelemetry.tracer' } },
  );

const MESSAGES = '[{"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}]}]';
const STARTED = {
  messages: MESSAGES,
  'model_dict.class_name': 'OpenAILike',
  'model_dict.model_name': 'gpt-4o-mini',
} as const;

t.test(
  'LlamaIndex: the events of a call have its model, tokens, messages and response',
  async (t) => {
    const { observation, payload } = llamaIndex(
      ['LLMChatStartEvent', STARTED],
      [
        'LLMChatEndEvent',
        {
          messages: MESSAGES,
          'response.message.role': 'assistant',
          'response.message.blocks': '[{"block_type": "text", "text": "4 degrees"}]',
          'response.raw.id': 'chatcmpl-3',
          'response.raw.model': 'gpt-4o-mini-2024-07-18',
          'response.raw.usage.completion_tokens': 9,
          'response.raw.usage.prompt_tokens': 21,
          'response.raw.usage.total_tokens': 30,
          'response.raw.usage.completion_tokens_details.audio_tokens': 'null',
          'response.raw.usage.completion_tokens_details.reasoning_tokens': 4,
          'response.raw.usage.prompt_tokens_details.cached_tokens': 8,
          'response.raw.system_fingerprint': 'null',
          'response.delta': 'null',
        },
      ],
    );
    t.match(observation, {
      kind: 'generation',
      model: 'gpt-4o-mini-2024-07-18',
      details: { responseId: 'chatcmpl-3', ignored: undefined },
    });
    t.same(observation.usage, {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ cached_tokens: 8, reasoning_tokens: 4 },
    });
    t.same(payload.inputs, JSON.parse(MESSAGES));
    t.same(payload.outputs, {
      role: 'assistant',
      blocks: [{ block_type: 'text', text: '4 degrees' }],
    });
  },
);

t.test('LlamaIndex: a stream has its first event only', async (t) => {
  const { observation, payload } = llamaIndex(['LLMChatStartEvent', STARTED]);
  t.match(observation, { kind: 'generation', model: 'gpt-4o-mini', usage: null });
  t.same(payload.inputs, JSON.parse(MESSAGES));
  t.notOk('outputs' in payload);
});

t.test(
  "LlamaIndex: Anthropic's cache is beside the input, and Google's counts have other names",
  async (t) => {
    const usage = (counts: Record<string, unknown>) =>
      llamaIndex(['LLMChatEndEvent', counts]).observation.usage;
    t.same(
      usage({
        'response.raw.usage.input_tokens': 5,
        'response.raw.usage.output_tokens': 7,
        'response.raw.usage.cache_read_input_tokens': 100,
        'response.raw.usage.cache_creation.ephemeral_1h_input_tokens': 10,
      }),
      {
        ...{ input_tokens: 115, output_tokens: 7, total_tokens: 122, cached_tokens: 100 },
        ...{ cache_write_tokens: 10, cache_write_1h_tokens: 10 },
      },
    );
    t.match(
      usage({
        'response.raw.usage_metadata.prompt_token_count': 5,
        'response.raw.usage_metadata.candidates_token_count': 7,
      }),
      { input_tokens: 5, output_tokens: 7 },
    );
  },
);

t.test('LlamaIndex: completions, embeddings, searches and queries', async (t) => {
  const completion = llamaIndex(
    ['LLMCompletionStartEvent', { prompt: 'Hi', 'model_dict.model': 'gpt-4o-mini' }],
    ['LLMCompletionEndEvent', { prompt: 'Hi', 'response.text': '4 degrees' }],
  );
  t.match(completion.observation, { kind: 'generation', model: 'gpt-4o-mini' });
  t.match(completion.payload, { inputs: 'Hi', outputs: '4 degrees' });
  const embedding = llamaIndex(
    ['EmbeddingStartEvent', { 'model_dict.model_name': 'small' }],
    ['EmbeddingEndEvent', { chunks: ['a', 'b'], embeddings: '[[0.5], [0.5]]' }],
  );
  t.match(embedding.observation, { kind: 'embedding', model: 'small' });
  t.same(embedding.payload.inputs, ['a', 'b']);
  const search = llamaIndex(
    ['RetrievalStartEvent', { 'str_or_query_bundle.query_str': 'q' }],
    ['RetrievalEndEvent', { 'str_or_query_bundle.query_str': 'q', nodes: '[{"score": 1}]' }],
  );
  t.match(search.observation, { kind: 'retriever', model: null });
  t.match(search.payload, { inputs: 'q', outputs: [{ score: 1 }] });
  const query = llamaIndex(
    ['QueryStartEvent', { query: 'q' }],
    ['QueryEndEvent', { 'query.query_str': 'q', 'response.response': '4 degrees' }],
  );
  t.match(query.observation, { kind: 'chain', model: null });
  t.match(query.payload, { inputs: 'q', outputs: '4 degrees' });
});

t.test(
  'LlamaIndex: a malformed count of an event costs its field, and attributes precede',
  async (t) => {
    const { observation } = llamaIndex([
      'LLMChatEndEvent',
      { 'response.raw.usage.prompt_tokens': 'many', 'response.raw.usage.completion_tokens': 9 },
    ]);
    t.same(observation.usage, { output_tokens: 9, total_tokens: 9 });
    t.match(observation.details?.ignored, [
      { path: 'attributes.response.raw.usage.prompt_tokens', reason: 'count' },
    ]);
    const attributes = { 'gen_ai.usage.input_tokens': 3, 'gen_ai.input.messages': '[]' };
    const event = { name: 'LLMChatEndEvent', attributes: attributesOf({ messages: MESSAGES }) };
    const both = withAttributes(attributes, { events: [event] });
    t.match(both.observation, { kind: 'generation', usage: { input_tokens: 3 } });
    t.same(both.payload.inputs, []);
  },
);

t.test(
  'LlamaIndex: attributes of the span precede those of an event of the same name',
  async (t) => {
    const counts = { input_tokens: 90, output_tokens: 80, cache_read_input_tokens: 7 };
    const raw = Object.entries(counts).map(([name, count]) => [
      `response.raw.usage.${name}`,
      count,
    ]);
    const sent = attributesOf({ 'response.raw.model': 'of-event', ...Object.fromEntries(raw) });
    const events = [{ name: 'LLMChatEndEvent', attributes: sent }];
    const own = {
      'gen_ai.operation.name': 'embeddings',
      'gen_ai.response.model': 'own',
      'langfuse.observation.usage_details': '{"input":3,"output":4}',
    };
    const { observation } = withAttributes(own, { events });
    t.match(observation, { kind: 'embedding', model: 'own' });
    t.match(observation.usage, { input_tokens: 3, output_tokens: 4 }, 'tokens are counted once');
    const empty = withAttributes({ 'gen_ai.response.model': '' }, { events });
    t.match(empty.observation, { kind: 'generation', model: 'of-event' });
  },
);
