import type { ClientCase } from './client-case.ts';
import type { Expected } from './compare.ts';
import {
  ANSWER,
  ANSWERING_MODEL,
  CALL_USAGE,
  CITY,
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

const { reasoning_tokens: _, ...WITHOUT_REASONING } = CALL_USAGE;

function langsmith(): ClientCase {
  const call = { kind: 'llm', model: MODEL, provider: 'openai', usage: CALL_USAGE } as const;
  return {
    client: 'LangSmith for JavaScript',
    page: 'langsmith',
    section: 'javascript',
    list: 'npm',
    packages: ['langsmith', 'openai'],
    protocol: 'runs, multipart',
    calls: ['chat', 'stream', 'tools', 'error'],
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: TWO_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: { input: QUESTION },
            outputs: { outputs: ANSWER },
            ...WITH_SESSION,
            children: [
              {
                name: 'ChatOpenAI',
                ...call,
                inputs: { model: MODEL, messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { tool_calls: [{}] } }] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                tool: 'get_weather',
                inputs: { input: 'Oslo' },
                outputs: WEATHER,
              },
              {
                name: 'ChatOpenAI',
                ...call,
                inputs: { messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }] },
                outputs: { choices: [{ message: { role: 'assistant', content: ANSWER } }] },
                hasFirstToken: true,
              },
            ],
          },
        ],
      },
      {
        name: 'ChatOpenAI',
        tree: [
          {
            name: 'ChatOpenAI',
            kind: 'llm',
            model: MISSING_MODEL,
            inputs: { messages: [{ role: 'user', content: 'Hi' }] },
            error: { type: 'Error', message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

function langfuse(): ClientCase {
  const call = { name: 'OpenAI.chat', kind: 'generation', ...WITH_SESSION } as const;
  return {
    client: 'Langfuse for JavaScript',
    page: 'langfuse',
    section: 'javascript',
    list: 'npm',
    packages: ['@langfuse/otel', '@langfuse/tracing', '@langfuse/openai'],
    protocol: 'OTLP over HTTP, JSON',
    calls: ['chat', 'stream', 'tools', 'embeddings', 'error'],
    traces: [
      {
        name: 'weather',
        ...WITH_SESSION,
        usage: TWO_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'span',
            inputs: { question: QUESTION },
            outputs: ANSWER,
            ...WITH_SESSION,
            children: [
              {
                ...call,
                model: ANSWERING_MODEL,
                usage: CALL_USAGE,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { role: 'assistant', tool_calls: [{}] },
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
                ...call,
                model: MODEL,
                usage: CALL_USAGE,
                inputs: { messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }] },
                outputs: ANSWER,
                hasFirstToken: true,
              },
              // The wrapper sends no other kind and no counts.
              { ...call, name: 'OpenAI.embeddings', model: EMBEDDING_MODEL, inputs: ANSWER },
            ],
          },
        ],
      },
      {
        name: 'OpenAI.chat',
        tree: [
          {
            name: 'OpenAI.chat',
            kind: 'generation',
            model: MISSING_MODEL,
            inputs: { messages: [{ role: 'user', content: 'Hi' }] },
            error: { message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

function vercelAiSdk(): ClientCase {
  const provider = { provider: 'openai' };
  const call = { name: `chat ${MODEL}`, kind: 'generation', model: ANSWERING_MODEL } as const;
  const agent = {
    name: `invoke_agent ${MODEL}`,
    kind: 'agent',
    model: MODEL,
    ...provider,
  } as const;
  const step = (n: number, ...children: Expected[]): Expected => ({
    name: `step ${n}`,
    kind: 'chain',
    children,
  });
  const failed = { model: MISSING_MODEL, error: { type: 'AI_APICallError', message: NOT_FOUND } };
  const embedding = { name: `embeddings ${EMBEDDING_MODEL}`, kind: 'embedding' } as const;
  return {
    client: 'Vercel AI SDK',
    page: 'vercel-ai-sdk',
    section: 'javascript',
    list: 'npm',
    packages: ['ai', '@ai-sdk/otel', '@ai-sdk/openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'stream', 'tools', 'embeddings', 'error'],
    traces: [
      {
        name: `invoke_agent ${MODEL}`,
        usage: { input_tokens: 42, output_tokens: 18, total_tokens: 60, cached_tokens: 16 },
        tree: [
          {
            ...agent,
            usage: { input_tokens: 42, output_tokens: 18, total_tokens: 60, cached_tokens: 16 },
            inputs: said('user', QUESTION),
            metadata: { 'gen_ai.agent.name': 'answer' },
            children: [
              step(
                1,
                {
                  ...call,
                  ...provider,
                  usage: WITHOUT_REASONING,
                  inputs: said('user', QUESTION),
                  outputs: [{ role: 'assistant', parts: [{ type: 'tool_call', arguments: CITY }] }],
                },
                {
                  name: 'execute_tool get_weather',
                  kind: 'tool',
                  tool: 'get_weather',
                  inputs: CITY,
                  outputs: WEATHER,
                },
              ),
              step(2, {
                ...call,
                ...provider,
                usage: WITHOUT_REASONING,
                inputs: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }],
                outputs: said('assistant', ANSWER),
              }),
            ],
          },
        ],
      },
      {
        name: `invoke_agent ${MODEL}`,
        usage: WITHOUT_REASONING,
        tree: [
          {
            ...agent,
            usage: WITHOUT_REASONING,
            inputs: said('user', 'Say it in one sentence.'),
            outputs: said('assistant', ANSWER),
            metadata: { 'gen_ai.agent.name': 'summary' },
            children: [
              step(1, {
                ...call,
                ...provider,
                usage: WITHOUT_REASONING,
                outputs: said('assistant', ANSWER),
                hasFirstToken: true,
              }),
            ],
          },
        ],
      },
      {
        name: `embeddings ${EMBEDDING_MODEL}`,
        usage: EMBEDDING_USAGE,
        tree: [
          {
            ...embedding,
            model: EMBEDDING_MODEL,
            children: [{ ...embedding, usage: EMBEDDING_USAGE }],
          },
        ],
      },
      {
        name: `invoke_agent ${MISSING_MODEL}`,
        tree: [
          {
            name: `invoke_agent ${MISSING_MODEL}`,
            kind: 'agent',
            ...failed,
            children: [
              {
                name: 'step 1',
                kind: 'chain',
                error: failed.error,
                children: [{ name: `chat ${MISSING_MODEL}`, kind: 'generation', ...failed }],
              },
            ],
          },
        ],
      },
    ],
  };
}

function openInference(): ClientCase {
  const provider = { provider: 'openai' };
  const call = { name: 'OpenAI Chat Completions', kind: 'generation', ...provider } as const;
  return {
    client: 'OpenInference for JavaScript',
    page: 'openinference',
    section: 'javascript',
    list: 'npm',
    packages: ['@arizeai/openinference-instrumentation-openai', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'stream', 'tools', 'embeddings'],
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
                ...call,
                model: ANSWERING_MODEL,
                usage: CALL_USAGE,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { tool_calls: [{}] } }] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                tool: 'get_weather',
                inputs: CITY,
                outputs: WEATHER,
              },
              // The instrumentation sends no counts of a stream.
              {
                ...call,
                model: MODEL,
                inputs: { messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }] },
                outputs: ANSWER,
              },
              {
                name: 'OpenAI Embeddings',
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                ...provider,
                inputs: ANSWER,
              },
            ],
          },
        ],
      },
    ],
  };
}

