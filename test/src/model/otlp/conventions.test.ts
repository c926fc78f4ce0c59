import { readFileSync } from 'node:fs';
import t from 'tap';
import { attributeKey } from '../../../../src/model/attributes.ts';
import { EVENTS, KINDS } from '../../../../src/model/conventions.ts';
import { TOKEN_KINDS } from '../../../../src/model/token-conventions.ts';
import { attributesOf, spanOf } from '../../../helper/otlp-proto.ts';
import { read, withAttributes } from './reading.ts';

/** Each test has the attributes of a real client, which it names. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

t.test('Langfuse: the level ERROR is a failure with the status message', async (t) => {
  const failed = {
    'langfuse.observation.level': 'ERROR',
    'langfuse.observation.status_message': 'Error: 400 the model is unknown',
  };
  t.match(withAttributes(failed).observation, {
    status: 'error',
    operation: 'error',
    ended: true,
    error: { message: 'Error: 400 the model is unknown', type: null },
  });
  const status = { code: 2, message: 'of the status' };
  t.match(
    withAttributes(failed, { status }).observation.error,
    { message: 'of the status' },
    'the message of the level remains in the metadata',
  );
  const exception = attributesOf({ 'exception.message': 'of the exception' });
  t.match(
    withAttributes(failed, { status, events: [{ name: 'exception', attributes: exception }] })
      .observation.error,
    { message: 'of the exception' },
  );
  for (const level of ['WARNING', 'DEFAULT', 'error', 5]) {
    const { observation } = withAttributes({ ...failed, 'langfuse.observation.level': level });
    t.match(observation, { status: 'pending', error: null }, String(level));
  }
});

t.test('Langfuse: the attributes of the trace are mapped', async (t) => {
  const { observation, payload } = withAttributes({
    'langfuse.trace.name': 'lf trace',
    'user.id': 'u',
    'session.id': 's',
    'langfuse.trace.tags': ['a', 'b'],
    'langfuse.environment': 'staging',
    'langfuse.release': '1.2',
    'langfuse.trace.public': true,
    'langfuse.trace.metadata.k': '"v"',
    'langfuse.trace.metadata.plain': 'text',
    'langfuse.trace.metadata.digits': '12',
    'langfuse.observation.metadata.nested': '{"a":[1]}',
    'langfuse.trace.input': '{"q":1}',
  });
  t.match(observation, {
    sessionId: 's',
    userId: 'u',
    details: { traceName: 'lf trace', tags: ['a', 'b'], environment: 'staging', release: '1.2' },
  });
  t.match(payload.inputs, { q: 1 });
  t.match(payload.metadata, {
    'langfuse.trace.public': true,
    'langfuse.trace.metadata.k': 'v',
    'langfuse.trace.metadata.plain': 'text',
    'langfuse.trace.metadata.digits': '12',
    'langfuse.observation.metadata.nested': { a: [1] },
  });
});

t.test('Langfuse JS: input without cached tokens, output without reasoning', async (t) => {
  const details = { input: 13, output: 5, total: 30, input_cached_tokens: 8 };
  t.same(
    usageOf({
      'langfuse.observation.usage_details': JSON.stringify({
        ...details,
        output_reasoning_tokens: 4,
      }),
    }),
    {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ cached_tokens: 8, reasoning_tokens: 4 },
    },
  );
});

t.test('Langfuse Python: input and output of LangChain without audio', async (t) => {
  const sent = {
    ...{ input: 10, input_cache_read: 3, input_audio: 5 },
    ...{ output: 7, output_reasoning: 1, output_audio: 2, total: 28 },
  };
  const expected = {
    ...{ input_tokens: 18, output_tokens: 10, total_tokens: 28, cached_tokens: 3 },
    ...{ reasoning_tokens: 1, input_audio_tokens: 5, output_audio_tokens: 2 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), expected);
  const { total: _, ...withoutTotal } = sent;
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(withoutTotal) }), expected);
});

t.test(
  'Langfuse Python: cache writes of LangChain by tier are cache writes of the input',
  async (t) => {
    const of = (sent: object) =>
      usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) });
    const tiers = {
      ...{ input: 52, output: 9, input_cache_read: 0, input_cache_creation: 0 },
      ...{ input_ephemeral_5m_input_tokens: 2048, input_ephemeral_1h_input_tokens: 100 },
    };
    const expected = {
      ...{ input_tokens: 2200, output_tokens: 9, total_tokens: 2209 },
      ...{ cached_tokens: 0, cache_write_tokens: 2148, cache_write_1h_tokens: 100 },
    };
    t.same(of(tiers), expected);
    t.same(of({ ...tiers, total: 2209 }), expected);
    t.match(of({ ...tiers, input_cache_creation: 2148 }), expected, 'once, if the sum is sent too');
    const raw = {
      ...{ input_tokens: 52, output_tokens: 9, cache_creation_input_tokens: 2048 },
      cache_creation_ephemeral_5m_input_tokens: 2048,
    };
    t.match(of(raw), { input_tokens: 2100, cache_write_tokens: 2048 });
    const hour = { ...raw, cache_creation_ephemeral_1h_input_tokens: 100 };
    t.match(of({ ...hour, cache_creation_input_tokens: 2148 }), {
      ...{ input_tokens: 2200, cache_write_tokens: 2148, cache_write_1h_tokens: 100 },
    });
  },
);

t.test('Langfuse Python: modalities of Vertex AI are part of their side', async (t) => {
  const sent = {
    ...{ input: 0, output: 0, total: 110, input_modality_1: 60, input_modality_2: 20 },
    ...{ cached_modality_1: 15, input_modality_5: 5, output_modality_1: 10 },
  };
  const expected = {
    ...{ input_tokens: 100, output_tokens: 10, total_tokens: 110, cached_tokens: 15 },
    ...{ input_text_tokens: 60, input_image_tokens: 20, output_text_tokens: 10 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), expected);
  const of = (details: object) =>
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) });
  const { total: _, ...withoutTotal } = sent;
  t.same(of(withoutTotal), expected);
  const images = { ...sent, input_modality_2: 15, cached_modality_2: 5 };
  t.same(of(images), { ...expected, cached_tokens: 20, input_image_tokens: 15 });
  t.match(of({ input: 10, output: 5, cached_modality_IMAGE: 4 }), {
    ...{ input_tokens: 14, cached_tokens: 4, total_tokens: 19 },
  });
  t.match(
    of({ input: 10, input_cached_tokens: 6, cached_modality_IMAGE: 4 }),
    { input_tokens: 16, cached_tokens: 6 },
    'a count of all cached tokens precedes their sum',
  );
});

t.test('Langfuse: tokens of reasoning count once, whatever the total', async (t) => {
  for (const total of [30, 34, 38, 42]) {
    const details = { input: 21, output: 9, output_reasoning_tokens: 4, total };
    const usage = usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) });
    const output = total === 30 ? 9 : 13;
    t.match(usage, { input_tokens: 21, output_tokens: output, reasoning_tokens: 4 }, `${total}`);
  }
});

t.test('Langfuse: cached tokens count once, and reasoning of another attribute too', async (t) => {
  const of = (details: object, more: object = {}) =>
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details), ...more });
  t.match(of({ input: 21, output: 9, input_cached_tokens: 8, total: 46 }), {
    ...{ input_tokens: 29, cached_tokens: 8 },
  });
  t.match(of({ input: 21, output: 9 }, { 'gen_ai.usage.reasoning_tokens': 34 }), {
    ...{ output_tokens: 43, reasoning_tokens: 34 },
  });
});

t.test('Langfuse: the results of tools are beside an input without its modalities', async (t) => {
  const details = {
    ...{ input: 0, input_modality_1: 21, output: 0, output_modality_1: 5 },
    ...{ thoughts_token_count: 4, tool_use_prompt_token_count: 10 },
  };
  for (const more of [{ total: 40 }, {}]) {
    const usage = usageOf({
      'langfuse.observation.usage_details': JSON.stringify({ ...details, ...more }),
    });
    t.match(usage, { input_tokens: 31, output_tokens: 9, reasoning_tokens: 4, total_tokens: 40 });
  }
});

t.test("Langfuse: Gemini's own names, whose input has the cached tokens", async (t) => {
  const details = {
    ...{ prompt_token_count: 21, candidates_token_count: 5, thoughts_token_count: 4 },
    ...{ cached_content_token_count: 8, total_token_count: 30 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
});

t.test('Langfuse: costs without a total are its parts', async (t) => {
  const costOf = (sent: object) =>
    withAttributes({ 'langfuse.observation.cost_details': JSON.stringify(sent) }).observation
      .details?.cost;
  const parts = { input: 0.1, cache_read_input_tokens: 0.05, output: 0.2 };
  const cost = { input: 100_000_000, output: 200_000_000, source: 'sent' };
  t.same(costOf(parts), { ...cost, total: 350_000_000 });
  t.same(costOf({ ...parts, total: 0.3 }), { ...cost, total: 300_000_000 });
  t.same(costOf({ ...parts, total: null, note: 'free' }), { ...cost, total: 350_000_000 });
});

t.test('Langfuse Python: the nested details of the OpenAI wrapper', async (t) => {
  const sent = {
    ...{ prompt_tokens: 21, completion_tokens: 9, total_tokens: 30 },
    prompt_tokens_details: { cached_tokens: 8, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 4, accepted_prediction_tokens: 0 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, input_audio_tokens: 0, reasoning_tokens: 4 },
  });
  const { total_tokens: _, ...withoutTotal } = sent;
  t.match(
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(withoutTotal) }),
    { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    'OpenAI includes the parts, also without a total',
  );
});

t.test('Google ADK: the content of a tool precedes that of its empty model call', async (t) => {
  const { observation, payload } = withAttributes({
    'gen_ai.operation.name': 'execute_tool',
    'gcp.vertex.agent.llm_request': '{}',
    'gcp.vertex.agent.llm_response': '{}',
    'gcp.vertex.agent.tool_call_args': '{"city": "Paris"}',
    'gcp.vertex.agent.tool_response': '{"weather": "sunny"}',
    'gcp.vertex.agent.session_id': 's-1',
  });
  t.match(observation, { kind: 'tool', sessionId: 's-1' });
  t.match(payload, { inputs: { city: 'Paris' }, outputs: { weather: 'sunny' } });
});

t.test('Google ADK: all tokens of a model call are in its response', async (t) => {
  const of = (response: object | string, more: object = {}) =>
    withAttributes({
      'gen_ai.request.model': 'gemini-2.5-flash',
      'gen_ai.usage.input_tokens': 21,
      'gen_ai.usage.output_tokens': 5,
      'gcp.vertex.agent.llm_response':
        typeof response === 'string' ? response : JSON.stringify(response),
      ...more,
    });
  const usageMetadata = {
    ...{ promptTokenCount: 21, candidatesTokenCount: 5, thoughtsTokenCount: 4 },
    ...{ cachedContentTokenCount: 8, totalTokenCount: 30 },
  };
  const expected = {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  };
  const { observation, payload } = of({ usageMetadata, finishReason: 'STOP' });
  t.match(observation, { kind: 'generation', model: 'gemini-2.5-flash' });
  t.same(observation.usage, expected);
  t.notMatch(payload.metadata, { 'gen_ai.usage.input_tokens': 21 });
  t.match(payload.outputs, { usageMetadata });
  const ofPython = {
    ...{ prompt_token_count: 21, candidates_token_count: 5, thoughts_token_count: 4 },
    ...{ cached_content_token_count: 8, total_token_count: 30 },
  };
  t.same(of({ usage_metadata: ofPython }).observation.usage, expected);
  const withTools = { ...usageMetadata, toolUsePromptTokenCount: 10, totalTokenCount: 40 };
  t.match(of({ usageMetadata: withTools }).observation.usage, {
    ...{ input_tokens: 31, output_tokens: 9, total_tokens: 40 },
  });
  const plain = { input_tokens: 21, output_tokens: 5, total_tokens: 26 };
  for (const response of ['{}', 'cut {"usageMetadata":{"promptTo', { usageMetadata: null }]) {
    t.same(of(response).observation.usage, plain);
  }
  const tool = { 'gen_ai.operation.name': 'execute_tool' };
  t.same(of({ usageMetadata }, tool).observation.usage, plain, 'a tool is no model call');
});

t.test('AI Gateway of Cloudflare: messages, provider and cost', async (t) => {
  const messages = [{ role: 'user', content: 'hi' }];
  const { observation, payload } = withAttributes({
    'gen_ai.request.model': 'gpt-4o',
    'gen_ai.model.provider': 'openai',
    'gen_ai.usage.input_tokens': 21,
    'gen_ai.usage.output_tokens': 9,
    'gen_ai.usage.cost': 0.5,
    'gen_ai.prompt_json': JSON.stringify(messages),
    'gen_ai.completion_json': '{"role":"assistant","content":"yo"}',
  });
  t.match(observation, {
    kind: 'generation',
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    details: { provider: 'openai', cost: { total: 500_000_000 } },
  });
  t.match(payload, { inputs: messages, outputs: { role: 'assistant', content: 'yo' } });
});

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

t.test('Laminar: texts that it sends as JSON, and others that it does not', async (t) => {
  for (const [text, value] of [
    ['"done"', 'done'],
    ['["Weather?"]', ['Weather?']],
    ['done', 'done'],
    ['5', '5'],
    ['"a" and "b"', '"a" and "b"'],
  ] as const) {
    const sent = { 'lmnr.span.input': text, 'lmnr.span.output': text };
    t.match(withAttributes(sent).payload, { inputs: value, outputs: value }, text);
  }
});

t.test('LangWatch: values with their types, sessions, users, labels and tokens', async (t) => {
  const typed = (type: string, value: unknown) => JSON.stringify({ type, value });
  const { observation, payload } = withAttributes({
    'langwatch.span.type': 'llm',
    'gen_ai.request.model': 'gpt-4o-mini',
    'langwatch.input': typed('chat_messages', [{ role: 'user', content: 'hi' }]),
    'langwatch.output': typed('text', 'done'),
    'langwatch.metrics': typed('json', { promptTokens: 21, completionTokens: 9, cost: 0.5 }),
    'langwatch.thread.id': 's',
    'langwatch.user.id': 'u',
    'langwatch.labels': '["a","b"]',
  });
  t.match(observation, {
    ...{ kind: 'generation', sessionId: 's', userId: 'u', details: { tags: ['a', 'b'] } },
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
  });
  t.match(payload, { inputs: [{ role: 'user', content: 'hi' }], outputs: 'done' });
  t.match(observation.details, { cost: { total: 500_000_000 } });
  const ofPython = JSON.stringify({ prompt_tokens: 21, completion_tokens: 9, cost: 0.5 });
  t.match(withAttributes({ 'langwatch.metrics': ofPython }).observation, {
    usage: { input_tokens: 21, output_tokens: 9 },
    details: { cost: { total: 500_000_000 } },
  });
  for (const [type, kind] of [
    ['rag', 'retriever'],
    ['tool', 'tool'],
    ['evaluation', 'evaluator'],
    ['guardrail', 'guardrail'],
    ['workflow', 'chain'],
  ] as const) {
    t.match(withAttributes({ 'langwatch.span.type': type }).observation, { kind }, type);
  }
  for (const [text, value] of [
    ['plain', 'plain'],
    ['[1]', [1]],
    ['{"value":1}', { value: 1 }],
    ['{"name":"a","value":1}', { name: 'a', value: 1 }],
    ['{"type":"json","value":1,"more":2}', { type: 'json', value: 1, more: 2 }],
    [' {"type":"json","value":{"x":null}}', { x: null }],
    ['{"value":1.50,"type":"json"}', 1.5],
    ['{"type":"json","value":', '{"type":"json","value":'],
  ] as const) {
    t.match(withAttributes({ 'langwatch.input': text }).payload, { inputs: value }, text);
  }
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

t.test('LangSmith for JavaScript: a failed run, whose span has the status OK', async (t) => {
  const exception = { 'exception.type': 'Error', 'exception.message': '404 no such model' };
  const failed = {
    status: { code: 1 },
    events: [{ name: 'exception', attributes: attributesOf(exception) }],
  };
  const sent = { 'gen_ai.system': 'langchain', 'langsmith.metadata.ls_provider': 'openai' };
  const of = (name: string, more: object) =>
    read(spanOf(0, { attributes: attributesOf(sent), ...more }), { scope: { name } });
  t.match(of('langsmith', failed).observation, {
    ...{ status: 'error', operation: 'error', ended: true },
    error: { message: '404 no such model', type: 'Error' },
    details: { provider: 'openai' },
  });
  t.match(of('langsmith', { status: { code: 1 } }).observation, { status: 'success', error: null });
  t.match(of('other', failed).observation, { status: 'success' });
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

t.test('Amazon Bedrock: the input excludes the tokens of its cache', async (t) => {
  const sent = {
    ...{ 'gen_ai.usage.input_tokens': 13, 'gen_ai.usage.output_tokens': 9 },
    'gen_ai.usage.cache_read.input_tokens': 5,
    'gen_ai.usage.cache_creation.input_tokens': 3,
  };
  const usageIn = (name: string, values: Record<string, unknown>) =>
    read(spanOf(0, { attributes: attributesOf(values) }), { scope: { name } }).observation.usage;
  const parts = { cached_tokens: 5, cache_write_tokens: 3 };
  const whole = { input_tokens: 21, output_tokens: 9, total_tokens: 30, ...parts };
  const botocore = 'opentelemetry.instrumentation.botocore.bedrock-runtime';
  const openllmetry = 'opentelemetry.instrumentation.bedrock';
  t.same(usageIn(botocore, sent), whole);
  for (const language of ['openlit.instrumentation.', '@openlit/instrumentation-']) {
    for (const provider of ['anthropic', 'bedrock']) {
      t.same(usageIn(`${language}${provider}`, sent), whole, 'OpenLIT');
    }
  }
  for (const total of [22, 30]) {
    t.same(usageIn(openllmetry, { ...sent, 'gen_ai.usage.total_tokens': total }), whole);
  }
  t.same(usageIn('strands.telemetry.tracer', { ...sent, 'gen_ai.usage.total_tokens': 30 }), whole);
  t.same(usageIn('another', sent), {
    ...{ input_tokens: 13, output_tokens: 9, total_tokens: 22, ...parts },
  });
  const { 'gen_ai.usage.input_tokens': _, ...withoutInput } = sent;
  t.match(usageIn(botocore, withoutInput), { output_tokens: 9, ...parts });
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

t.test('more tokens of a cache than of the input are beside the input', async (t) => {
  const of = (cached: number) =>
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 12, 'gen_ai.usage.output_tokens': 40 },
      'gen_ai.usage.cache_read.input_tokens': cached,
    });
  t.match(of(12), { input_tokens: 12, cached_tokens: 12, total_tokens: 52 });
  t.match(of(13), { input_tokens: 25, cached_tokens: 13, total_tokens: 65 });
});

t.test('tokens of reasoning beside the output, as Google and xAI count them', async (t) => {
  const of = (reasoning: number, total: object) =>
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 },
      ...{ 'gen_ai.usage.reasoning.output_tokens': reasoning, ...total },
    });
  const sent = (total: number) => ({ 'gen_ai.usage.total_tokens': total });
  t.match(of(4, sent(34)), { output_tokens: 13, reasoning_tokens: 4, total_tokens: 34 });
  for (const total of [30, 33, 35]) {
    t.match(of(4, sent(total)), { output_tokens: 9, total_tokens: total }, 'no room for them');
  }
  t.match(of(9, {}), { output_tokens: 9, total_tokens: 30 });
  t.match(of(10, {}), { output_tokens: 19, total_tokens: 40 }, 'more than the output');
  t.match(of(10, sent(30)), { output_tokens: 9, total_tokens: 30 }, 'the total has no more');
  t.match(of(10, sent(35)), { output_tokens: 19, total_tokens: 40 });
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

/** The attributes of an action of Genkit 1.42. */
const genkitAction = (subtype: string, name: string, output: unknown) => ({
  'genkit:type': 'action',
  'genkit:metadata:subtype': subtype,
  'genkit:key': `/${subtype}/${name}`,
  'genkit:name': name,
  'genkit:path': `/{generate,t:util}/{${name},t:action,s:${subtype}}`,
  'genkit:input': '{"messages":[]}',
  'genkit:output': JSON.stringify(output),
  'genkit:state': 'success',
});

