/** The attributes of a model call by each convention, with about 1 KB of content, and a native event and a run like it. */

const QUESTION = 'What is the weather in Paris, and what should I wear tomorrow? '.repeat(6);
const ANSWER = 'It is 14 degrees and rainy; take a coat and an umbrella with you. '.repeat(5);
const MESSAGES = JSON.stringify([{ role: 'user', content: QUESTION }]);
const PARTS = JSON.stringify([{ role: 'user', parts: [{ type: 'text', content: QUESTION }] }]);
const REPLY = JSON.stringify([{ role: 'assistant', parts: [{ type: 'text', content: ANSWER }] }]);
const OPENAI = {
  ...{ prompt_tokens: 210, completion_tokens: 90, total_tokens: 300 },
  prompt_tokens_details: { cached_tokens: 80, audio_tokens: 0 },
  completion_tokens_details: { reasoning_tokens: 40 },
};
const LANGCHAIN = {
  ...{ input_tokens: 210, output_tokens: 90, total_tokens: 300 },
  input_token_details: { cache_read: 80 },
  output_token_details: { reasoning: 40 },
};

/** The attributes of a span. */
export const CONVENTIONS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  'OpenTelemetry GenAI': {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'openai',
    'gen_ai.request.model': 'gpt-4o',
    'gen_ai.response.model': 'gpt-4o-2024-08-06',
    'gen_ai.response.id': 'chatcmpl-1',
    'gen_ai.request.temperature': 0.7,
    'gen_ai.usage.input_tokens': 210,
    'gen_ai.usage.output_tokens': 90,
    'gen_ai.usage.cache_read.input_tokens': 80,
    'gen_ai.usage.reasoning.output_tokens': 40,
    'gen_ai.input.messages': PARTS,
    'gen_ai.output.messages': REPLY,
    'gen_ai.conversation.id': 'session-1',
  },
  OpenInference: {
    'openinference.span.kind': 'LLM',
    'llm.provider': 'openai',
    'llm.model_name': 'gpt-4o',
    'llm.token_count.prompt': 210,
    'llm.token_count.completion': 90,
    'llm.token_count.total': 300,
    'llm.token_count.prompt_details.cache_read': 80,
    'input.value': MESSAGES,
    'input.mime_type': 'application/json',
    'output.value': ANSWER,
    'llm.input_messages.0.message.role': 'user',
    'llm.input_messages.0.message.content': QUESTION,
    'llm.output_messages.0.message.role': 'assistant',
    'llm.output_messages.0.message.content': ANSWER,
    'session.id': 'session-1',
    'tag.tags': ['a', 'b'],
  },
  'OpenLLMetry (Traceloop)': {
    'traceloop.span.kind': 'task',
    'gen_ai.system': 'OpenAI',
    'llm.request.type': 'chat',
    'gen_ai.request.model': 'gpt-4o',
    'gen_ai.response.model': 'gpt-4o-2024-08-06',
    'gen_ai.prompt.0.role': 'user',
    'gen_ai.prompt.0.content': QUESTION,
    'gen_ai.completion.0.role': 'assistant',
    'gen_ai.completion.0.content': ANSWER,
    'gen_ai.usage.prompt_tokens': 210,
    'gen_ai.usage.completion_tokens': 90,
    'llm.usage.total_tokens': 300,
    'traceloop.association.properties.session_id': 'session-1',
  },
  'Vercel AI SDK': {
    'operation.name': 'ai.generateText.doGenerate answer',
    'ai.operationId': 'ai.generateText.doGenerate',
    'ai.model.provider': 'openai.chat',
    'ai.model.id': 'gpt-4o',
    'ai.prompt.messages': MESSAGES,
    'ai.response.text': ANSWER,
    'ai.response.id': 'chatcmpl-1',
    'ai.response.msToFirstChunk': 120,
    'ai.usage.inputTokens': 210,
    'ai.usage.outputTokens': 90,
    'ai.usage.cachedInputTokens': 80,
    'ai.telemetry.metadata.sessionId': 'session-1',
  },
  Langfuse: {
    'langfuse.observation.type': 'generation',
    'langfuse.observation.level': 'DEFAULT',
    'langfuse.observation.model.name': 'gpt-4o',
    'langfuse.observation.input': MESSAGES,
    'langfuse.observation.output': ANSWER,
    'langfuse.observation.usage_details': JSON.stringify(OPENAI),
    'langfuse.observation.cost_details': '{"input":0.001,"output":0.002,"total":0.003}',
    'langfuse.observation.completion_start_time': '"2026-01-15T11:59:58.500Z"',
    'langfuse.trace.name': 'answer',
    'langfuse.trace.tags': ['a', 'b'],
    'session.id': 'session-1',
    'user.id': 'user-1',
    'langfuse.environment': 'production',
  },
  'LangSmith over OTLP': {
    'langsmith.span.kind': 'llm',
    'langsmith.trace.name': 'ChatOpenAI',
    'gen_ai.operation.name': 'chat',
    'gen_ai.system': 'openai',
    'gen_ai.request.model': 'gpt-4o',
    'gen_ai.prompt': MESSAGES,
    'gen_ai.completion': REPLY,
    'gen_ai.usage.input_tokens': 210,
    'gen_ai.usage.output_tokens': 90,
    'langsmith.metadata.usage_metadata': JSON.stringify(LANGCHAIN),
    'langsmith.metadata.session_id': 'session-1',
    'langsmith.span.tags': 'a, b',
  },
  MLflow: {
    'mlflow.spanType': '"CHAT_MODEL"',
    'mlflow.spanInputs': MESSAGES,
    'mlflow.spanOutputs': JSON.stringify(ANSWER),
    'mlflow.chat.tokenUsage': JSON.stringify({ input_tokens: 210, output_tokens: 90 }),
    'mlflow.llm.model': '"gpt-4o"',
    'mlflow.llm.provider': '"openai"',
    'mlflow.llm.cost': '{"input_cost":0.001,"output_cost":0.002,"total_cost":0.003}',
  },
  'Logfire (pydantic-ai)': {
    agent_name: 'support',
    model_name: 'gpt-4o',
    'pydantic_ai.all_messages': PARTS,
    final_result: ANSWER,
    'gen_ai.usage.input_tokens': 210,
    'gen_ai.usage.output_tokens': 90,
    'gen_ai.usage.details.reasoning_tokens': 40,
    'gen_ai.usage.details.cache_read_tokens': 80,
    'operation.cost': 0.003,
    'logfire.tags': ['a', 'b'],
  },
};

