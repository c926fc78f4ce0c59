import type { ClientCase } from './client-case.ts';
import type { Expected } from './compare.ts';
import {
  ANSWER,
  ANSWERING_MODEL,
  CALL_USAGE,
  CITY,
  COUNTED_USAGE,
  EMBEDDING_MODEL,
  EMBEDDING_USAGE,
  MISSING_MODEL,
  MODEL,
  NOT_FOUND,
  openTelemetryTrace,
  QUESTION,
  said,
  TWO_CALLS_USAGE,
  WEATHER,
  WITH_SESSION,
} from './plot.ts';

const MESSAGES = [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }];
const HI = [{ role: 'user', content: 'Hi' }];
const PROVIDER = { provider: 'openai' };
const TOOL_CALL = [{ role: 'assistant', parts: [{ type: 'tool_call', name: 'get_weather' }] }];
const ALL_CALLS = ['chat', 'stream', 'tools', 'embeddings', 'error'] as const;
const WITH_EMBEDDING = { input_tokens: 47, total_tokens: 65 };
const SESSION = { session: 'session-1', user: 'user-1' };

function openTelemetry(transport: 'HTTP' | 'gRPC'): ClientCase {
  const isGrpc = transport === 'gRPC';
  return {
    client: 'OpenTelemetry for Python',
    page: 'opentelemetry',
    section: 'python',
    ...(isGrpc && { variant: 'gRPC', edit: ['proto.http', 'proto.grpc'] }),
    list: 'main',
    packages: [
      'opentelemetry-sdk',
      `opentelemetry-exporter-otlp-proto-${isGrpc ? 'grpc' : 'http'}`,
    ],
    protocol: isGrpc ? 'OTLP over gRPC' : 'OTLP over HTTP, protobuf',
    calls: [],
    traces: [openTelemetryTrace('ValueError')],
  };
}

function openaiV2(): ClientCase {
  const call = {
    name: `chat ${MODEL}`,
    kind: 'generation',
    model: ANSWERING_MODEL,
    ...PROVIDER,
    usage: COUNTED_USAGE,
  } as const;
  return {
    client: 'opentelemetry-instrumentation-openai-v2',
    page: 'openai-v2',
    section: 'python',
    list: 'main',
    packages: [
      'opentelemetry-instrumentation-openai-v2',
      'opentelemetry-util-genai',
      'opentelemetry-sdk',
      'openai',
    ],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ALL_CALLS,
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: { output_tokens: 18, ...WITH_EMBEDDING },
        tree: [
          {
            name: 'answer',
            kind: 'span',
            ...WITH_SESSION,
            children: [
              { ...call, inputs: said('user', QUESTION), outputs: TOOL_CALL },
              {
                name: 'execute_tool get_weather',
                kind: 'tool',
                tool: 'get_weather',
                inputs: CITY,
                outputs: WEATHER,
              },
              { ...call, inputs: MESSAGES, outputs: said('assistant', ANSWER) },
              {
                name: `embeddings ${EMBEDDING_MODEL}`,
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                ...PROVIDER,
                usage: EMBEDDING_USAGE,
              },
            ],
          },
        ],
      },
      {
        name: `chat ${MISSING_MODEL}`,
        tree: [
          {
            name: `chat ${MISSING_MODEL}`,
            kind: 'generation',
            model: MISSING_MODEL,
            ...PROVIDER,
            inputs: said('user', 'Hi'),
            error: { type: 'NotFoundError', message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

/** A call of OpenInference's instrumentation of openai. */
const CHAT_COMPLETION = {
  name: 'ChatCompletion',
  kind: 'generation',
  model: ANSWERING_MODEL,
  ...PROVIDER,
  usage: CALL_USAGE,
  ...WITH_SESSION,
} as const;

/** The call that fails: the instrumentation sends the model in the parameters only. */
const FAILED_COMPLETION = {
  name: 'ChatCompletion',
  tree: [
    {
      name: 'ChatCompletion',
      kind: 'generation',
      model: MISSING_MODEL,
      ...PROVIDER,
      inputs: { model: MISSING_MODEL, messages: HI },
      error: { type: 'openai.NotFoundError', message: NOT_FOUND, stacktrace: /^Traceback/ },
    },
  ],
} as const;

function openInference(): ClientCase {
  return {
    client: 'OpenInference for Python',
    page: 'openinference',
    section: 'python',
    list: 'main',
    packages: ['openinference-instrumentation-openai', 'opentelemetry-sdk', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ALL_CALLS,
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: { ...TWO_CALLS_USAGE, ...WITH_EMBEDDING },
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: QUESTION,
            outputs: ANSWER,
            ...WITH_SESSION,
            children: [
              {
                ...CHAT_COMPLETION,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { tool_calls: [{}] } }] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                tool: 'get_weather',
                inputs: CITY,
                outputs: WEATHER,
                ...WITH_SESSION,
              },
              {
                ...CHAT_COMPLETION,
                inputs: { messages: MESSAGES },
                outputs: { choices: [{ message: { content: ANSWER } }] },
                hasFirstToken: true,
              },
              {
                name: 'CreateEmbeddings',
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                ...PROVIDER,
                usage: EMBEDDING_USAGE,
                inputs: { input: ANSWER },
                ...WITH_SESSION,
              },
            ],
          },
        ],
      },
      FAILED_COMPLETION,
    ],
  };
}