t.test('Genkit: a model call has its model, provider and tokens', async (t) => {
  const usage = { inputTokens: 21, outputTokens: 9, totalTokens: 30 };
  const message = { role: 'model', content: [{ text: 'It is 4 degrees.' }] };
  const output = { finishReason: 'stop', message, usage };
  const call = genkitAction('model', 'openai/gpt-4o-mini', output);
  const expected = {
    ...{ kind: 'generation', model: 'gpt-4o-mini', details: { provider: 'openai' } },
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
  };
  const { observation, payload } = withAttributes(call);
  t.match(observation, expected);
  t.match(payload, { outputs: output, metadata: { 'genkit:name': 'openai/gpt-4o-mini' } });
  const reversed = Object.fromEntries(Object.entries(call).reverse());
  t.match(withAttributes(reversed).observation, expected, 'in any order of the attributes');
  t.match(withAttributes({ ...call, 'gen_ai.usage.input_tokens': 5 }).observation, {
    usage: { input_tokens: 5, total_tokens: 5 },
  });
  const local = withAttributes(genkitAction('model', 'local', { message })).observation;
  t.match(local, { kind: 'generation', model: 'local', usage: null });
  t.equal(local.details?.provider, undefined);
  const failed = genkitAction('model', 'vertexai/models/gemini', null);
  t.match(withAttributes(failed).observation, {
    ...{ model: 'models/gemini', usage: null, details: { provider: 'vertexai' } },
  });
});

