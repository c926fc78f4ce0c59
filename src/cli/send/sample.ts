import { randomBytes, randomInt, randomUUID } from 'node:crypto';
import type { Clock } from '../../component/component.ts';
import { encodeOwnSpans, type OwnSpan } from '../../model/otlp/own-span.ts';
import type { SendRequest } from './pump.ts';

export type SampleKind = 'native' | 'runs' | 'otlp';

/** The spans of one answer to a question: the agent, the call of a model, the call of a tool. */
export const SPANS_PER_TRACE = 3;
/** Well below the limits of usual servers. */
const MAX_TRACES_PER_REQUEST = 33;

export type SampleOptions = {
  readonly traces: number;
  readonly encoding: 'proto' | 'json';
  /** A request has whole traces, so at least one. */
  readonly maxSpans: number | undefined;
  /** Spans a second. A low rate also makes requests small, so that they come evenly. */
  readonly rate: number | undefined;
  readonly clock: Clock;
  /** Reports the spans of each request. */
  readonly onSpans: (count: number) => void;
};

/** Traces of a small application, with random ids, which end at the current time. */
export async function* sampleRequests(
  kind: SampleKind,
  { traces, encoding, maxSpans, rate, clock, onSpans }: SampleOptions,
): AsyncGenerator<SendRequest> {
  const spans = Math.min(maxSpans ?? Number.POSITIVE_INFINITY, rate ?? Number.POSITIVE_INFINITY);
  const perRequest = Math.max(
    1,
    Math.min(MAX_TRACES_PER_REQUEST, Math.floor(spans / SPANS_PER_TRACE)),
  );
  for (let first = 1; first <= traces; first += perRequest) {
    const count = Math.min(perRequest, traces - first + 1);
    const name = count === 1 ? `trace ${first}` : `traces ${first}-${first + count - 1}`;
    onSpans(count * SPANS_PER_TRACE);
    yield {
      name,
      spans: count * SPANS_PER_TRACE,
      from: undefined,
      next: undefined,
      encode() {
        const calls = Array.from({ length: count }, () => randomCall(clock.now()));
        return encode(kind, calls, encoding);
      },
      halves: () => [],
    };
  }
}

/** A question and its answer, independent of the protocol. */
type Call = {
  readonly question: string;
  readonly answer: string;
  readonly tool: string;
  readonly found: string;
  readonly model: string;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
  readonly session: string;
  /** Start and end of each span, in milliseconds since the epoch. */
  readonly times: Readonly<Record<'agent' | 'tool' | 'model', readonly [number, number]>>;
};

const TOPICS = [
  ['What is the weather in Lisbon?', 'weather', '21 °C, clear', 'It is 21 °C and clear in Lisbon.'],
  ['When does order 4711 arrive?', 'orders', 'in transit, due Friday', 'It is due on Friday.'],
  ['What is 17 % of 2,450?', 'calculator', '416.5', '17 % of 2,450 is 416.50.'],
  ['Who wrote the deployment guide?', 'search', 'guide.md, by R. Sato', 'R. Sato wrote it.'],
] as const;
const MODELS = ['gpt-4.1-mini', 'claude-sonnet-4-5', 'gemini-2.5-flash'] as const;

function randomCall(end: number): Call {
  const [question, tool, found, answer] = oneOf(TOPICS);
  const modelMs = randomInt(200, 1500);
  const toolMs = randomInt(20, 300);
  const start = end - modelMs - toolMs - 4;
  return {
    question,
    tool,
    found,
    answer,
    model: oneOf(MODELS),
    usage: { input_tokens: randomInt(80, 900), output_tokens: randomInt(10, 200) },
    session: `sample-${randomInt(1, 20)}`,
    times: {
      agent: [start, end],
      tool: [start + 1, start + 1 + toolMs],
      model: [end - 1 - modelMs, end - 1],
    },
  };
}

function oneOf<const T extends readonly unknown[]>(values: T): T[number] {
  return values[randomInt(values.length)];
}

function encode(
  kind: SampleKind,
  calls: readonly Call[],
  encoding: 'proto' | 'json',
): Buffer | Promise<Buffer> {
  switch (kind) {
    case 'native':
      return Buffer.from(JSON.stringify({ events: calls.flatMap(eventsOf) }));
    case 'runs':
      return Buffer.from(JSON.stringify({ post: calls.flatMap(runsOf), patch: [] }));
    case 'otlp':
      return encodeOwnSpans(ORIGIN, calls.flatMap(spansOf), encoding);
  }
}

const ORIGIN = { service: 'tracectl-sample', scope: 'tracectl send' };

