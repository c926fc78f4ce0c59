import t from 'tap';
import { attributesOf, spanOf } from '../../../../helper/otlp-proto.ts';
import { read, withAttributes } from '../reading.ts';

/** Attributes of the SDKs of platforms that store traces. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

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
  const ofAsync = attributesOf({
    'exception.type': 'Exception',
    'exception.message': "ValueError('x')\n\nNoneType: None\n",
    'exception.stacktrace': 'Exception: of the client',
  });
  const asyncSpan = { status: { code: 2 }, events: [{ name: 'exception', attributes: ofAsync }] };
  t.match(withAttributes({}, asyncSpan).observation.error, { message: 'x', type: 'ValueError' });
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
