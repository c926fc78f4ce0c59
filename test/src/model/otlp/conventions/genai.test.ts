import { readFileSync } from 'node:fs';
import t from 'tap';
import { attributeKey } from '../../../../../src/model/attributes.ts';
import { EVENTS, KINDS } from '../../../../../src/model/conventions.ts';
import { TOKEN_KINDS } from '../../../../../src/model/token-conventions.ts';
import { attributesOf, spanOf } from '../../../../helper/otlp-proto.ts';
import { read, withAttributes } from '../reading.ts';

/** The conventions of OpenTelemetry for generative AI, and what holds for the names of every client. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

t.test('more tokens of a cache than of the input are beside the input', async (t) => {
  const of = (cached: number) =>
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 12, 'gen_ai.usage.output_tokens': 40 },
      'gen_ai.usage.cache_read.input_tokens': cached,
    });
  t.match(of(12), { input_tokens: 12, cached_tokens: 12, total_tokens: 52 });
  t.match(of(13), { input_tokens: 25, cached_tokens: 13, total_tokens: 65 });
});

t.test('tokens of reasoning beside the output, as Google and xAI count them', async (t) => {
  const of = (reasoning: number, total: object) =>
    usageOf({
      ...{ 'gen_ai.usage.input_tokens': 21, 'gen_ai.usage.output_tokens': 9 },
      ...{ 'gen_ai.usage.reasoning.output_tokens': reasoning, ...total },
    });
  const sent = (total: number) => ({ 'gen_ai.usage.total_tokens': total });
  t.match(of(4, sent(34)), { output_tokens: 13, reasoning_tokens: 4, total_tokens: 34 });
  for (const total of [30, 33, 35]) {
    t.match(of(4, sent(total)), { output_tokens: 9, total_tokens: total }, 'no room for them');
  }
  t.match(of(9, {}), { output_tokens: 9, total_tokens: 30 });
  t.match(of(10, {}), { output_tokens: 19, total_tokens: 40 }, 'more than the output');
  t.match(of(10, sent(30)), { output_tokens: 9, total_tokens: 30 }, 'the total has no more');
  t.match(of(10, sent(35)), { output_tokens: 19, total_tokens: 40 });
});

t.test('short names of cached tokens', async (t) => {
  const cached = { 'gen_ai.usage.input_tokens': 30, 'gen_ai.usage.cache_read_tokens': 8 };
  for (const written of ['cache_write_tokens', 'cache_creation_tokens']) {
    t.match(usageOf({ ...cached, [`gen_ai.usage.${written}`]: 4 }), {
      ...{ input_tokens: 30, cached_tokens: 8, cache_write_tokens: 4 },
    });
  }
});

t.test('GenAI: current names of tokens, with a total', async (t) => {
  t.same(
    usageOf({
      'gen_ai.usage.input_tokens': 100,
      'gen_ai.usage.output_tokens': 50,
      'gen_ai.usage.cache_read.input_tokens': 40,
      'gen_ai.usage.cache_write.input_tokens': 10,
      'gen_ai.usage.reasoning.output_tokens': 30,
      'gen_ai.usage.text.input_tokens': 60,
      'gen_ai.usage.image.input_tokens': 25,
      'gen_ai.usage.audio.input_tokens': 15,
      'gen_ai.usage.video.input_tokens': 1,
      'gen_ai.usage.text.output_tokens': 49,
      'gen_ai.usage.audio.output_tokens': 1,
    }),
    {
      ...{ input_tokens: 100, output_tokens: 50, total_tokens: 150 },
      ...{ cached_tokens: 40, cache_write_tokens: 10, reasoning_tokens: 30 },
      ...{ input_text_tokens: 60, input_image_tokens: 25, input_audio_tokens: 15 },
      ...{ input_video_tokens: 1, output_text_tokens: 49, output_audio_tokens: 1 },
    },
  );
  t.same(usageOf({ 'llm.token_count.prompt': 5 }), { input_tokens: 5, total_tokens: 5 });
  t.same(
    usageOf({ 'gen_ai.usage.cache_read.input_tokens': 5 }),
    { cached_tokens: 5 },
    'a part alone makes no total',
  );
});

t.test('GenAI: new operations', async (t) => {
  const kind = (name: string) =>
    withAttributes({ 'gen_ai.operation.name': name, 'gen_ai.request.model': 'm' }).observation.kind;
  t.equal(kind('plan'), 'chain');
  t.equal(kind('search_memory'), 'retriever');
  t.equal(kind('upsert_memory'), 'span');
});

t.test('the first token of an event is after the start', async (t) => {
  const startTimeUnixNano = '1768478398000000000';
  const ttftOf = (...events: object[]) =>
    read(spanOf(0, { startTimeUnixNano, events })).observation.details?.ttftMs;
  const token = (name: string, timeUnixNano: string) => ({ name, timeUnixNano });
  t.equal(ttftOf(token('First Token Stream Event', '1768478398250000000')), 250);
  t.equal(
    ttftOf(
      token('gen_ai.content.completion.chunk', '1768478398500000000'),
      token('gen_ai.content.completion.chunk', '1768478398400000000'),
    ),
    400,
    'the earliest event counts',
  );
  t.equal(ttftOf(token('First Token Stream Event', '0')), undefined);
  t.equal(ttftOf(token('another event', '1768478398250000000')), undefined);
  const attributes = attributesOf({ 'gen_ai.client.operation.time_to_first_chunk': 0.1 });
  const events = [token('new_token', '1768478398400000000')];
  t.equal(
    read(spanOf(0, { startTimeUnixNano, attributes, events })).observation.details?.ttftMs,
    100,
    'an attribute precedes the events',
  );
});

t.test('a malformed value costs its field, and is noted', async (t) => {
  const { observation } = withAttributes({
    'gen_ai.usage.input_tokens': 'many',
    'gen_ai.usage.output_tokens': 9,
    'langfuse.observation.usage_details': '{broken',
    'mlflow.chat.tokenUsage': '{"input_tokens":-1,"output_tokens":null,"x":"y"}',
    'langfuse.observation.completion_start_time': 'yesterday',
    'gen_ai.response.time_to_first_chunk': 'soon',
    'gen_ai.usage.cost': 'free',
    'mlflow.llm.cost': '[]',
    'gen_ai.usage.cost_details': '{"input":"x","output":0.5}',
    'tag.tags': 5,
    'langsmith.span.tags': '[broken',
  });
  t.same(observation.usage, { output_tokens: 9, total_tokens: 9 });
  t.equal(observation.details?.cost?.total, 500_000_000);
  const count = 'is no count of tokens';
  t.same(observation.details?.ignored, [
    { path: 'attributes.gen_ai.usage.input_tokens', reason: count },
    { path: 'attributes.langfuse.observation.usage_details', reason: 'is no object of counts' },
    { path: 'attributes.mlflow.chat.tokenUsage.input_tokens', reason: count },
    { path: 'attributes.langfuse.observation.completion_start_time', reason: 'is no time' },
    { path: 'attributes.gen_ai.response.time_to_first_chunk', reason: 'is no duration' },
    { path: 'attributes.gen_ai.usage.cost', reason: 'is no amount' },
    { path: 'attributes.mlflow.llm.cost', reason: 'is no object of amounts' },
    { path: 'attributes.gen_ai.usage.cost_details.input', reason: 'is no amount' },
    { path: 'attributes.tag.tags', reason: 'is no list of texts' },
    { path: 'attributes.langsmith.span.tags', reason: 'is no list of texts' },
  ]);
});

t.test('at most 16 malformed values are noted, each place once', async (t) => {
  const counts = Object.values(TOKEN_KINDS).flatMap(({ attributes }) => attributes);
  const many = Object.fromEntries(counts.map((key) => [key, 'many']));
  t.equal(withAttributes(many).observation.details?.ignored?.length, 16);
  const shared = { 'langsmith.usage_metadata': 'broken' };
  t.same(withAttributes(shared).observation.details?.ignored, [
    { path: 'attributes.langsmith.usage_metadata', reason: 'is no object of counts' },
  ]);
});

/** Attributes of the registry that describe a call and have no field: they remain in the metadata. */
const METADATA_ONLY = [
  /^gen_ai\.request\.(?!model$)/,
  /^gen_ai\.response\.finish_reasons$/,
  /^gen_ai\.token\./,
  // The name tells Gemini CLI apart.
  /^gen_ai\.agent\.(?!name$)/,
  /^gen_ai\.tool\.(?:description|type|definitions)$/,
  /^gen_ai\.(?:data_source|workflow|embeddings|output\.type|evaluation)/,
  /^gen_ai\.memory\.(?:store|record)\./,
  // Joined to the inputs.
  /^gen_ai\.system_instructions$/,
];

type Registry = {
  readonly attributes: readonly string[];
  readonly operations: readonly string[];
  readonly events: readonly string[];
};

t.test('every name of the GenAI registry has a meaning', async (t) => {
  const file = new URL('../../../../fixtures/conventions/gen-ai.json', import.meta.url);
  const { attributes, operations, events } = JSON.parse(readFileSync(file, 'utf8')) as Registry;
  t.same(
    attributes.filter((name) => attributeKey(name).rules.length === 0),
    attributes.filter((name) => METADATA_ONLY.some((names) => names.test(name))),
    'an attribute is mapped, or it is known to remain in the metadata',
  );
  const known = KINDS.find(({ key }) => key === 'gen_ai.operation.name')?.values ?? {};
  t.same(
    operations.filter((name) => known[name] === undefined),
    [],
  );
  t.same(
    events.filter((name) => EVENTS[name] === undefined),
    ['gen_ai.evaluation.result'],
    'the result of an evaluation remains an event',
  );
});