t.test('Genkit: tokens of Google and Anthropic, which its plugins count apart', async (t) => {
  const of = (usage: object) => usageOf(genkitAction('model', 'p/m', { usage }));
  t.same(
    of({
      ...{ inputTokens: 21, outputTokens: 9, thoughtsTokens: 4 },
      ...{ totalTokens: 34, cachedContentTokens: 8 },
    }),
    {
      ...{ input_tokens: 21, output_tokens: 13, total_tokens: 34 },
      ...{ reasoning_tokens: 4, cached_tokens: 8 },
    },
    'thoughts are beside the output',
  );
  t.match(of({ inputTokens: 21, outputTokens: 9, thoughtsTokens: 4, totalTokens: 30 }), {
    ...{ output_tokens: 9, reasoning_tokens: 4 },
  });
  t.match(
    of({ inputTokens: 21, outputTokens: 9, thoughtsTokens: 4, totalTokens: 38 }),
    { output_tokens: 13, reasoning_tokens: 4 },
    'a total with as many tokens of tools adds the thoughts once',
  );
  const custom = {
    ...{ cache_creation_input_tokens: 100, cache_read_input_tokens: 8 },
    ...{ ephemeral_5m_input_tokens: 60, ephemeral_1h_input_tokens: 40 },
  };
  t.same(of({ inputTokens: 21, outputTokens: 9, custom }), {
    ...{ input_tokens: 129, output_tokens: 9, total_tokens: 138 },
    ...{ cached_tokens: 8, cache_write_tokens: 100, cache_write_1h_tokens: 40 },
  });
});