const TIMES = { start_time: '2026-01-15T11:59:58.000Z', end_time: '2026-01-15T11:59:59.500Z' };

export function nativeEvents(count: number): object {
  const events = Array.from({ length: count }, (_, i) => ({
    ...{ id: `observation-${i}`, trace_id: 'trace-1', parent_id: 'root', operation: 'finish' },
    ...{ kind: 'generation', status: 'success', name: 'chat', ...TIMES, model: 'gpt-4o' },
    ...{ usage: OPENAI, inputs: { question: QUESTION }, outputs: { answer: ANSWER } },
    metadata: { session_id: 'session-1', tags: ['a', 'b'] },
  }));
  return { events };
}

export function runs(count: number): object {
  const post = Array.from({ length: count }, (_, i) => ({
    ...{ id: `run-${i}`, trace_id: 'trace-1', parent_run_id: 'root', run_type: 'llm' },
    ...{ name: 'ChatOpenAI', ...TIMES, inputs: { question: QUESTION }, tags: ['a', 'b'] },
    outputs: { answer: ANSWER, usage_metadata: LANGCHAIN },
    extra: { metadata: { ls_model_name: 'gpt-4o', ls_provider: 'openai', thread_id: 's' } },
  }));
  return { post };
}

/** The events of Claude Code, half of them model calls and half of them tool calls. */
export function claudeRecords(count: number): object[] {
  const common = {
    'session.id': 'b0c7a5f2-6f0e-4b8f-9a76-1f5f6c9f0a11',
    'prompt.id': '5b0f6f0e-3c58-4e0c-8d2e-0e5a4f3f1c22',
    ...{ 'user.id': 'a3f1', 'organization.id': 'org', 'terminal.type': 'xterm' },
    'event.timestamp': '2026-01-15T11:59:59.000Z',
    duration_ms: '1500',
  };
  const call = {
    ...{ model: 'claude-sonnet-5', input_tokens: '210', output_tokens: '90' },
    ...{ cache_read_tokens: '80', cache_creation_tokens: '0', cost_usd: '0.0123' },
    ...{ speed: 'normal', query_source: 'repl_main_thread' },
  };
  const tool = {
    ...{ tool_name: 'Bash', success: 'true', decision_type: 'accept', decision_source: 'config' },
    tool_input: JSON.stringify({ command: QUESTION }),
  };
  return Array.from({ length: count }, (_, i) => {
    const event = i % 2 === 0 ? 'api_request' : 'tool_result';
    const own =
      i % 2 === 0 ? { ...call, request_id: `req_${i}` } : { ...tool, tool_use_id: `toolu_${i}` };
    const attributes = { 'event.name': event, 'event.sequence': i, ...common, ...own };
    const value = (each: string | number) =>
      typeof each === 'number' ? { intValue: String(each) } : { stringValue: each };
    return {
      timeUnixNano: '1768478399000000000',
      body: { stringValue: `claude_code.${event}` },
      attributes: Object.entries(attributes).map(([key, each]) => ({ key, value: value(each) })),
    };
  });
}
