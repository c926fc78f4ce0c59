import type { ClientCase } from './client-case.ts';
import type { Expected } from './compare.ts';
import {
  ANSWER,
  ANSWERING_MODEL,
  CALL_USAGE,
  CITY,
  COUNTED_USAGE,
  MISSING_MODEL,
  MODEL,
  NOT_FOUND,
  QUESTION,
  said,
  TWO_CALLS_USAGE,
  WEATHER,
  WITH_SESSION,
} from './plot.ts';

/** The spans of OpenInference's instrumentation of LangChain. */
function openInference(): ClientCase {
  const call = { name: 'ChatOpenAI', kind: 'generation', provider: 'openai' } as const;
  const spoken = (...contents: string[]) => ({
    messages: contents.map((content) => ({ data: { content } })),
  });
  const agent = (next: string, outputs: unknown): Expected => ({
    name: 'agent',
    kind: 'agent',
    ...WITH_SESSION,
    children: [
      { ...call, model: MODEL, usage: CALL_USAGE, ...WITH_SESSION, outputs },
      { name: 'tools_condition', kind: 'chain', ...WITH_SESSION, outputs: next },
    ],
  });
  const generations = (each: object) => ({ generations: [[each]] });
  return {
    client: 'LangChain and LangGraph with OpenInference',
    page: 'langchain',
    section: 'openinference',
    list: 'main',
    packages: ['openinference-instrumentation-langchain', 'langchain-core', 'langgraph'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['stream', 'tools', 'error'],
    traces: [
      {
        name: 'answer',
        ...WITH_SESSION,
        usage: TWO_CALLS_USAGE,
        tree: [
          {
            name: 'answer',
            kind: 'chain',
            ...WITH_SESSION,
            inputs: spoken(QUESTION),
            outputs: spoken(QUESTION, '', JSON_OF_WEATHER, ANSWER),
            children: [
              agent('tools', generations({ generation_info: { finish_reason: 'tool_calls' } })),
              {
                name: 'tools',
                kind: 'chain',
                ...WITH_SESSION,
                children: [
                  {
                    name: 'get_weather',
                    kind: 'tool',
                    tool: 'get_weather',
                    ...WITH_SESSION,
                    // Of a tool with one argument, its value.
                    inputs: CITY.city,
                    outputs: { type: 'tool', data: { content: JSON_OF_WEATHER } },
                  },
                ],
              },
              agent('__end__', generations({ text: ANSWER })),
            ],
          },
        ],
      },
      {
        name: 'ChatOpenAI',
        tree: [
          {
            ...call,
            model: MISSING_MODEL,
            error: { message: NOT_FOUND, type: /NotFoundError$/, stacktrace: /^Traceback/ },
          },
        ],
      },
    ],
  };
}

const JSON_OF_WEATHER = '{"city": "Oslo", "celsius": 4}';

function traceloopForJavaScript(): ClientCase {
  const session = { session: 'session-1', user: 'user-1' };
  const call = {
    name: `chat ${MODEL}`,
    kind: 'generation',
    model: ANSWERING_MODEL,
    provider: 'openai',
    ...session,
  } as const;
  return {
    client: 'Traceloop (OpenLLMetry) for JavaScript',
    page: 'traceloop',
    section: 'javascript',
    list: 'traceloop-js',
    packages: ['@traceloop/node-server-sdk', 'openai'],
    protocol: 'OTLP over HTTP, protobuf',
    calls: ['chat', 'stream', 'tools'],
    traces: [
      {
        name: 'answer.workflow',
        ...session,
        usage: { input_tokens: 39, output_tokens: 17, total_tokens: 56 },
        tree: [
          {
            name: 'answer.workflow',
            kind: 'chain',
            inputs: { args: [QUESTION], kwargs: {} },
            outputs: ANSWER,
            ...session,
            children: [
              {
                ...call,
                usage: COUNTED_USAGE,
                inputs: said('user', QUESTION),
                outputs: [{ role: 'assistant', parts: [{ type: 'tool_call', arguments: CITY }] }],
              },
              {
                name: 'get_weather.tool',
                kind: 'tool',
                inputs: { args: ['Oslo'], kwargs: {} },
                outputs: WEATHER,
                ...session,
              },
              {
                ...call,
                // An estimate of the SDK, which does not read the counts of the stream.
                usage: { input_tokens: 18, output_tokens: 8, total_tokens: 26 },
                inputs: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool' }],
                outputs: said('assistant', ANSWER),
              },
            ],
          },
        ],
      },
    ],
  };
}

/** Programs with instrumentations of LangChain, and of JavaScript with another version of OpenTelemetry. */
export const INSTRUMENTED_CASES: readonly ClientCase[] = [
  openInference(),
  traceloopForJavaScript(),
];
