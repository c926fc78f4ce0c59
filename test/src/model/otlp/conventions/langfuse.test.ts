import t from 'tap';
import { attributesOf } from '../../../../helper/otlp-proto.ts';
import { withAttributes } from '../reading.ts';

/** Attributes of the SDKs of Langfuse. */

const usageOf = (values: Record<string, unknown>) => withAttributes(values).observation.usage;

t.test('Langfuse: the level ERROR is a failure with the status message', async (t) => {
  const failed = {
    'langfuse.observation.level': 'ERROR',
    'langfuse.observation.status_message': 'Error: 400 the model is unknown',
  };
  t.match(withAttributes(failed).observation, {
    status: 'error',
    operation: 'error',
    ended: true,
    error: { message: 'Error: 400 the model is unknown', type: null },
  });
  const status = { code: 2, message: 'of the status' };
  t.match(
    withAttributes(failed, { status }).observation.error,
    { message: 'of the status' },
    'the message of the level remains in the metadata',
  );
  const exception = attributesOf({ 'exception.message': 'of the exception' });
  t.match(
    withAttributes(failed, { status, events: [{ name: 'exception', attributes: exception }] })
      .observation.error,
    { message: 'of the exception' },
  );
  for (const level of ['WARNING', 'DEFAULT', 'error', 5]) {
    const { observation } = withAttributes({ ...failed, 'langfuse.observation.level': level });
    t.match(observation, { status: 'pending', error: null }, String(level));
  }
});

t.test('Langfuse: the attributes of the trace are mapped', async (t) => {
  const { observation, payload } = withAttributes({
    'langfuse.trace.name': 'lf trace',
    'user.id': 'u',
    'session.id': 's',
    'langfuse.trace.tags': ['a', 'b'],
    'langfuse.environment': 'staging',
    'langfuse.release': '1.2',
    'langfuse.trace.public': true,
    'langfuse.trace.metadata.k': '"v"',
    'langfuse.trace.metadata.plain': 'text',
    'langfuse.trace.metadata.digits': '12',
    'langfuse.observation.metadata.nested': '{"a":[1]}',
    'langfuse.trace.input': '{"q":1}',
  });
  t.match(observation, {
    sessionId: 's',
    userId: 'u',
    details: { traceName: 'lf trace', tags: ['a', 'b'], environment: 'staging', release: '1.2' },
  });
  t.match(payload.inputs, { q: 1 });
  t.match(payload.metadata, {
    'langfuse.trace.public': true,
    'langfuse.trace.metadata.k': 'v',
    'langfuse.trace.metadata.plain': 'text',
    'langfuse.trace.metadata.digits': '12',
    'langfuse.observation.metadata.nested': { a: [1] },
  });
});

t.test('Langfuse JS: input without cached tokens, output without reasoning', async (t) => {
  const details = { input: 13, output: 5, total: 30, input_cached_tokens: 8 };
  t.same(
    usageOf({
      'langfuse.observation.usage_details': JSON.stringify({
        ...details,
        output_reasoning_tokens: 4,
      }),
    }),
    {
      ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
      ...{ cached_tokens: 8, reasoning_tokens: 4 },
    },
  );
});

t.test('Langfuse Python: input and output of LangChain without audio', async (t) => {
  const sent = {
    ...{ input: 10, input_cache_read: 3, input_audio: 5 },
    ...{ output: 7, output_reasoning: 1, output_audio: 2, total: 28 },
  };
  const expected = {
    ...{ input_tokens: 18, output_tokens: 10, total_tokens: 28, cached_tokens: 3 },
    ...{ reasoning_tokens: 1, input_audio_tokens: 5, output_audio_tokens: 2 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), expected);
  const { total: _, ...withoutTotal } = sent;
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(withoutTotal) }), expected);
});

t.test(
  'Langfuse Python: cache writes of LangChain by tier are cache writes of the input',
  async (t) => {
    const of = (sent: object) =>
      usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) });
    const tiers = {
      ...{ input: 52, output: 9, input_cache_read: 0, input_cache_creation: 0 },
      ...{ input_ephemeral_5m_input_tokens: 2048, input_ephemeral_1h_input_tokens: 100 },
    };
    const expected = {
      ...{ input_tokens: 2200, output_tokens: 9, total_tokens: 2209 },
      ...{ cached_tokens: 0, cache_write_tokens: 2148, cache_write_1h_tokens: 100 },
    };
    t.same(of(tiers), expected);
    t.same(of({ ...tiers, total: 2209 }), expected);
    t.match(of({ ...tiers, input_cache_creation: 2148 }), expected, 'once, if the sum is sent too');
    const raw = {
      ...{ input_tokens: 52, output_tokens: 9, cache_creation_input_tokens: 2048 },
      cache_creation_ephemeral_5m_input_tokens: 2048,
    };
    t.match(of(raw), { input_tokens: 2100, cache_write_tokens: 2048 });
    const hour = { ...raw, cache_creation_ephemeral_1h_input_tokens: 100 };
    t.match(of({ ...hour, cache_creation_input_tokens: 2148 }), {
      ...{ input_tokens: 2200, cache_write_tokens: 2148, cache_write_1h_tokens: 100 },
    });
  },
);

