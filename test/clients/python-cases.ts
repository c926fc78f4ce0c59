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
  QUESTION,
  TWO_CALLS_USAGE,
  WEATHER,
  WITH_SESSION,
} from './plot.ts';
import { PYTHON_OTLP_CASES } from './python-otlp-cases.ts';

const MESSAGES = [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }];
const HI = [{ role: 'user', content: 'Hi' }];

function langsmith(): ClientCase {
  const call = { kind: 'llm', model: MODEL, provider: 'openai', usage: CALL_USAGE } as const;
  return {
    client: 'LangSmith for Python',
    page: 'langsmith',
    section: 'python',
    list: 'main',
    packages: ['langsmith', 'openai'],
    protocol: 'runs, multipart',
    calls: ['chat', 'stream', 'tools', 'error'],
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: TWO_CALLS_USAGE,
        scores: { helpful: 1 },
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: { question: QUESTION },
            outputs: { output: ANSWER },
            attachments: [{ name: 'map', mime_type: 'text/plain', bytes: 12, sha256: MAP }],
            ...WITH_SESSION,
            children: [
              {
                name: 'ChatOpenAI',
                ...call,
                ...WITH_SESSION,
                inputs: { model: MODEL, messages: [{ role: 'user', content: QUESTION }] },
                outputs: { choices: [{ message: { tool_calls: [{}] } }] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                ...WITH_SESSION,
                inputs: CITY,
                outputs: WEATHER,
              },
              {
                name: 'ChatOpenAI',
                ...call,
                ...WITH_SESSION,
                inputs: { messages: MESSAGES },
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
            inputs: { messages: HI },
            error: { type: 'NotFoundError', message: NOT_FOUND, stacktrace: /^Traceback/ },
          },
        ],
      },
    ],
  };
}

/** The hash of `Oslo: 59.9 N`. */
const MAP = '9d02df79b16e0e8722b72d5859012f8ae0749361db71e1ae84c7d0235b7d22d5';