t.test('Vercel AI SDK 6: counts in the object of a side', async (t) => {
  const attribute = 'langsmith.usage_metadata';
  const of = (usage: object) => usageOf({ [attribute]: JSON.stringify(usage) });
  const inputTokens = { total: 21, noCache: 13, cacheRead: 8 };
  const expected = { input_tokens: 21, output_tokens: 9, total_tokens: 30, cached_tokens: 8 };
  t.same(of({ inputTokens, outputTokens: { total: 9 } }), expected);
  t.same(of({ inputTokens, outputTokens: 9 }), expected);
});

t.test('Genkit: kinds, and texts that it sends as JSON', async (t) => {
  const usage = { inputTokens: 21, outputTokens: 9, totalTokens: 30 };
  for (const [subtype, kind] of [
    ['flow', 'chain'],
    ['embedder', 'embedding'],
    ['tool', 'tool'],
    ['retriever', 'retriever'],
    ['evaluator', 'evaluator'],
    ['custom', 'span'],
  ] as const) {
    t.match(withAttributes(genkitAction(subtype, 'a/b', {})).observation, { kind }, subtype);
  }
  for (const sent of [
    genkitAction('flow', 'a/b', { usage }),
    {
      'genkit:type': 'util',
      'genkit:name': 'generate',
      'genkit:output': JSON.stringify({ usage }),
    },
  ]) {
    const { observation } = withAttributes(sent);
    t.match(observation, { model: null, usage: null }, 'a span around a call repeats it');
  }
  t.match(withAttributes(genkitAction('flow', 'weather', 'It is 4 degrees.')).payload, {
    outputs: 'It is 4 degrees.',
  });
});

t.test('short names of cached tokens', async (t) => {
  const cached = { 'gen_ai.usage.input_tokens': 30, 'gen_ai.usage.cache_read_tokens': 8 };
  for (const written of ['cache_write_tokens', 'cache_creation_tokens']) {
    t.match(usageOf({ ...cached, [`gen_ai.usage.${written}`]: 4 }), {
      ...{ input_tokens: 30, cached_tokens: 8, cache_write_tokens: 4 },
    });
  }
});

t.test('OpenInference: a reranker without an input and output value', async (t) => {
  const document = 'reranker.output_documents.0.document';
  const { observation, payload } = withAttributes({
    'openinference.span.kind': 'RERANKER',
    'reranker.query': 'capital',
    [`${document}.content`]: 'Paris',
    [`${document}.score`]: 0.5,
  });
  t.equal(observation.kind, 'retriever');
  t.match(payload, { inputs: 'capital', outputs: [{ content: 'Paris', score: 0.5 }] });
});

t.test('Strands Agents, by its first names: tokens that were written to a cache', async (t) => {
  t.same(usageOf({ 'gen_ai.usage.input_tokens': 30, 'gen_ai.usage.cache_write_input_tokens': 8 }), {
    input_tokens: 30,
    total_tokens: 30,
    cache_write_tokens: 8,
  });
});

