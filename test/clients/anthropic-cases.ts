import type { ClientCase } from './client-case.ts';
import type { Expected } from './compare.ts';
import {
  ANSWER,
  ANTHROPIC_CALL_USAGE,
  CITY,
  CLAUDE,
  MISSING_MODEL,
  NOT_FOUND,
  QUESTION,
  said,
  TWO_ANTHROPIC_CALLS_USAGE,
  WEATHER,
  WITH_SESSION,
} from './plot.ts';

const OTLP = 'OTLP over HTTP, protobuf';
const PAGE = {
  page: 'anthropic',
  list: 'anthropic',
  calls: ['chat', 'stream', 'tools', 'error'],
} as const;
const SESSION = { session: 'session-1', user: 'user-1' };
const CALL = {
  kind: 'generation',
  model: CLAUDE,
  provider: 'anthropic',
  usage: ANTHROPIC_CALL_USAGE,
} as const;
const FAILED = { kind: 'generation', model: MISSING_MODEL, provider: 'anthropic' } as const;
const ASKED = { messages: [{ role: 'user', content: QUESTION }] };
const CONVERSATION = { messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'user' }] };
const TOOL_CALL = [
  { role: 'assistant', parts: [{ type: 'tool_call', name: 'get_weather', arguments: CITY }] },
];
const SPOKEN = [
  ...said('user', QUESTION),
  ...TOOL_CALL,
  { role: 'user', parts: [{ type: 'tool_call_response' }] },
];

/** The spans of the program, which has no SDK for them. */
const OWN_TOOL: Expected = {
  name: 'execute_tool get_weather',
  kind: 'tool',
  tool: 'get_weather',
};

function own(): ClientCase {
  const call = { name: 'anthropic.messages.create', ...CALL };
  return {
    client: 'Anthropic',
    section: 'own',
    packages: ['anthropic', 'opentelemetry-sdk'],
    protocol: OTLP,
    ...PAGE,
    traces: [
      {
        name: 'answer',
        ...SESSION,
        usage: TWO_ANTHROPIC_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'span',
            ...SESSION,
            children: [
              { ...call, inputs: said('user', QUESTION), outputs: TOOL_CALL },
              OWN_TOOL,
              {
                ...call,
                inputs: SPOKEN,
                outputs: said('assistant', ANSWER),
                hasFirstToken: true,
              },
            ],
          },
        ],
      },
      {
        name: 'anthropic.messages.create',
        tree: [
          {
            name: 'anthropic.messages.create',
            ...FAILED,
            inputs: said('user', 'Hi'),
            error: { type: 'not_found_error' },
          },
        ],
      },
    ],
  };
}

function openInference(): ClientCase {
  return {
    client: 'Anthropic with OpenInference',
    section: 'openinference',
    packages: ['openinference-instrumentation-anthropic', 'anthropic', 'opentelemetry-sdk'],
    protocol: OTLP,
    ...PAGE,
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: TWO_ANTHROPIC_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: QUESTION,
            outputs: ANSWER,
            ...WITH_SESSION,
            children: [
              {
                name: 'messages.create',
                ...CALL,
                ...WITH_SESSION,
                inputs: ASKED,
                outputs: { content: [{ type: 'tool_use', name: 'get_weather', input: CITY }] },
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
                name: 'messages.stream',
                ...CALL,
                ...WITH_SESSION,
                inputs: CONVERSATION,
                outputs: { content: [{ type: 'text', text: ANSWER }] },
              },
            ],
          },
        ],
      },
      {
        name: 'messages.create',
        tree: [
          {
            name: 'messages.create',
            ...FAILED,
            inputs: { messages: [{ role: 'user', content: 'Hi' }] },
            error: {
              type: 'anthropic.NotFoundError',
              message: NOT_FOUND,
              stacktrace: /^Traceback/,
            },
          },
        ],
      },
    ],
  };
}

function openLlmetry(): ClientCase {
  const call = { name: 'anthropic.chat', ...CALL };
  // The instrumentation adds the output tokens of the first event of a stream to those of its last one, which includes them.
  const oneMore = ({ output_tokens, total_tokens, ...usage }: typeof ANTHROPIC_CALL_USAGE) => ({
    ...usage,
    output_tokens: output_tokens + 1,
    total_tokens: total_tokens + 1,
  });
  return {
    client: 'Anthropic with OpenLLMetry',
    section: 'openllmetry',
    packages: ['opentelemetry-instrumentation-anthropic', 'anthropic', 'opentelemetry-sdk'],
    protocol: OTLP,
    ...PAGE,
    traces: [
      {
        name: 'answer',
        ...SESSION,
        usage: oneMore(TWO_ANTHROPIC_CALLS_USAGE),
        tree: [
          {
            name: 'answer',
            kind: 'span',
            ...SESSION,
            children: [
              { ...call, inputs: said('user', QUESTION), outputs: TOOL_CALL },
              OWN_TOOL,
              {
                ...call,
                usage: oneMore(ANTHROPIC_CALL_USAGE),
                inputs: SPOKEN,
                outputs: said('assistant', ANSWER),
              },
            ],
          },
        ],
      },
      {
        name: 'anthropic.chat',
        tree: [
          {
            name: 'anthropic.chat',
            ...FAILED,
            inputs: said('user', 'Hi'),
            error: {
              type: 'anthropic.NotFoundError',
              message: NOT_FOUND,
              stacktrace: /^Traceback/,
            },
          },
        ],
      },
    ],
  };
}

function langsmith(): ClientCase {
  const call = { name: 'ChatAnthropic', ...CALL, kind: 'llm', ...WITH_SESSION } as const;
  return {
    client: 'Anthropic with LangSmith',
    section: 'langsmith',
    packages: ['langsmith', 'anthropic'],
    protocol: 'runs, multipart',
    ...PAGE,
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: TWO_ANTHROPIC_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            inputs: { question: QUESTION },
            outputs: { output: ANSWER },
            ...WITH_SESSION,
            children: [
              {
                ...call,
                inputs: ASKED,
                outputs: { tool_calls: [{ function: { name: 'get_weather' } }] },
              },
              {
                name: 'get_weather',
                kind: 'tool',
                inputs: CITY,
                outputs: WEATHER,
                ...WITH_SESSION,
              },
              {
                ...call,
                inputs: CONVERSATION,
                outputs: { content: [{ type: 'text', text: ANSWER }] },
                hasFirstToken: true,
              },
            ],
          },
        ],
      },
      {
        name: 'ChatAnthropic',
        tree: [
          {
            name: 'ChatAnthropic',
            ...FAILED,
            kind: 'llm',
            inputs: { messages: [{ role: 'user', content: 'Hi' }] },
            error: { type: 'NotFoundError', message: NOT_FOUND, stacktrace: /^Traceback/ },
          },
        ],
      },
    ],
  };
}

/** The programs with the SDK of Anthropic. */
export const ANTHROPIC_CASES: readonly ClientCase[] = [
  own(),
  openInference(),
  openLlmetry(),
  langsmith(),
];