t.test('Langfuse Python: modalities of Vertex AI are part of their side', async (t) => {
  const sent = {
    ...{ input: 0, output: 0, total: 110, input_modality_1: 60, input_modality_2: 20 },
    ...{ cached_modality_1: 15, input_modality_5: 5, output_modality_1: 10 },
  };
  const expected = {
    ...{ input_tokens: 100, output_tokens: 10, total_tokens: 110, cached_tokens: 15 },
    ...{ input_text_tokens: 60, input_image_tokens: 20, output_text_tokens: 10 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), expected);
  const of = (details: object) =>
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) });
  const { total: _, ...withoutTotal } = sent;
  t.same(of(withoutTotal), expected);
  const images = { ...sent, input_modality_2: 15, cached_modality_2: 5 };
  t.same(of(images), { ...expected, cached_tokens: 20, input_image_tokens: 15 });
  t.match(of({ input: 10, output: 5, cached_modality_IMAGE: 4 }), {
    ...{ input_tokens: 14, cached_tokens: 4, total_tokens: 19 },
  });
  t.match(
    of({ input: 10, input_cached_tokens: 6, cached_modality_IMAGE: 4 }),
    { input_tokens: 16, cached_tokens: 6 },
    'a count of all cached tokens precedes their sum',
  );
});

t.test('Langfuse: tokens of reasoning count once, whatever the total', async (t) => {
  for (const total of [30, 34, 38, 42]) {
    const details = { input: 21, output: 9, output_reasoning_tokens: 4, total };
    const usage = usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) });
    const output = total === 30 ? 9 : 13;
    t.match(usage, { input_tokens: 21, output_tokens: output, reasoning_tokens: 4 }, `${total}`);
  }
});

t.test('Langfuse: cached tokens count once, and reasoning of another attribute too', async (t) => {
  const of = (details: object, more: object = {}) =>
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details), ...more });
  t.match(of({ input: 21, output: 9, input_cached_tokens: 8, total: 46 }), {
    ...{ input_tokens: 29, cached_tokens: 8 },
  });
  t.match(of({ input: 21, output: 9 }, { 'gen_ai.usage.reasoning_tokens': 34 }), {
    ...{ output_tokens: 43, reasoning_tokens: 34 },
  });
});

t.test('Langfuse: the results of tools are beside an input without its modalities', async (t) => {
  const details = {
    ...{ input: 0, input_modality_1: 21, output: 0, output_modality_1: 5 },
    ...{ thoughts_token_count: 4, tool_use_prompt_token_count: 10 },
  };
  for (const more of [{ total: 40 }, {}]) {
    const usage = usageOf({
      'langfuse.observation.usage_details': JSON.stringify({ ...details, ...more }),
    });
    t.match(usage, { input_tokens: 31, output_tokens: 9, reasoning_tokens: 4, total_tokens: 40 });
  }
});

t.test("Langfuse: Gemini's own names, whose input has the cached tokens", async (t) => {
  const details = {
    ...{ prompt_token_count: 21, candidates_token_count: 5, thoughts_token_count: 4 },
    ...{ cached_content_token_count: 8, total_token_count: 30 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(details) }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
});

t.test('Langfuse: costs without a total are its parts', async (t) => {
  const costOf = (sent: object) =>
    withAttributes({ 'langfuse.observation.cost_details': JSON.stringify(sent) }).observation
      .details?.cost;
  const parts = { input: 0.1, cache_read_input_tokens: 0.05, output: 0.2 };
  const cost = { input: 100_000_000, output: 200_000_000, source: 'sent' };
  t.same(costOf(parts), { ...cost, total: 350_000_000 });
  t.same(costOf({ ...parts, total: 0.3 }), { ...cost, total: 300_000_000 });
  t.same(costOf({ ...parts, total: null, note: 'free' }), { ...cost, total: 350_000_000 });
});

t.test('Langfuse Python: the nested details of the OpenAI wrapper', async (t) => {
  const sent = {
    ...{ prompt_tokens: 21, completion_tokens: 9, total_tokens: 30 },
    prompt_tokens_details: { cached_tokens: 8, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 4, accepted_prediction_tokens: 0 },
  };
  t.same(usageOf({ 'langfuse.observation.usage_details': JSON.stringify(sent) }), {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, input_audio_tokens: 0, reasoning_tokens: 4 },
  });
  const { total_tokens: _, ...withoutTotal } = sent;
  t.match(
    usageOf({ 'langfuse.observation.usage_details': JSON.stringify(withoutTotal) }),
    { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    'OpenAI includes the parts, also without a total',
  );
});

t.test("Langfuse: the provider in LangChain's metadata", async (t) => {
  const ofRun = { 'langfuse.observation.metadata.ls_provider': 'openai' };
  t.match(withAttributes(ofRun).observation, { details: { provider: 'openai' } });
});
