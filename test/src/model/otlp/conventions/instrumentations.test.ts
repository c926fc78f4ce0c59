import t from 'tap';
import { withAttributes } from '../reading.ts';

/** Attributes of instrumentations, such as OpenInference and OpenLLMetry. */

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

t.test('Traceloop: inputs and outputs of an entity are JSON', async (t) => {
  const { payload } = withAttributes({
    'traceloop.entity.input': '{"args": ["a question"], "kwargs": {}}',
    'traceloop.entity.output': '"an answer"',
  });
  t.match(payload, { inputs: { args: ['a question'] }, outputs: 'an answer' });
  const plain = withAttributes({ 'traceloop.entity.output': 'an "answer"' });
  t.equal(plain.payload.outputs, 'an "answer"');
});

t.test('Traceloop: a task of LlamaIndex that is a model call is a generation', async (t) => {
  const task = { 'traceloop.span.kind': 'task' };
  t.equal(withAttributes(task).observation.kind, 'span');
  for (const [operation, kind] of [
    ['execute_task', 'span'],
    ['chat', 'generation'],
    ['embeddings', 'embedding'],
  ] as const) {
    const { observation } = withAttributes({ ...task, 'gen_ai.operation.name': operation });
    t.equal(observation.kind, kind, operation);
  }
  const response = { ...task, 'gen_ai.response.model': 'gpt-4o-mini' };
  t.equal(withAttributes(response).observation.kind, 'generation');
});

t.test('Traceloop: a thread of LangGraph is the session, after a session of its own', async (t) => {
  const thread = { 'traceloop.association.properties.thread_id': 't' };
  const session = { 'traceloop.association.properties.session_id': 's' };
  t.equal(withAttributes(thread).observation.sessionId, 't');
  t.equal(withAttributes({ ...thread, ...session }).observation.sessionId, 's');
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

t.test('CrewAI with OpenLLMetry: the result of a crew is its output', async (t) => {
  const { payload } = withAttributes({ 'crewai.crew.result': '4 degrees' });
  t.equal(payload.outputs, '4 degrees');
});