const PHOENIX_HTTP = 'register(endpoint="http://127.0.0.1:4318/v1/traces", ';

function phoenix(transport: 'HTTP' | 'gRPC'): ClientCase {
  return {
    client: 'Phoenix',
    page: 'phoenix',
    section: 'python',
    ...(transport === 'HTTP' && { variant: 'HTTP', edit: ['register(', PHOENIX_HTTP] }),
    list: 'main',
    packages: ['arize-phoenix-otel', 'openinference-instrumentation-openai'],
    protocol: transport === 'HTTP' ? 'OTLP over HTTP, protobuf' : 'OTLP over gRPC',
    calls: ['chat', 'error'],
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: CALL_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: QUESTION,
            outputs: ANSWER,
            ...WITH_SESSION,
            children: [
              {
                ...CHAT_COMPLETION,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { content: ANSWER } }] },
              },
            ],
          },
        ],
      },
      FAILED_COMPLETION,
    ],
  };
}

function traceloop(): ClientCase {
  const call = {
    name: 'openai.chat',
    kind: 'generation',
    model: ANSWERING_MODEL,
    ...PROVIDER,
    ...SESSION,
  } as const;
  const { reasoning_tokens: _, ...streamUsage } = CALL_USAGE;
  return {
    client: 'Traceloop (OpenLLMetry)',
    page: 'traceloop',
    section: 'python',
    list: 'traceloop',
    packages: ['traceloop-sdk', 'opentelemetry-instrumentation-openai', 'openai'],
    prints: /^(?:\S*Traceloop exporting traces to http.*|\S*Metrics are disabled\S*|\S{5})$/,
    protocol: 'OTLP over HTTP, protobuf',
    calls: ALL_CALLS,
    traces: [
      {
        name: 'answer.workflow',
        ...SESSION,
        usage: { ...TWO_CALLS_USAGE, ...WITH_EMBEDDING, reasoning_tokens: 4 },
        tree: [
          {
            name: 'answer.workflow',
            kind: 'chain',
            inputs: { args: [QUESTION], kwargs: {} },
            outputs: ANSWER,
            ...SESSION,
            children: [
              { ...call, usage: CALL_USAGE, inputs: said('user', QUESTION), outputs: TOOL_CALL },
              {
                name: 'get_weather.tool',
                kind: 'tool',
                tool: 'get_weather',
                inputs: { args: ['Oslo'], kwargs: {} },
                outputs: WEATHER,
                ...SESSION,
              },
              {
                ...call,
                usage: streamUsage,
                inputs: MESSAGES,
                outputs: said('assistant', ANSWER),
                hasFirstToken: true,
              },
              {
                name: 'openai.embeddings',
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                ...PROVIDER,
                usage: EMBEDDING_USAGE,
                inputs: said('user', ANSWER),
                ...SESSION,
              },
            ],
          },
        ],
      },
      {
        name: 'openai.chat',
        tree: [
          {
            name: 'openai.chat',
            kind: 'generation',
            model: MISSING_MODEL,
            ...PROVIDER,
            inputs: said('user', 'Hi'),
            error: { type: 'openai.NotFoundError', message: NOT_FOUND, stacktrace: /^Traceback/ },
          },
        ],
      },
    ],
  };
}

