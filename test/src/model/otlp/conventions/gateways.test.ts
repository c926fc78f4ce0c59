import t from 'tap';
import { attributesOf, spanOf } from '../../../../helper/otlp-proto.ts';
import { read, withAttributes } from '../reading.ts';

/** Attributes of gateways and servers of models. */

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

t.test('LiteLLM: tool calls beside the messages of an answer', async (t) => {
  const calls = {
    'gen_ai.completion.1.function_call.name': 'get_time',
    'gen_ai.completion.0.function_call.arguments': '{"city":"Oslo"}',
    'gen_ai.completion.0.function_call.name': 'get_weather',
  };
  const of = (messages: unknown) =>
    withAttributes({ 'gen_ai.output.messages': JSON.stringify(messages), ...calls }).payload;
  const parts = [
    { type: 'tool_call', name: 'get_weather', arguments: '{"city":"Oslo"}' },
    { type: 'tool_call', name: 'get_time' },
  ];
  const empty = { role: 'assistant', parts: [], finish_reason: 'tool_calls' };
  const { outputs, metadata } = of([empty, { role: 'assistant', parts: [] }]);
  t.same(outputs, [
    { ...empty, parts },
    { role: 'assistant', parts: [] },
  ]);
  t.same(metadata, { 'otel.span.kind': 'INTERNAL' });
  const said = { type: 'text', content: 'I look.' };
  t.same(of([{ ...empty, parts: [said] }]).outputs, [{ ...empty, parts: [said, ...parts] }]);
  for (const other of [
    [{ ...empty, tool_calls: [{ id: 'call_1' }] }],
    [{ ...empty, parts: [{ type: 'tool_call', name: 'get_weather' }] }],
    [{ role: 'assistant', content: 'yo' }],
    [{ role: 'assistant', parts: 'yo' }],
    [],
    [[empty]],
    { parts: [] },
  ]) {
    const { outputs, metadata } = of(other);
    t.same(outputs, other);
    t.match(metadata, calls, 'stay in the metadata');
  }
  for (const malformed of ['[{"parts":[', '[{"parts":[}]', '[{"parts', '[{"parts":[]']) {
    const sent = { 'gen_ai.output.messages': malformed, ...calls };
    t.equal(withAttributes(sent).payload.outputs, malformed);
  }
});

t.test('LiteLLM, its second version of spans: the cost that it computed', async (t) => {
  const { observation } = withAttributes({
    ...{ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'gpt-4o-mini' },
    ...{ 'litellm.cost.total': 0.5, 'litellm.cost.input': 0.3, 'litellm.cost.output': 0.2 },
    ...{ 'litellm.cost.cache_read': 0.1, 'litellm.cost.discount_amount': 0 },
  });
  t.match(observation, {
    ...{ kind: 'generation', model: 'gpt-4o-mini' },
    details: { cost: { total: 500_000_000, input: 300_000_000, output: 200_000_000 } },
  });
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

t.test('LiteLLM: a call that is no stream has no time to the first token', async (t) => {
  // It sends the end of such a call as the time of its first token. The values are those of version 1.110.2.
  const ttftOf = (time: string, streaming?: unknown) => {
    const attributes = attributesOf({
      'langfuse.observation.type': 'generation',
      'langfuse.observation.completion_start_time': `"2026-11-29T11:32:${time}+00:00"`,
      ...(streaming === undefined ? {} : { 'llm.is_streaming': streaming }),
    });
    const startTimeUnixNano = '1795951951551165952';
    const endTimeUnixNano = '1795951953593626112';
    const span = spanOf(0, { startTimeUnixNano, endTimeUnixNano, attributes });
    return read(span).observation.details?.ttftMs;
  };
  const end = '33.593626';
  // `langfuse_otel` says it, `langfuse` does not.
  for (const streaming of ['False', false, undefined]) t.equal(ttftOf(end, streaming), undefined);
  for (const streaming of ['True', true]) t.equal(ttftOf(end, streaming), 2042.460048);
  t.equal(ttftOf('33.593627'), undefined, 'rounded up');
  t.equal(ttftOf('33.593624'), 2042.458048, 'before the end');
});

t.test("LiteLLM's proxy: the user of a request", async (t) => {
  const ofKey = { 'metadata.user_api_key_user_id': 'default_user_id' };
  const { observation } = withAttributes({ ...ofKey, 'metadata.user_api_key_end_user_id': 'u-1' });
  t.equal(observation.userId, 'u-1');
  t.equal(withAttributes(ofKey).observation.userId, null);
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
