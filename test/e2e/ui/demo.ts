import { createHash } from 'node:crypto';

/** Traces for screenshots: a support agent with retrieval, tools and model calls, over three days. */
export type DemoEvent = Readonly<Record<string, unknown>>;

const MODELS = ['gpt-4o', 'gpt-4o-mini', 'claude-sonnet-4-5', 'gemini-2.5-flash'];
const TASKS = [
  {
    name: 'support-agent',
    ask: 'How do I reset my password?',
    say: 'Open Settings, choose Security, then “Reset password”. The link stays valid for one hour.',
  },
  {
    name: 'summarize',
    ask: 'Summarize the attached contract in three points.',
    say: 'The term is two years, either side may end it with 90 days of notice, and the price is fixed.',
  },
  {
    name: 'rag-answer',
    ask: 'What is the refund policy for annual plans?',
    say: 'Annual plans can be refunded in full within 30 days, and in part until the sixth month.',
  },
  {
    name: 'classify-ticket',
    ask: 'Classify this ticket: “The app crashes on login since Tuesday.”',
    say: 'bug, severity high, component login',
  },
  {
    name: 'nightly-report',
    ask: 'Write the nightly report.',
    say: 'Traffic grew by 4 %, two incidents were resolved, and costs stayed below the budget.',
  },
];
const DAY = 86_400_000;

/** The events of `count` traces that end before `now`, milliseconds. The same numbers give the same traces. */
export function demoEvents(count: number, now: number): readonly DemoEvent[] {
  return Array.from({ length: count }, (_, index) => traceOf(index, now)).flat();
}

/** A number from 0 to 1 that depends on its name only. */
function drawn(name: string): number {
  return createHash('sha256').update(name).digest().readUInt32BE(0) / 2 ** 32;
}

function pick<T>(values: readonly T[], name: string): T {
  const value = values[Math.floor(drawn(name) * values.length)];
  if (value === undefined) throw new Error('nothing to pick from');
  return value;
}

function traceOf(index: number, now: number): readonly DemoEvent[] {
  const { name, ask, say } = pick(TASKS, `task ${index}`);
  const model = pick(MODELS, `model ${index}`);
  const isFailed = index % 13 === 5;
  const length = 400 + Math.floor(drawn(`length ${index}`) ** 2 * 9_000);
  const age = drawn(`age ${index}`) * (index % 3 === 0 ? 3 * DAY : DAY);
  const begin = index === 0 ? now - length - 20_000 : now - length - age;
  const at = (part: number): string => new Date(begin + part * length).toISOString();
  const event = (step: string, rest: DemoEvent): DemoEvent => ({
    ...{ trace_id: `demo-${index}`, observation_id: `demo-${index}-${step}` },
    ...{ operation: 'finish', status: 'success', ...rest },
    ...(step === 'root' ? {} : { parent_id: `demo-${index}-root` }),
  });
  const order = { order: `A-${1000 + index}` };
  const call = { id: 'call_1', type: 'function', function: { name: 'lookup_order' } };
  const system = { role: 'system', content: 'You are a support agent. Answer briefly.' };
  const user = { role: 'user', content: ask };
  const usage = (part: number): DemoEvent => ({
    input_tokens: 300 + Math.floor(drawn(`in ${index} ${part}`) * 1_500),
    output_tokens: 40 + Math.floor(drawn(`out ${index} ${part}`) * 500),
  });
  return [
    event('root', {
      ...{ kind: 'agent', name, start_time: at(0), end_time: at(1) },
      status: isFailed ? 'error' : 'success',
      inputs: { messages: [user] },
      outputs: isFailed ? null : { messages: [{ role: 'assistant', content: say }] },
      metadata: {
        ...{ session_id: `chat-${index % 40}`, user_id: `user-${index % 17}@example.com` },
        environment: index % 4 === 0 ? 'staging' : 'production',
      },
      custom_fields: { team: index % 2 === 0 ? 'platform' : 'growth' },
    }),
    event('search', {
      ...{ kind: 'retriever', name: 'search-docs', start_time: at(0.01), end_time: at(0.2) },
      inputs: { query: ask },
      outputs: {
        documents: [{ page_content: 'Refunds and cancellations' }, { page_content: 'Plans' }],
      },
    }),
    event('plan', {
      ...{ kind: 'llm', name: `chat ${model}`, model, usage: usage(1) },
      ...{ start_time: at(0.2), end_time: at(0.55) },
      inputs: { messages: [system, user] },
      outputs: { role: 'assistant', content: null, tool_calls: [withArguments(call, order)] },
    }),
    event('tool', {
      ...{ kind: 'tool', name: 'lookup_order', start_time: at(0.55), end_time: at(0.68) },
      status: isFailed ? 'error' : 'success',
      inputs: order,
      outputs: isFailed ? null : { state: 'shipped', carrier: 'DHL' },
      ...(isFailed ? { error: FAILURE } : {}),
    }),
    event('answer', {
      ...{ kind: 'llm', name: `chat ${model}`, model, usage: usage(2) },
      ...{ start_time: at(0.68), end_time: at(0.98) },
      status: isFailed ? 'error' : 'success',
      inputs: {
        messages: [
          ...[system, user],
          { role: 'assistant', content: null, tool_calls: [withArguments(call, order)] },
          { role: 'tool', tool_call_id: 'call_1', content: '{"state":"shipped"}' },
        ],
      },
      outputs: isFailed ? null : { role: 'assistant', content: say },
    }),
  ];
}

function withArguments(
  call: { readonly function: { readonly name: string } },
  given: DemoEvent,
): DemoEvent {
  return { ...call, function: { ...call.function, arguments: JSON.stringify(given) } };
}

const FAILURE = {
  type: 'TimeoutError',
  message: 'The order service did not answer within 5 s',
  stacktrace:
    'TimeoutError: The order service did not answer within 5 s\n    at lookup (orders.js:12)',
};