function pydanticAi(): ClientCase {
  const session = { session: 'session-1' };
  const call: Expected = {
    name: `chat ${MODEL}`,
    kind: 'generation',
    model: ANSWERING_MODEL,
    ...PROVIDER,
    usage: CALL_USAGE,
    cost: { total: 0.00000795 },
    ...session,
  };
  const failed = {
    model: MISSING_MODEL,
    error: { type: 'pydantic_ai.exceptions.ModelNotFoundError', message: NOT_FOUND },
  };
  return {
    client: 'Pydantic AI with Logfire',
    page: 'pydantic-ai',
    section: 'python',
    list: 'main',
    packages: ['pydantic-ai-slim', 'logfire', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'tools', 'error'],
    traces: [
      {
        name: 'weather',
        ...WITH_SESSION,
        usage: TWO_CALLS_USAGE,
        tree: [
          {
            name: 'weather',
            kind: 'span',
            user: 'user-1',
            tags: ['demo'],
            children: [
              {
                name: 'invoke_agent answer',
                kind: 'agent',
                model: MODEL,
                inputs: [
                  ...said('user', QUESTION),
                  ...TOOL_CALL,
                  { parts: [{ type: 'tool_call_response', result: WEATHER }] },
                  ...said('assistant', ANSWER),
                ],
                outputs: ANSWER,
                ...session,
                children: [
                  { ...call, inputs: said('user', QUESTION), outputs: TOOL_CALL },
                  {
                    name: 'execute_tool get_weather',
                    kind: 'tool',
                    tool: 'get_weather',
                    inputs: CITY,
                    outputs: WEATHER,
                    ...session,
                  },
                  { ...call, outputs: said('assistant', ANSWER) },
                ],
              },
            ],
          },
        ],
      },
      {
        name: 'invoke_agent failing',
        tree: [
          {
            name: 'invoke_agent failing',
            kind: 'agent',
            ...failed,
            inputs: said('user', 'Hi'),
            children: [{ name: `chat ${MISSING_MODEL}`, kind: 'generation', ...failed }],
          },
        ],
      },
    ],
  };
}

function mlflow(): ClientCase {
  const { reasoning_tokens: _, ...usage } = CALL_USAGE;
  const { reasoning_tokens: _none, ...twice } = TWO_CALLS_USAGE;
  const call = {
    name: 'Completions',
    kind: 'generation',
    model: ANSWERING_MODEL,
    usage,
  } as const;
  return {
    client: 'MLflow',
    page: 'mlflow',
    section: 'python',
    list: 'mlflow',
    packages: ['mlflow-tracing', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ALL_CALLS,
    traces: [
      {
        name: 'answer',
        ...SESSION,
        usage: twice,
        tree: [
          {
            name: 'answer',
            kind: 'span',
            inputs: { question: QUESTION },
            outputs: ANSWER,
            ...SESSION,
            children: [
              {
                ...call,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { tool_calls: [{}] } }] },
              },
              { name: 'get_weather', kind: 'tool', inputs: CITY, outputs: WEATHER },
              {
                ...call,
                inputs: { messages: MESSAGES },
                outputs: { choices: [{ message: { content: ANSWER } }] },
              },
              {
                name: 'Embeddings',
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                inputs: { input: ANSWER },
              },
            ],
          },
        ],
      },
      {
        name: 'Completions',
        tree: [
          {
            name: 'Completions',
            kind: 'generation',
            model: MISSING_MODEL,
            inputs: { messages: HI },
            error: { type: 'NotFoundError', message: NOT_FOUND, stacktrace: /^Traceback/ },
          },
        ],
      },
    ],
  };
}

/** The programs in Python that send OTLP of OpenTelemetry's own SDK. */
export const PYTHON_OTLP_CASES: readonly ClientCase[] = [
  openTelemetry('HTTP'),
  openTelemetry('gRPC'),
  openaiV2(),
  openInference(),
  phoenix('gRPC'),
  phoenix('HTTP'),
  traceloop(),
  pydanticAi(),
  mlflow(),
];