function messages({ question }: Call) {
  return { messages: [{ role: 'user', content: question }] };
}

function eventsOf(call: Call): object[] {
  const [trace_id, root] = [randomUUID(), randomUUID()];
  const common = { trace_id, operation: 'finish', status: 'success', session_id: call.session };
  const timed = (part: keyof Call['times']) => {
    const [start, end] = call.times[part];
    return { start_time: new Date(start).toISOString(), end_time: new Date(end).toISOString() };
  };
  return [
    {
      ...{ ...common, id: root, kind: 'agent', name: 'answer', ...timed('agent') },
      ...{ inputs: messages(call), outputs: { content: call.answer } },
    },
    {
      ...{ ...common, id: randomUUID(), parent_id: root, kind: 'tool', name: call.tool },
      ...{ ...timed('tool'), inputs: { query: call.question }, outputs: { result: call.found } },
    },
    {
      ...{ ...common, id: randomUUID(), parent_id: root, kind: 'generation', name: 'chat' },
      ...{ ...timed('model'), inputs: messages(call), outputs: { content: call.answer } },
      ...{ model: call.model, usage: call.usage },
    },
  ];
}

function runsOf(call: Call): object[] {
  const root = randomUUID();
  const rootOrder = orderSegment(call.times.agent[0], root);
  const run = (part: keyof Call['times'], id: string, fields: object) => {
    const [start, end] = call.times[part];
    const isRoot = id === root;
    return {
      id,
      trace_id: root,
      ...(isRoot ? {} : { parent_run_id: root }),
      dotted_order: isRoot ? rootOrder : `${rootOrder}.${orderSegment(start, id)}`,
      start_time: new Date(start).toISOString(),
      end_time: new Date(end).toISOString(),
      session_name: 'sample',
      ...fields,
    };
  };
  const { input_tokens, output_tokens } = call.usage;
  const usage_metadata = {
    input_tokens,
    output_tokens,
    total_tokens: input_tokens + output_tokens,
  };
  const metadata = { session_id: call.session };
  return [
    run('agent', root, {
      ...{ name: 'answer', run_type: 'chain', extra: { metadata } },
      ...{ inputs: messages(call), outputs: { content: call.answer } },
    }),
    run('tool', randomUUID(), {
      ...{ name: call.tool, run_type: 'tool', extra: { metadata } },
      ...{ inputs: { query: call.question }, outputs: { result: call.found } },
    }),
    run('model', randomUUID(), {
      ...{ name: 'chat', run_type: 'llm', inputs: messages(call) },
      extra: { metadata: { ...metadata, ls_model_name: call.model } },
      outputs: { content: call.answer, usage_metadata },
    }),
  ];
}

/** `20260115T120000000000Z<id>`: a time in microseconds without punctuation, and the id of the run. */
function orderSegment(ms: number, id: string): string {
  return `${new Date(ms).toISOString().replaceAll(/[-:.]/g, '').slice(0, -1)}000Z${id}`;
}

function spansOf(call: Call): OwnSpan[] {
  const traceId = randomBytes(16).toString('hex');
  const root = randomBytes(8).toString('hex');
  const span = (
    part: keyof Call['times'],
    name: string,
    fields: Readonly<Record<string, string | number>>,
  ): OwnSpan => {
    const [start, end] = call.times[part];
    const common = { 'session.id': call.session, 'gen_ai.conversation.id': call.session };
    return {
      traceId,
      ...(part === 'agent' ? { spanId: root } : { spanId: randomBytes(8).toString('hex') }),
      ...(part === 'agent' ? {} : { parentSpanId: root }),
      name,
      kind: part === 'model' ? 'client' : 'internal',
      start: { ms: start, ns: 0 },
      end: { ms: end, ns: 0 },
      attributes: { ...common, ...fields },
      events: [],
      status: { code: OK },
    };
  };
  const { input_tokens, output_tokens } = call.usage;
  return [
    span('agent', 'invoke_agent answer', {
      'openinference.span.kind': 'AGENT',
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': 'answer',
      'input.value': call.question,
      'output.value': call.answer,
    }),
    span('tool', `execute_tool ${call.tool}`, {
      'openinference.span.kind': 'TOOL',
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': call.tool,
      'input.value': call.question,
      'output.value': call.found,
    }),
    span('model', `chat ${call.model}`, {
      'openinference.span.kind': 'LLM',
      'gen_ai.operation.name': 'chat',
      'gen_ai.request.model': call.model,
      'gen_ai.usage.input_tokens': input_tokens,
      'gen_ai.usage.output_tokens': output_tokens,
      'input.value': call.question,
      'output.value': call.answer,
    }),
  ];
}

const OK = 1;