function openTelemetry(transport: 'HTTP' | 'gRPC'): ClientCase {
  return {
    client: 'OpenTelemetry for JavaScript',
    page: 'opentelemetry',
    section: 'javascript',
    ...(transport === 'gRPC' && { variant: 'gRPC' }),
    list: 'npm',
    packages: ['@opentelemetry/sdk-node'],
    protocol: transport === 'gRPC' ? 'OTLP over gRPC' : 'OTLP over HTTP, protobuf',
    calls: [],
    traces: [openTelemetryTrace('TypeError')],
  };
}

function langchain(): ClientCase {
  const spoken = (...contents: string[]) => ({
    messages: contents.map((content) => ({ kwargs: { content } })),
  });
  const answered = (next: string, more: Partial<Expected> = {}): Expected => ({
    name: 'agent',
    kind: 'chain',
    children: [
      {
        name: 'ChatOpenAI',
        kind: 'llm',
        model: MODEL,
        provider: 'openai',
        usage: CALL_USAGE,
        hasFirstToken: true,
        ...more,
      },
      // The condition of the edge.
      { name: 'RunnableLambda', kind: 'chain', outputs: { output: next } },
    ],
  });
  return {
    client: 'LangChain and LangGraph for JavaScript',
    page: 'langchain',
    section: 'javascript',
    list: 'npm',
    packages: ['@langchain/core', '@langchain/openai', '@langchain/langgraph', 'langsmith'],
    prints: /^Troubleshooting URL/,
    protocol: 'runs, multipart',
    calls: ['stream', 'tools', 'error'],
    traces: [
      {
        name: 'answer',
        session: 'session-1',
        user: 'user-1',
        usage: TWO_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            ...WITH_SESSION,
            inputs: spoken(QUESTION),
            outputs: spoken(QUESTION, '', JSON.stringify(WEATHER), ANSWER),
            children: [
              { name: '__start__', kind: 'chain' },
              answered('tools', {
                inputs: { messages: [[{ kwargs: { content: QUESTION } }]] },
                outputs: {
                  generations: [[{ generationInfo: { finish_reason: 'tool_calls' } }]],
                },
              }),
              {
                name: 'tools',
                kind: 'chain',
                children: [
                  {
                    name: 'get_weather',
                    kind: 'tool',
                    inputs: CITY,
                    outputs: { output: { kwargs: { content: JSON.stringify(WEATHER) } } },
                  },
                ],
              },
              answered('__end__', { outputs: { generations: [[{ text: ANSWER }]] } }),
            ],
          },
        ],
      },
      {
        name: 'ChatOpenAI',
        tree: [
          {
            name: 'ChatOpenAI',
            kind: 'llm',
            model: MISSING_MODEL,
            error: { type: 'Error', message: NOT_FOUND, stacktrace: /\n {4}at / },
          },
        ],
      },
    ],
  };
}

/** The programs in JavaScript, which `npm test` runs. */
export const NPM_CASES: readonly ClientCase[] = [
  langsmith(),
  langchain(),
  langfuse(),
  vercelAiSdk(),
  openInference(),
  ...(['HTTP', 'gRPC'] as const).map(openTelemetry),
];