t.test('LangSmith over OpenTelemetry: usage and cost in the metadata', async (t) => {
  const usage = {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30, total_cost: 0.5 },
    input_token_details: { cache_read: 8 },
    output_token_details: { reasoning: 4 },
  };
  const { observation, payload } = withAttributes({
    'langsmith.metadata.usage_metadata': JSON.stringify(usage),
    'langsmith.span.tags': 'a, b',
  });
  t.same(observation.usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
  t.match(observation.details, { tags: ['a', 'b'], cost: { total: 500_000_000, source: 'sent' } });
  t.match(payload.metadata, { 'langsmith.metadata.usage_metadata': usage });
});

t.test('LangSmith over OpenTelemetry: the details that Python prints', async (t) => {
  const sums = { 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 };
  const details = {
    'gen_ai.usage.input_token_details': "{'cache_read': 8, 'audio': 0}",
    'gen_ai.usage.output_token_details': '{"reasoning":4}',
  };
  t.same(usageOf({ ...sums, ...details }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, input_audio_tokens: 0, reasoning_tokens: 4 },
  });
  const key = 'gen_ai.usage.input_token_details';
  for (const text of ["{'cache_read': 8", "{'cache_read': open()}", 'none', "{'a': 1,}"]) {
    t.same(
      withAttributes({ [key]: text }).observation.details?.ignored,
      [{ path: `attributes.${key}`, reason: 'is no object of counts' }],
      text,
    );
  }
});

