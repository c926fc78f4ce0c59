import t from 'tap';
import { attributesOf, spanOf } from '../../../helper/otlp-proto.ts';
import { read, withAttributes } from './reading.ts';

const details = (values: Record<string, unknown>, more: object = {}) =>
  withAttributes(values, more).observation.details;

t.test('a span has the details of its attributes', async (t) => {
  t.same(
    details({
      'gen_ai.provider.name': 'openai',
      'deployment.environment.name': 'production',
      'langfuse.release': '1.4.0',
      'tag.tags': ['beta', 'search'],
      'langfuse.observation.prompt.name': 'answer',
      'langfuse.observation.prompt.version': 3,
      'gen_ai.tool.name': 'weather',
      'gen_ai.response.time_to_first_chunk': 0.25,
      'llm.cost.prompt': 0.001,
      'llm.cost.completion': '0.002',
    }),
    {
      provider: 'openai',
      environment: 'production',
      release: '1.4.0',
      tags: ['beta', 'search'],
      promptName: 'answer',
      promptVersion: '3',
      tool: 'weather',
      ttftMs: 250,
      cost: { input: 1_000_000, output: 2_000_000, total: 3_000_000, source: 'sent' },
    },
  );
  t.equal(details({}), null);
});

t.test(
  'environment, release and tags may be those of the resource, and the scope is kept',
  async (t) => {
    const resource = {
      attributes: attributesOf({
        'deployment.environment': 'staging',
        'service.version': '2',
        'tag.tags': ['a'],
        'gen_ai.provider.name': 'not of a resource',
      }),
    };
    const around = { resource, scope: { name: 'openinference.instrumentation.openai' } };
    const scope = around.scope.name;
    const inherited = { environment: 'staging', release: '2', tags: ['a'], scope };
    t.same(read(spanOf(0, { attributes: [] }), around).observation.details, inherited);
    const own = attributesOf({ 'langfuse.environment': 'production' });
    t.same(read(spanOf(0, { attributes: own }), around).observation.details, {
      ...inherited,
      environment: 'production',
    });
  },
);

t.test('a cost of 0 from OpenLIT is that of a model whose price it does not know', async (t) => {
  const costOf = (amount: number, name: string) => {
    const attributes = attributesOf({ 'gen_ai.usage.cost': amount });
    return read(spanOf(0, { attributes }), { scope: { name } }).observation.details?.cost;
  };
  t.equal(costOf(0, '@openlit/instrumentation-openai'), undefined);
  t.equal(costOf(0, 'openlit.otel.tracing'), undefined);
  t.match(costOf(0.25, '@openlit/instrumentation-openai'), { total: 250_000_000 });
  t.match(costOf(0, 'openlitter'), { total: 0, source: 'sent' });
});

t.test('the unit of a time to the first token may depend on the scope', async (t) => {
  const attributes = attributesOf({ 'gen_ai.server.time_to_first_token': 308 });
  const ttftIn = (name: string) =>
    read(spanOf(0, { attributes }), { scope: { name } }).observation.details?.ttftMs;
  t.equal(ttftIn('strands.telemetry.tracer'), 308);
  t.equal(ttftIn('another'), 308_000);
});

t.test('tags are an array, a JSON array or a text with commas', async (t) => {
  for (const tags of [['a', 'b'], '["a","b"]', 'a, b', ' ["a", "b"]']) {
    t.same(details({ 'langsmith.span.tags': tags }), { tags: ['a', 'b'] }, String(tags));
  }
  t.same(details({ 'lmnr.association.properties.tags': ['a'] }), { tags: ['a'] });
  const ignored = [{ path: 'attributes.tag.tags', reason: 'is no list of texts' }];
  t.same(details({ 'tag.tags': '[broken' }), { ignored });
  t.same(details({ 'tag.tags': 5 }), { ignored });
  for (const tags of ['["a", 5]', ['a', 5]]) {
    t.same(details({ 'tag.tags': tags }), { tags: ['a'], ignored }, String(tags));
  }
  t.same(details({ 'tag.tags': '["a", null]' }), { tags: ['a'] });
});

t.test('an attribute of its own precedes an object of amounts', async (t) => {
  const sent = { input: 0.1, output: 0.2, total: 0.4, other: 9 };
  const all = {
    'langfuse.observation.cost_details': JSON.stringify(sent),
    'gen_ai.usage.cost': 0.5,
  };
  t.same(details(all)?.cost, {
    input: 100_000_000,
    output: 200_000_000,
    total: 500_000_000,
    source: 'sent',
  });
  const key = 'langfuse.observation.cost_details';
  t.same(details({ [key]: '{"total":"free"}' }), {
    ignored: [{ path: `attributes.${key}.total`, reason: 'is no amount' }],
  });
  t.same(details({ 'llm.cost.total': -1 }), {
    ignored: [{ path: 'attributes.llm.cost.total', reason: 'is no amount' }],
  });
});

t.test('the first token is a duration or an instant after the start', async (t) => {
  const start = { startTimeUnixNano: '1768478398000000000' };
  const at = (time: string) =>
    details({ 'langfuse.observation.completion_start_time': time }, start);
  t.same(at('"2026-01-15T11:59:58.500Z"'), { ttftMs: 500 });
  t.same(at('2026-01-15T11:59:58.500Z'), { ttftMs: 500 });
  t.equal(at('2026-01-15T11:59:57Z'), null, 'before the start');
  t.same(details({ 'mastra.completion_start_time': '2026-01-15T11:59:58.250Z' }, start), {
    ttftMs: 250,
  });
  t.same(details({ 'ai.response.msToFirstChunk': 12.5 }), { ttftMs: 12.5 });
  t.same(details({ 'ai.response.msToFirstChunk': 'soon' }), {
    ignored: [{ path: 'attributes.ai.response.msToFirstChunk', reason: 'is no duration' }],
  });
});

t.test(
  'the size of an input or output is that of its text, or of all texts of its family',
  async (t) => {
    t.same(details({ 'input.value': 'ab\u00e9', 'output.value': '{"a":1}' }), {
      inputBytes: 4,
      outputBytes: 7,
    });
    t.same(details({ 'input.value': 'first', 'langfuse.observation.input': 'precedes' }), {
      inputBytes: 8,
    });
    const messages = {
      'llm.input_messages.0.message.role': 'user',
      'llm.input_messages.0.message.content': 'hello',
      'llm.input_messages.1.message.content': 5,
    };
    t.same(details(messages), { inputBytes: 9 });
    t.equal(details({ 'input.value': 5, 'output.value': ['a'] }), null, 'no texts');
  },
);