function langchain(): ClientCase {
  const spoken = (...messages: object[]) => ({ messages });
  const call = { name: 'ChatOpenAI', kind: 'llm', model: MODEL, provider: 'openai' } as const;
  const agent = (output: Expected, next: string): Expected => ({
    name: 'agent',
    kind: 'chain',
    children: [
      { ...call, usage: CALL_USAGE, hasFirstToken: true, ...output },
      { name: 'tools_condition', kind: 'chain', outputs: { output: next } },
    ],
  });
  const chat: Expected = { name: 'ChatOpenAI', kind: 'llm' };
  return {
    client: 'LangChain and LangGraph',
    page: 'langchain',
    section: 'python',
    list: 'main',
    packages: ['langchain-core', 'langchain-openai', 'langgraph', 'langsmith'],
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
            inputs: spoken({ type: 'human', content: QUESTION }),
            outputs: spoken({}, {}, {}, { type: 'ai', content: ANSWER }),
            children: [
              agent(
                { ...chat, outputs: { generations: [[{ message: { kwargs: { type: 'ai' } } }]] } },
                'tools',
              ),
              {
                name: 'tools',
                kind: 'chain',
                children: [
                  {
                    name: 'get_weather',
                    kind: 'tool',
                    inputs: CITY,
                    outputs: { output: { type: 'tool', content: JSON_OF_WEATHER } },
                  },
                ],
              },
              agent({ ...chat, outputs: { generations: [[{ text: ANSWER }]] } }, '__end__'),
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
            error: { type: 'OpenAIModelNotFoundError', message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

const JSON_OF_WEATHER = '{"city": "Oslo", "celsius": 4}';

function langfuse(): ClientCase {
  const call = {
    name: 'OpenAI-generation',
    kind: 'generation',
    model: ANSWERING_MODEL,
    usage: CALL_USAGE,
    ...WITH_SESSION,
  } as const;
  return {
    client: 'Langfuse for Python',
    page: 'langfuse',
    section: 'python',
    list: 'main',
    packages: ['langfuse', 'openai'],
    protocol: 'OTLP over HTTP, protobuf; scores',
    calls: ['chat', 'stream', 'tools', 'embeddings', 'error'],
    traces: [
      {
        name: 'weather',
        ...WITH_SESSION,
        usage: { ...TWO_CALLS_USAGE, input_tokens: 47, total_tokens: 65 },
        scores: { helpful: 1 },
        tree: [
          {
            name: 'answer',
            kind: 'span',
            inputs: { args: [QUESTION], kwargs: {} },
            outputs: ANSWER,
            ...WITH_SESSION,
            children: [
              {
                ...call,
                inputs: { messages: [{ role: 'user', content: QUESTION }] },
                outputs: { role: 'assistant', tool_calls: [{}] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                inputs: { args: ['Oslo'], kwargs: {} },
                outputs: WEATHER,
                ...WITH_SESSION,
              },
              { ...call, inputs: MESSAGES, outputs: ANSWER, hasFirstToken: true },
              {
                name: 'OpenAI-embedding',
                kind: 'embedding',
                model: EMBEDDING_MODEL,
                usage: EMBEDDING_USAGE,
                inputs: ANSWER,
                ...WITH_SESSION,
              },
            ],
          },
        ],
      },
      {
        name: 'OpenAI-generation',
        tree: [
          {
            name: 'OpenAI-generation',
            kind: 'generation',
            model: MISSING_MODEL,
            inputs: HI,
            error: { message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

const LITELLM_ERROR = { type: 'litellm.exceptions.NotFoundError', message: NOT_FOUND };
const RAW_REQUEST: Expected = { name: 'raw_gen_ai_request', kind: 'span' };

function litellmLangfuse(): ClientCase {
  const request = { name: 'litellm_request', hasFirstToken: false, children: [RAW_REQUEST] };
  const call: Expected = {
    ...{ ...request, kind: 'generation', model: MODEL, provider: 'openai' },
    ...{ usage: CALL_USAGE, cost: { total: 0.00000795 } },
  };
  return {
    client: 'LiteLLM, langfuse_otel',
    page: 'litellm',
    section: 'python',
    list: 'litellm',
    packages: ['litellm'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'stream', 'tools', 'embeddings', 'error'],
    traces: [
      {
        name: 'weather',
        ...WITH_SESSION,
        usage: CALL_USAGE,
        tree: [
          {
            ...call,
            inputs: [{ role: 'user', content: QUESTION }],
            outputs: [{ name: 'get_weather', arguments: CITY }],
            ...WITH_SESSION,
          },
        ],
      },
      {
        name: 'weather',
        ...WITH_SESSION,
        usage: CALL_USAGE,
        tree: [
          {
            ...call,
            hasFirstToken: true,
            inputs: MESSAGES,
            outputs: { role: 'assistant', content: ANSWER },
            ...WITH_SESSION,
          },
        ],
      },
      {
        name: 'litellm-embedding',
        usage: EMBEDDING_USAGE,
        tree: [
          {
            ...request,
            kind: 'embedding',
            model: EMBEDDING_MODEL,
            usage: EMBEDDING_USAGE,
            inputs: [{ role: 'user', content: ANSWER }],
          },
        ],
      },
      {
        name: 'litellm-completion',
        tree: [
          {
            name: 'litellm_request',
            kind: 'generation',
            model: MISSING_MODEL,
            provider: 'openai',
            inputs: HI,
            error: LITELLM_ERROR,
          },
        ],
      },
    ],
  };
}

const CALLED = { type: 'tool_call', name: 'get_weather', arguments: JSON.stringify(CITY) };

function litellmOtel(): ClientCase {
  const call = {
    name: 'litellm_request',
    kind: 'generation',
    provider: 'openai',
    usage: CALL_USAGE,
    cost: { total: 0.00000795 },
    children: [RAW_REQUEST],
  } as const;
  const said = (role: string, content: string) => ({ role, parts: [{ type: 'text', content }] });
  return {
    client: 'LiteLLM, otel',
    page: 'litellm',
    section: 'python',
    variant: 'otel',
    edit: ['langfuse_otel', 'otel'],
    list: 'litellm',
    packages: ['litellm'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'stream', 'tools', 'embeddings', 'error'],
    traces: [
      {
        name: 'litellm_request',
        usage: CALL_USAGE,
        tree: [
          {
            ...{ ...call, model: ANSWERING_MODEL, inputs: [said('user', QUESTION)] },
            outputs: [{ role: 'assistant', parts: [CALLED] }],
          },
        ],
      },
      {
        name: 'litellm_request',
        usage: CALL_USAGE,
        tree: [{ ...call, model: MODEL, inputs: MESSAGES, outputs: [said('assistant', ANSWER)] }],
      },
      {
        name: 'litellm_request',
        usage: EMBEDDING_USAGE,
        tree: [
          {
            name: 'litellm_request',
            kind: 'embedding',
            model: EMBEDDING_MODEL,
            usage: EMBEDDING_USAGE,
            inputs: [said('user', ANSWER)],
            children: [RAW_REQUEST],
          },
        ],
      },
      {
        name: 'litellm_request',
        tree: [
          {
            name: 'litellm_request',
            kind: 'generation',
            model: MISSING_MODEL,
            provider: 'openai',
            inputs: [said('user', 'Hi')],
            error: LITELLM_ERROR,
          },
        ],
      },
    ],
  };
}

function litellmLangsmith(): ClientCase {
  const tags = ['demo'];
  const call = {
    name: 'answer',
    kind: 'llm',
    model: ANSWERING_MODEL,
    usage: CALL_USAGE,
    cost: { total: 0.00000795 },
    tags,
  } as const;
  const trace = { name: 'answer', session: 'session-1', tags, usage: CALL_USAGE };
  return {
    client: 'LiteLLM, langsmith',
    page: 'litellm',
    section: 'langsmith',
    list: 'litellm',
    packages: ['litellm'],
    protocol: 'runs, JSON',
    calls: ['chat', 'tools', 'error'],
    traces: [
      {
        ...trace,
        tree: [
          {
            ...call,
            inputs: { messages: [{ role: 'user', content: QUESTION }] },
            outputs: { choices: [{ message: { tool_calls: [{}] } }] },
          },
        ],
      },
      {
        ...trace,
        tree: [
          {
            ...call,
            inputs: { messages: MESSAGES },
            outputs: { choices: [{ message: { content: ANSWER } }] },
          },
        ],
      },
      {
        name: 'LLMRun',
        usage: NO_TOKENS,
        tree: [
          {
            name: 'LLMRun',
            kind: 'llm',
            model: MISSING_MODEL,
            usage: NO_TOKENS,
            inputs: { messages: HI },
            error: { message: NOT_FOUND },
          },
        ],
      },
    ],
  };
}

const NO_TOKENS = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** The spans have the model that answered, and neither the attachment nor the id that the feedback names. */
function langsmithOverOtlp(): ClientCase {
  const traces = langsmith().traces.map(({ scores: _, ...trace }) => ({
    ...trace,
    tree: trace.tree.map(asSpan),
  }));
  return {
    ...langsmith(),
    client: 'LangSmith for Python, over OpenTelemetry',
    variant: 'OpenTelemetry',
    packages: ['langsmith', 'opentelemetry-sdk', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    traces,
  };
}

/** Each run is sent as a span too, which stores nothing more. */
function langsmithOverBoth(): ClientCase {
  return {
    ...langsmith(),
    client: 'LangSmith for Python, over both',
    variant: 'both',
    packages: ['langsmith', 'opentelemetry-sdk', 'openai'],
    protocol: 'runs, multipart; OTLP over HTTP, protobuf',
    receivers: ['runs', 'otlp'],
  };
}

function asSpan({ attachments: _, hasFirstToken: _none, ...each }: Expected): Expected {
  return {
    ...each,
    ...(each.model === MODEL && { model: ANSWERING_MODEL }),
    ...(each.children && { children: each.children.map(asSpan) }),
  };
}

/** The programs in Python, which `npm run test:clients` runs. */
export const PYTHON_CASES: readonly ClientCase[] = [
  langsmith(),
  langsmithOverOtlp(),
  langsmithOverBoth(),
  langchain(),
  langfuse(),
  litellmLangfuse(),
  litellmOtel(),
  litellmLangsmith(),
  ...PYTHON_OTLP_CASES,
];
