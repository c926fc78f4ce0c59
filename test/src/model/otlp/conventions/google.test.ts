import t from 'tap';
import { withAttributes } from '../reading.ts';

/** Attributes of clients by Google. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

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