t.test('LiteLLM: the usage that Python prints', async (t) => {
  const of = (printed: string) => {
    const sums = { 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 };
    return withAttributes({ ...sums, 'metadata.usage_object': printed }).observation;
  };
  const printed =
    "{'completion_tokens': 9, 'prompt_tokens': 21, 'total_tokens': 30, 'cost': 0.5, 'service_tier': 'None', " +
    "'completion_tokens_details': {'reasoning_tokens': 4, 'audio_tokens': None}, " +
    "'prompt_tokens_details': {'cached_tokens': 8}, 'inference_geo': None, 'fast': False}";
  const { usage, details } = of(printed);
  t.same(usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
  t.equal(details?.ignored, undefined);
  for (const a of [
    '1.2e-05',
    '-1',
    "{'b': {'c': {}, 'd': None}}",
    '[1, {}]',
    '"it\'s"',
    "'None'",
  ]) {
    const { usage, details } = of(`{'a': ${a}, 'prompt_tokens_details': {'cached_tokens': 8}}`);
    t.equal(usage?.cached_tokens, 8, a);
    t.equal(details?.ignored, undefined, a);
  }
  for (const text of [
    "{'cached_tokens': 8, 'a': Details(b=1)}",
    "{'cached_tokens': 8, 'a': Nonet}",
    "{'cached_tokens': 8, 'a': {'b': 1}",
    "{'cached_tokens': 8, 'a': 'it\\'s'}",
    "{'cached_tokens': 8, 'a': 'a\"b'}",
    "{'cached_tokens': 8, }",
  ]) {
    t.same(of(text).usage, { input_tokens: 21, output_tokens: 9, total_tokens: 30 }, text);
  }
});

t.test('LangSmith over OpenTelemetry: the error of a run in an exception event', async (t) => {
  const stack = 'Traceback (most recent call last):\n  File "a.py"\nValueError: x';
  const attributes = attributesOf({
    'exception.type': 'Exception',
    'exception.message': `ValueError('x')\n\n${stack}`,
    'exception.stacktrace': 'Exception: of the client',
  });
  const span = { status: { code: 2 }, events: [{ name: 'exception', attributes }] };
  t.same(withAttributes({}, span).observation.error, {
    ...{ message: 'x', type: 'ValueError', stacktrace: stack },
  });
});

t.test('Traceloop: inputs and outputs of an entity are JSON', async (t) => {
  const { payload } = withAttributes({
    'traceloop.entity.input': '{"args": ["a question"], "kwargs": {}}',
    'traceloop.entity.output': '"an answer"',
  });
  t.match(payload, { inputs: { args: ['a question'] }, outputs: 'an answer' });
  const plain = withAttributes({ 'traceloop.entity.output': 'an "answer"' });
  t.equal(plain.payload.outputs, 'an "answer"');
});

t.test('MLflow: every attribute is JSON', async (t) => {
  const { observation, payload } = withAttributes({
    'mlflow.spanType': '"CHAT_MODEL"',
    'mlflow.spanInputs': '"a question"',
    'mlflow.spanOutputs': '5',
    'mlflow.chat.tokenUsage': '{"input_tokens": 21, "output_tokens": 9, "total_tokens": 30}',
    'mlflow.llm.provider': '"openai"',
    'mlflow.llm.cost': '{"input_cost": 0.1, "output_cost": 0.2, "total_cost": 0.3}',
    'mlflow.source': '{"a":1}',
    model: '"gpt-4o"',
  });
  t.match(observation, {
    kind: 'generation',
    model: 'gpt-4o',
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    details: { provider: 'openai', cost: { total: 300_000_000 } },
  });
  t.match(payload, { inputs: 'a question', outputs: 5, metadata: { 'mlflow.source': { a: 1 } } });
  t.equal(withAttributes({ 'mlflow.llm.model': '"m"' }).observation.model, 'm');
  t.equal(withAttributes({ model: 'say "hi"' }).observation.model, 'say "hi"');
  t.equal(withAttributes({ model: '"broken' }).observation.model, '"broken');
  const usage = { input_tokens: 1, prompt_tokens_details: { cached_tokens: 1 } };
  t.match(
    usageOf({ 'mlflow.chat.tokenUsage': usage }),
    { input_tokens: 1, total_tokens: 1, cached_tokens: 1 },
    'an object of OTLP',
  );
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

t.test('GenAI: current names of tokens, with a total', async (t) => {
  t.same(
    usageOf({
      'gen_ai.usage.input_tokens': 100,
      'gen_ai.usage.output_tokens': 50,
      'gen_ai.usage.cache_read.input_tokens': 40,
      'gen_ai.usage.cache_write.input_tokens': 10,
      'gen_ai.usage.reasoning.output_tokens': 30,
      'gen_ai.usage.text.input_tokens': 60,
      'gen_ai.usage.image.input_tokens': 25,
      'gen_ai.usage.audio.input_tokens': 15,
      'gen_ai.usage.video.input_tokens': 1,
      'gen_ai.usage.text.output_tokens': 49,
      'gen_ai.usage.audio.output_tokens': 1,
    }),
    {
      ...{ input_tokens: 100, output_tokens: 50, total_tokens: 150 },
      ...{ cached_tokens: 40, cache_write_tokens: 10, reasoning_tokens: 30 },
      ...{ input_text_tokens: 60, input_image_tokens: 25, input_audio_tokens: 15 },
      ...{ input_video_tokens: 1, output_text_tokens: 49, output_audio_tokens: 1 },
    },
  );
  t.same(usageOf({ 'llm.token_count.prompt': 5 }), { input_tokens: 5, total_tokens: 5 });
  t.same(
    usageOf({ 'gen_ai.usage.cache_read.input_tokens': 5 }),
    { cached_tokens: 5 },
    'a part alone makes no total',
  );
});

t.test('GenAI: new operations', async (t) => {
  const kind = (name: string) =>
    withAttributes({ 'gen_ai.operation.name': name, 'gen_ai.request.model': 'm' }).observation.kind;
  t.equal(kind('plan'), 'chain');
  t.equal(kind('search_memory'), 'retriever');
  t.equal(kind('upsert_memory'), 'span');
});

t.test('OpenInference: the parameters of a failed call name its model', async (t) => {
  const of = (more: object, parameters: unknown = { model: 'no-such-model' }) => {
    const sent = { 'llm.invocation_parameters': JSON.stringify(parameters), ...more };
    return withAttributes(sent).observation.model;
  };
  const call = { 'openinference.span.kind': 'LLM' };
  t.equal(of(call), 'no-such-model');
  t.equal(of({ ...call, 'llm.model_name': 'gpt-4o-mini' }), 'gpt-4o-mini');
  t.equal(of({ 'openinference.span.kind': 'CHAIN' }), null, 'another span makes no call');
  for (const parameters of [{}, { model: 1 }, { model: '' }, ['model'], 'model']) {
    t.equal(of(call, parameters), null);
  }
  const cut = '{"model":"m"';
  const { observation, payload } = withAttributes({ ...call, 'llm.invocation_parameters': cut });
  t.equal(observation.model, null, 'malformed JSON names no model');
  t.match(payload, { metadata: { 'llm.invocation_parameters': cut } });
});

t.test('OpenInference: messages beside the JSON of a request are not repeated', async (t) => {
  const messages = {
    'llm.input_messages.0.message.role': 'user',
    'llm.output_messages.0.message.role': 'assistant',
  };
  const request = { 'input.value': '{"messages":[]}', 'output.value': '[]' };
  const { payload } = withAttributes({ ...messages, ...request });
  t.same(payload, {
    inputs: { messages: [] },
    outputs: [],
    metadata: { 'otel.span.kind': 'INTERNAL' },
  });
  const plain = withAttributes({ ...messages, 'input.value': 'a question' }).payload;
  t.match(
    plain.metadata,
    { 'llm.input_messages.0.message.role': 'user' },
    'a plain text does not have all that the messages have',
  );
});

t.test('OpenInference: messages precede JSON of printed objects', async (t) => {
  const printed = { messages: ["ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[])"] };
  const sent = { 'input.value': JSON.stringify(printed), 'input.mime_type': 'application/json' };
  const message = {
    'llm.input_messages.0.message.role': 'user',
    'llm.input_messages.0.message.content': 'hi',
  };
  const { payload } = withAttributes({ ...sent, ...message });
  t.same(payload.inputs, [{ role: 'user', content: 'hi' }]);
  t.same(payload.metadata, { ...sent, 'otel.span.kind': 'INTERNAL' });
  t.same(withAttributes(sent).payload.inputs, printed, 'without messages');
});

t.test('LlamaIndex: messages precede the text of a printed message', async (t) => {
  const message = 'llm.output_messages.0.message';
  const call = `${message}.tool_calls.0.tool_call`;
  const sent = { 'openinference.span.kind': 'LLM', 'output.value': 'assistant: ' };
  const asking = {
    [`${message}.role`]: 'assistant',
    [`${message}.contents.0.message_content.type`]: 'text',
    [`${call}.id`]: 'call_1',
    [`${call}.function.name`]: 'get_weather',
    [`${call}.function.arguments`]: '{"city":"Oslo"}',
  };
  const asked = withAttributes({ ...sent, ...asking });
  t.match(asked.payload.outputs, [
    {
      role: 'assistant',
      tool_calls: [{ id: 'call_1', function: { name: 'get_weather' } }],
    },
  ]);
  t.same(asked.payload.metadata, { ...sent, 'otel.span.kind': 'INTERNAL' });
  const answer = { 'output.value': 'assistant: 4', [`${message}.role`]: 'assistant' };
  const answered = withAttributes({ ...answer, [`${message}.content`]: '4' });
  t.same(answered.payload.outputs, [{ role: 'assistant', content: '4' }]);
  t.equal(withAttributes({ 'output.value': 'assistant: 4' }).payload.outputs, 'assistant: 4');
  const other = { ...answer, 'output.value': 'user: 4' };
  t.equal(withAttributes(other).payload.outputs, 'user: 4', 'a text of another role');
});

t.test('OpenInference: a text with the type of JSON is a value of JSON', async (t) => {
  const inputOf = (type: string, text: string) =>
    withAttributes({ 'input.value': text, 'input.mime_type': type }).payload.inputs;
  t.equal(inputOf('application/json', '5'), 5);
  t.equal(inputOf('application/json', '"a"'), 'a');
  t.equal(inputOf('application/json', 'broken'), 'broken');
  t.equal(inputOf('text/plain', '5'), '5');
  t.same(inputOf('text/plain', '{"a":1}'), { a: 1 }, 'an object is JSON in any case');
});

t.test('the first token of an event is after the start', async (t) => {
  const startTimeUnixNano = '1768478398000000000';
  const ttftOf = (...events: object[]) =>
    read(spanOf(0, { startTimeUnixNano, events })).observation.details?.ttftMs;
  const token = (name: string, timeUnixNano: string) => ({ name, timeUnixNano });
  t.equal(ttftOf(token('First Token Stream Event', '1768478398250000000')), 250);
  t.equal(
    ttftOf(
      token('gen_ai.content.completion.chunk', '1768478398500000000'),
      token('gen_ai.content.completion.chunk', '1768478398400000000'),
    ),
    400,
    'the earliest event counts',
  );
  t.equal(ttftOf(token('First Token Stream Event', '0')), undefined);
  t.equal(ttftOf(token('another event', '1768478398250000000')), undefined);
  const attributes = attributesOf({ 'gen_ai.client.operation.time_to_first_chunk': 0.1 });
  const events = [token('new_token', '1768478398400000000')];
  t.equal(
    read(spanOf(0, { startTimeUnixNano, attributes, events })).observation.details?.ttftMs,
    100,
    'an attribute precedes the events',
  );
});

t.test('LiteLLM: an embedding that it also calls a generation', async (t) => {
  const kindOf = (values: Record<string, string>) => withAttributes(values).observation.kind;
  const generation = { 'langfuse.observation.type': 'generation' };
  const embedding = { 'openinference.span.kind': 'EMBEDDING' };
  t.equal(kindOf({ ...generation, ...embedding }), 'embedding');
  t.equal(kindOf({ ...embedding, ...generation }), 'embedding', 'in any order');
  t.equal(kindOf({ ...generation, 'openinference.span.kind': 'TOOL' }), 'generation');
  t.equal(kindOf({ 'langfuse.observation.type': 'chain', ...embedding }), 'chain');
});

t.test('LiteLLM: the cost with its parts', async (t) => {
  const { details } = withAttributes({
    'gen_ai.cost.input_cost': 0.1,
    'gen_ai.cost.output_cost': 0.2,
    'gen_ai.cost.total_cost': 0.4,
  }).observation;
  t.same(details?.cost, {
    ...{ input: 100_000_000, output: 200_000_000, total: 400_000_000 },
    source: 'sent',
  });
});

t.test('a malformed value costs its field, and is noted', async (t) => {
  const { observation } = withAttributes({
    'gen_ai.usage.input_tokens': 'many',
    'gen_ai.usage.output_tokens': 9,
    'langfuse.observation.usage_details': '{broken',
    'mlflow.chat.tokenUsage': '{"input_tokens":-1,"output_tokens":null,"x":"y"}',
    'langfuse.observation.completion_start_time': 'yesterday',
    'gen_ai.response.time_to_first_chunk': 'soon',
    'gen_ai.usage.cost': 'free',
    'mlflow.llm.cost': '[]',
    'gen_ai.usage.cost_details': '{"input":"x","output":0.5}',
    'tag.tags': 5,
    'langsmith.span.tags': '[broken',
  });
  t.same(observation.usage, { output_tokens: 9, total_tokens: 9 });
  t.equal(observation.details?.cost?.total, 500_000_000);
  const count = 'is no count of tokens';
  t.same(observation.details?.ignored, [
    { path: 'attributes.gen_ai.usage.input_tokens', reason: count },
    { path: 'attributes.langfuse.observation.usage_details', reason: 'is no object of counts' },
    { path: 'attributes.mlflow.chat.tokenUsage.input_tokens', reason: count },
    { path: 'attributes.langfuse.observation.completion_start_time', reason: 'is no time' },
    { path: 'attributes.gen_ai.response.time_to_first_chunk', reason: 'is no duration' },
    { path: 'attributes.gen_ai.usage.cost', reason: 'is no amount' },
    { path: 'attributes.mlflow.llm.cost', reason: 'is no object of amounts' },
    { path: 'attributes.gen_ai.usage.cost_details.input', reason: 'is no amount' },
    { path: 'attributes.tag.tags', reason: 'is no list of texts' },
    { path: 'attributes.langsmith.span.tags', reason: 'is no list of texts' },
  ]);
});

t.test('at most 16 malformed values are noted, each place once', async (t) => {
  const counts = Object.values(TOKEN_KINDS).flatMap(({ attributes }) => attributes);
  const many = Object.fromEntries(counts.map((key) => [key, 'many']));
  t.equal(withAttributes(many).observation.details?.ignored?.length, 16);
  const shared = { 'langsmith.usage_metadata': 'broken' };
  t.same(withAttributes(shared).observation.details?.ignored, [
    { path: 'attributes.langsmith.usage_metadata', reason: 'is no object of counts' },
  ]);
});

/** Attributes of the registry that describe a call and have no field: they remain in the metadata. */
const METADATA_ONLY = [
  /^gen_ai\.request\.(?!model$)/,
  /^gen_ai\.response\.finish_reasons$/,
  /^gen_ai\.token\./,
  // The name tells Gemini CLI apart.
  /^gen_ai\.agent\.(?!name$)/,
  /^gen_ai\.tool\.(?:description|type|definitions)$/,
  /^gen_ai\.(?:data_source|workflow|embeddings|output\.type|evaluation)/,
  /^gen_ai\.memory\.(?:store|record)\./,
  // Joined to the inputs.
  /^gen_ai\.system_instructions$/,
];

type Registry = {
  readonly attributes: readonly string[];
  readonly operations: readonly string[];
  readonly events: readonly string[];
};

t.test('every name of the GenAI registry has a meaning', async (t) => {
  const file = new URL('../../../fixtures/conventions/gen-ai.json', import.meta.url);
  const { attributes, operations, events } = JSON.parse(readFileSync(file, 'utf8')) as Registry;
  t.same(
    attributes.filter((name) => attributeKey(name).rules.length === 0),
    attributes.filter((name) => METADATA_ONLY.some((names) => names.test(name))),
    'an attribute is mapped, or it is known to remain in the metadata',
  );
  const known = KINDS.find(({ key }) => key === 'gen_ai.operation.name')?.values ?? {};
  t.same(
    operations.filter((name) => known[name] === undefined),
    [],
  );
  t.same(
    events.filter((name) => EVENTS[name] === undefined),
    ['gen_ai.evaluation.result'],
    'the result of an evaluation remains an event',
  );
});

t.test('OpenLIT: the tools that a model asks for are not the tool of the call', async (t) => {
  const call = { 'gen_ai.request.model': 'gpt', 'gen_ai.tool.name': 'get_weather, get_time' };
  const { observation, payload } = withAttributes({ ...call, 'gen_ai.operation.name': 'chat' });
  t.equal(observation.kind, 'generation');
  t.equal(observation.details?.tool, undefined);
  t.match(payload.metadata, { 'gen_ai.tool.name': 'get_weather, get_time' });
  const tool = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'get_weather' };
  t.match(withAttributes(tool).observation, { kind: 'tool', details: { tool: 'get_weather' } });
});

t.test('OpenInference for LangChain JS: owner and provider in the metadata', async (t) => {
  const sent = { user_id: 'u', session_id: 's', ls_provider: 'openai', n: 1 };
  const of = (metadata: unknown, more: object = {}) =>
    withAttributes({ metadata, ...more }).observation;
  const expected = { userId: 'u', sessionId: 's', details: { provider: 'openai' } };
  t.match(of(JSON.stringify(sent)), expected);
  t.match(of(sent), expected, 'as an object');
  t.match(of(JSON.stringify({ thread_id: 't', user_id: 7 })), { sessionId: 't', userId: '7' });
  const own = { 'user.id': 'own', 'session.id': 'mine', 'llm.provider': 'azure' };
  t.match(of(JSON.stringify(sent), own), {
    ...{ userId: 'own', sessionId: 'mine', details: { provider: 'azure' } },
  });
  for (const other of [
    '{"user_id":',
    '["user_id"]',
    { user_id: null },
    { user_id: { a: 1 } },
    'x',
  ]) {
    t.match(of(typeof other === 'string' ? other : JSON.stringify(other)), {
      ...{ userId: null, sessionId: null },
    });
  }
  const { payload } = withAttributes({ metadata: JSON.stringify(sent) });
  t.match(payload.metadata, { metadata: sent });
});

t.test("Langfuse: the provider in LangChain's metadata", async (t) => {
  const ofRun = { 'langfuse.observation.metadata.ls_provider': 'openai' };
  t.match(withAttributes(ofRun).observation, { details: { provider: 'openai' } });
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

t.test('CrewAI with OpenLLMetry: the result of a crew is its output', async (t) => {
  const { payload } = withAttributes({ 'crewai.crew.result': '4 degrees' });
  t.equal(payload.outputs, '4 degrees');
});

const BRAINTRUST = {
  kind: 'generation',
  model: 'gpt-4o-mini',
  usage: {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, cache_write_tokens: 2, reasoning_tokens: 4 },
  },
  details: { provider: 'openai', ttftMs: 250 },
};
const BRAINTRUST_METRICS = {
  ...{ prompt_tokens: 21, completion_tokens: 9, tokens: 30, time_to_first_token: 0.25 },
  ...{ prompt_cached_tokens: 8, prompt_cache_creation_tokens: 2, completion_reasoning_tokens: 4 },
};

t.test(
  'Braintrust: objects of metadata and metrics, and attributes of their members',
  async (t) => {
    const call = { model: 'gpt-4o-mini', provider: 'openai' };
    const { observation, payload } = withAttributes({
      'braintrust.span_attributes': '{"type":"llm","name":"call"}',
      'braintrust.input_json': '[{"role":"user","content":"hi"}]',
      'braintrust.output_json': '{"content":"done"}',
      'braintrust.metadata': JSON.stringify(call),
      'braintrust.metrics': JSON.stringify(BRAINTRUST_METRICS),
    });
    t.match(observation, BRAINTRUST);
    t.match(payload, {
      ...{ inputs: [{ role: 'user', content: 'hi' }], outputs: { content: 'done' } },
      metadata: { 'braintrust.metadata': call, 'braintrust.metrics': BRAINTRUST_METRICS },
    });
    const apart = { 'braintrust.span_attributes.type': 'llm' } as Record<string, unknown>;
    for (const [name, value] of Object.entries(call)) apart[`braintrust.metadata.${name}`] = value;
    for (const [name, value] of Object.entries(BRAINTRUST_METRICS)) {
      apart[`braintrust.metrics.${name}`] = value;
    }
    t.match(withAttributes(apart).observation, BRAINTRUST);
  },
);

t.test('Braintrust: kinds, owners and tags', async (t) => {
  for (const [type, kind] of [
    ['tool', 'tool'],
    ['task', 'chain'],
    ['score', 'evaluator'],
    ['function', 'span'],
  ] as const) {
    const attributes = {
      'braintrust.span_attributes': JSON.stringify({ type }),
      'braintrust.input': 'a question',
      'braintrust.output': 'an answer',
      'braintrust.metadata': '{"user_id":"u","session_id":"s","model":"m"}',
      'braintrust.tags': ['a', 'b'],
    };
    const { observation, payload } = withAttributes(attributes);
    t.match(observation, {
      ...{ kind, sessionId: 's', userId: 'u', details: { tags: ['a', 'b'] } },
    });
    t.match(payload, { inputs: 'a question', outputs: 'an answer' });
  }
  const { observation } = withAttributes({ 'braintrust.metadata': '{"model":"m"}' });
  t.match(observation, { kind: 'generation', model: 'm' }, 'a call without a type');
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

t.test('Gemini CLI: the tokens of a call are those of its log record only', async (t) => {
  const sent = {
    ...{ 'gen_ai.request.model': 'gemini-2.5-flash', 'gen_ai.input.messages': '[]' },
    ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 5 },
  };
  const agent = { 'gen_ai.agent.name': 'gemini-cli' };
  const call = { ...sent, 'gen_ai.operation.name': 'llm_call' };
  const span = withAttributes({ ...call, ...agent });
  t.match(span.observation, { kind: 'chain', model: null, usage: null });
  t.match(span.payload, { inputs: [], metadata: { 'gen_ai.usage.input_tokens': 21 } });
  const tool = { ...agent, 'gen_ai.operation.name': 'tool_call', 'gen_ai.tool.name': 'ls' };
  t.match(withAttributes(tool).observation, { kind: 'tool' });
  const counted = { model: 'gemini-2.5-flash', usage: { input_tokens: 21, output_tokens: 5 } };
  for (const other of [{ ...sent, 'gen_ai.operation.name': 'generate_content' }, call]) {
    t.match(withAttributes(other).observation, { kind: 'generation', ...counted });
  }
  const another = withAttributes({ ...call, 'gen_ai.agent.name': 'another' });
  t.match(another.observation, { kind: 'generation', ...counted });
});

t.test("LiteLLM's proxy: the user of a request", async (t) => {
  const ofKey = { 'metadata.user_api_key_user_id': 'default_user_id' };
  const { observation } = withAttributes({ ...ofKey, 'metadata.user_api_key_end_user_id': 'u-1' });
  t.equal(observation.userId, 'u-1');
  t.equal(withAttributes(ofKey).observation.userId, null);
});

t.test('Logfire: the tokens of reasoning in the usage that the provider sent', async (t) => {
  const raw = {
    ...{ prompt_tokens: 21, completion_tokens: 9, total_tokens: 30 },
    ...{ completion_tokens_details: { reasoning_tokens: 4 } },
    ...{ prompt_tokens_details: { cached_tokens: 8 } },
  };
  t.same(
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 },
      ...{ 'gen_ai.usage.cache_read.input_tokens': 8, 'gen_ai.usage.raw': JSON.stringify(raw) },
    }),
    {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ cached_tokens: 8, reasoning_tokens: 4 },
    },
  );
  const ofAnthropic = {
    ...{ input_tokens: 13, output_tokens: 9 },
    ...{ cache_read_input_tokens: 5, cache_creation_input_tokens: 3 },
  };
  t.match(
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 },
      'gen_ai.usage.raw': JSON.stringify(ofAnthropic),
    }),
    { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
  );
});

t.test('vLLM: the time to the first token', async (t) => {
  const { observation } = withAttributes({
    ...{ 'gen_ai.response.model': 'm', 'gen_ai.latency.time_to_first_token': 0.25 },
    ...{ 'gen_ai.usage.prompt_tokens': 21, 'gen_ai.usage.completion_tokens': 9 },
  });
  t.match(observation, {
    ...{ kind: 'generation', usage: { input_tokens: 21, output_tokens: 9 } },
    details: { ttftMs: 250 },
  });
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
