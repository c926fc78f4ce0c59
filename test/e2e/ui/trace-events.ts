import { HOSTILE } from './rig.ts';

/** The start of the first observation. */
const BEGIN = Date.now() - 60_000;

type Event = Readonly<Record<string, unknown>>;

function at(ms: number): string {
  return new Date(BEGIN + ms).toISOString();
}

function event(trace: string, id: string, parent: string | null, more: Event): Event {
  const isFailed = more['error'] !== undefined;
  return {
    ...{ trace_id: trace, id, parent_id: parent, name: id, kind: 'span' },
    operation: isFailed ? 'error' : 'finish',
    status: isFailed ? 'error' : 'success',
    ...more,
  };
}

/** A small PNG. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==';

const CALL = {
  ...{ role: 'assistant', content: null },
  tool_calls: [{ id: 'call_1', function: { name: 'get_weather', arguments: '{"in":"Paris"}' } }],
};

/** An agent that calls a model and two tools, of which one fails. */
export const AGENT: readonly Event[] = [
  event('agent', 'root', null, {
    ...{ name: 'assistant', kind: 'agent', start_time: at(0), end_time: at(4_000) },
    ...{ inputs: { input: 'Weather?' }, outputs: { output: 'Rain.' } },
    ...{ session_id: 's-1', user_id: 'ada', custom_fields: { tenant: 'acme' } },
    metadata: { session_id: 's-1', user_id: 'ada' },
  }),
  event('agent', 'llm', 'root', {
    ...{ name: 'chat', kind: 'llm', start_time: at(10), end_time: at(1_500), model: 'gpt-4.1' },
    usage: { input_tokens: 1_000, output_tokens: 50 },
    inputs: {
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Weather in Paris?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
          ],
        },
        CALL,
        { role: 'tool', tool_call_id: 'call_1', content: 'rain, 12 °C' },
      ],
    },
    outputs: { choices: [{ message: { role: 'assistant', content: 'It rains.' } }] },
  }),
  event('agent', 'tools', 'root', { start_time: at(1_500), end_time: at(3_900), kind: 'chain' }),
  event('agent', 'slow', 'tools', { start_time: at(1_510), end_time: at(3_890), kind: 'tool' }),
  event('agent', 'broken', 'tools', {
    ...{ start_time: at(1_520), end_time: at(1_700), kind: 'tool' },
    error: { type: 'TimeoutError', message: 'too late', stacktrace: 'at price.ts:41' },
    events: [{ name: 'retry', time: at(1_600), attributes: { attempt: 2 } }],
    external: { run_type: 'tool' },
  }),
];

/** Latencies with the longest usual texts, and one that is longer. */
export const LONG_LATENCIES: readonly Event[] = [90, 3_599, 5_400, 86_399, 9e9].map((s) =>
  event('long', `${s} s`, null, { start_time: at(0), end_time: at(s * 1_000) }),
);

/** Everything that is wrong with times and parents, and a document that is deep and wide. */
export const BAD: readonly Event[] = [
  event('bad', 'a', 'c', { start_time: at(0), end_time: at(10) }),
  event('bad', 'b', 'a', { start_time: '0001-01-01T00:00:00Z', end_time: at(10) }),
  event('bad', 'c', 'b', { start_time: at(0), end_time: '9999-12-31T23:59:59Z' }),
  event('bad', 'orphan', 'gone', { start_time: at(10), end_time: at(5) }),
  event('bad', 'timeless', 'orphan', {}),
  event('bad', 'document', 'orphan', {
    inputs: { deep: JSON.parse(`${'['.repeat(400)}"needle"${']'.repeat(400)}`) },
    outputs: { long: `${'y'.repeat(1_000_000)}end` },
    metadata: Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`attribute.${i}`, i])),
  }),
];

const LONG = 'L'.repeat(200_000);

/** A trace whose every field has a hostile text. */
export const HOSTILE_EVENTS: readonly Event[] = [...HOSTILE, '\0', LONG].map((text, index) =>
  event('hostile', `hostile-${index}`, index === 0 ? null : 'hostile-0', {
    ...{ name: text.slice(0, 4_000), kind: 'llm', model: text.slice(0, 4_000) },
    ...{ start_time: at(index), end_time: at(index + 5) },
    error: { type: text, message: text, stacktrace: text },
    custom_fields: { [text.slice(0, 60)]: text.slice(0, 900) },
    metadata: {
      ...{ user_id: text.slice(0, 200), session_id: text.slice(0, 200) },
      [text.slice(0, 200)]: { [text.slice(0, 200)]: text },
    },
    inputs: {
      messages: [
        { role: text, name: text, content: text },
        {
          role: 'assistant',
          tool_calls: [{ id: text, function: { name: text, arguments: text } }],
        },
        { role: 'user', content: [{ type: 'image_url', image_url: { url: text } }] },
      ],
    },
    outputs: text,
    events: [{ name: text, time: text, attributes: { [text.slice(0, 200)]: text } }],
  }),
);
