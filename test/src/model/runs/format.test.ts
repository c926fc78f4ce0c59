import t from 'tap';
import { MAX_JSON_DEPTH } from '../../../../src/model/json/grammar.ts';
import type { Observation } from '../../../../src/model/observation.ts';
import { PAYLOAD_FIELDS } from '../../../../src/model/observation.ts';
import { runs } from '../../../../src/model/runs/format.ts';
import { WRAPPED_LEVELS, wrapRun } from '../../../../src/model/runs/wrap.ts';

const scan = (text: string | Buffer) => runs.scan(Buffer.from(text), { maxItems: 1000 });
const posted = (run: unknown): Observation =>
  runs.observe(scan(JSON.stringify({ post: [run] })), 0, 0);
const patched = (run: unknown): Observation =>
  runs.observe(scan(JSON.stringify({ patch: [run] })), 0, 0);

const ROOT = '01a1fad7-ca5b-7000-8000-02e1b125c183';
const MIDDLE = '01a1fad7-ca5b-7000-8000-000000000001';
const OWN = '01a1fad7-ca5c-7000-8000-01c328f92984';
const TIME = '20261120T212328475001Z';

t.test('observes a run with all its fields', (t) => {
  t.same(
    posted({
      id: OWN,
      name: 'ChatOpenAI',
      run_type: 'llm',
      start_time: '2026-11-20T21:23:28.476002Z',
      end_time: 1795209809380,
      trace_id: ROOT,
      parent_run_id: MIDDLE,
      session_name: 'default',
      inputs: { input: 'x' },
      outputs: {
        usage_metadata: {
          input_tokens: 11,
          output_tokens: 7,
          total_tokens: 18,
          input_token_details: { cache_read: 2 },
          output_token_details: { reasoning: 3 },
          input_cost: 0.01,
          total_cost: 0.05,
        },
      },
      tags: ['seq:step:1', 'prod'],
      events: [
        { name: 'start', time: '2026-11-20T21:23:28.476002Z' },
        { name: 'new_token', time: '2026-11-20T21:23:28.976002Z' },
        { name: 'new_token', time: '2026-11-20T21:23:29.976002Z' },
      ],
      extra: {
        metadata: {
          ...{ ls_model_name: 'gpt', thread_id: 's', user_id: 'u', custom_fields: { a: 1 } },
          ...{ ls_provider: 'openai', environment: 'production' },
        },
        invocation_params: { model: 'other' },
      },
    }),
    {
      id: OWN,
      traceId: ROOT,
      parentId: MIDDLE,
      index: 0,
      operation: 'finish',
      version: '0',
      name: 'ChatOpenAI',
      kind: 'llm',
      status: 'success',
      startTime: { ms: Date.UTC(2026, 10, 20, 21, 23, 28, 476), ns: 2000 },
      endTime: { ms: 1795209809380, ns: 0 },
      ended: true,
      model: 'gpt',
      usage: {
        input_tokens: 11,
        output_tokens: 7,
        total_tokens: 18,
        cached_tokens: 2,
        reasoning_tokens: 3,
      },
      sessionId: 's',
      userId: 'u',
      error: null,
      customFields: { a: '1' },
      external: { session_name: 'default' },
      details: {
        provider: 'openai',
        environment: 'production',
        tags: ['seq:step:1', 'prod'],
        ttftMs: 500,
        cost: { input: 10_000_000, output: null, total: 50_000_000, source: 'sent' },
        inputBytes: 13,
        outputBytes: 188,
      },
      payloadMask: 0b01111,
    },
  );
  t.end();
});

t.test('derives status and operation from error and end time', (t) => {
  t.match(posted({ id: 'a' }), { operation: 'start', status: 'running', ended: false });
  t.match(posted({ id: 'a', outputs: {} }), { operation: 'start' }, 'outputs do not end a run');
  t.match(posted({ id: 'a', end_time: 5, error: null }), {
    operation: 'finish',
    status: 'success',
  });
  t.match(posted({ id: 'a', error: 'boom' }), {
    operation: 'error',
    status: 'error',
    ended: true,
    error: { message: 'boom', type: null },
  });
  t.match(
    posted({ id: 'a', end_time: 'soon', start_time: 5 }),
    {
      ...{ operation: 'finish', ended: true, startTime: null, endTime: null },
      details: {
        ignored: [
          { path: 'start_time', reason: 'is no time' },
          { path: 'end_time', reason: 'is no time' },
        ],
      },
    },
    'a malformed time costs the time',
  );
  t.match(posted({ id: 'a', end_time: '' }), { operation: 'start', details: null });
  t.match(posted({ id: 'a', error: '', end_time: 5 }), { operation: 'finish', error: null });
  t.match(posted({ id: 'a', error: ['x'] }), { operation: 'error', error: { message: null } });
  t.end();
});

t.test('reads times in seconds, as LiteLLM sends them, and in milliseconds', (t) => {
  t.match(posted({ id: 'a', start_time: 1795319960.5, end_time: 1795319961500 }), {
    startTime: { ms: 1795319960500, ns: 0 },
    endTime: { ms: 1795319961500, ns: 0 },
  });
  t.end();
});

t.test('reads times as Python prints them', (t) => {
  const sent = {
    ...{
      id: 'a',
      start_time: '2026-01-15 11:59:59',
      end_time: '2026-01-15\\u002013:00:00.5+01:00',
    },
    events: [{ name: 'new_token', time: '2026-01-15 11:59:59.250000' }],
  };
  const text = JSON.stringify({ post: [sent] }).replace('\\\\u', '\\u');
  t.match(runs.observe(scan(text), 0, 0), {
    startTime: { ms: Date.UTC(2026, 0, 15, 11, 59, 59), ns: 0 },
    endTime: { ms: Date.UTC(2026, 0, 15, 12, 0, 0, 500), ns: 0 },
    details: { ttftMs: 250, ignored: undefined },
  });
  for (const start_time of ['2026-01-15  1:59:59', '2026-01-15_11:59:59', '2026-01-15 11:59']) {
    t.equal(posted({ id: 'a', start_time }).startTime, null, start_time);
  }
  t.end();
});

t.test('keeps the tags and the example of a run, also of an update', (t) => {
  const sent = { id: 'a', tags: ['t1'], reference_example_id: 'example-1' };
  for (const run of [posted(sent), patched(sent)]) {
    t.match(run, {
      details: { tags: ['t1'] },
      external: { reference_example_id: 'example-1' },
    });
  }
  const ignored = [{ path: 'tags', reason: 'is no list of texts' }];
  t.same(posted({ id: 'a', tags: 't1' }).details, { ignored });
  t.same(posted({ id: 'a', tags: [2, 't1'] }).details, { tags: ['t1'], ignored });
  t.end();
});

t.test('reads what LiteLLM sends: metadata in extra, the model in inputs and outputs', (t) => {
  const extra = { session_id: 's', user_api_key_end_user_id: 'u', key: 'v' };
  const usage = { prompt_tokens: 21, prompt_tokens_details: { cached_tokens: 8 } };
  const run = {
    ...{ id: 'a', run_type: 'llm', extra, inputs: { model: 'requested', messages: [] } },
    outputs: {
      ...{ model: 'answering', usage },
      usage_metadata: { input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    },
  };
  t.match(posted(run), {
    ...{ model: 'answering', sessionId: 's', userId: 'u', payloadMask: 0b01011 },
    usage: { input_tokens: 21, output_tokens: 9, total_tokens: 30, cached_tokens: 8 },
  });
  const index = scan(JSON.stringify({ post: [run] }));
  t.same(JSON.parse(runs.payload(index, 0, ['metadata']).metadata ?? ''), extra);
  t.notOk('metadata' in runs.payload(index, 0, ['inputs']));
  t.equal(posted({ ...run, outputs: {} }).model, 'requested');
  t.match(posted({ ...run, run_type: 'chain' }), { model: null, usage: null });
  const langsmith = { ...run, extra: { runtime: { sdk: 'x' }, session_id: 's' } };
  t.match(posted(langsmith), { sessionId: null, payloadMask: 0b00011 });
  t.match(posted({ ...run, extra: { metadata: { a: 1 }, session_id: 's' } }), { sessionId: null });
  const moved = { ...run, extra: { key: 'v' }, session_id: 'moved' };
  t.match(posted(moved), { sessionId: 'moved' });
  t.match(posted({ ...moved, extra }), { sessionId: 's' });
  for (const other of [{ runtime: { sdk: 'x' } }, { metadata: {} }]) {
    t.match(posted({ ...moved, extra: other }), { sessionId: null }, 'the project of LangSmith');
  }
  t.match(posted({ ...run, extra: 5 }), { payloadMask: 0b00011 });
  t.end();
});

t.test('reads amounts as numbers or digits, and notes malformed ones', (t) => {
  const costOf = (inOutputs: object, inMetadata: object = {}) => {
    const metadata = { usage_metadata: inMetadata };
    const outputs = { usage_metadata: inOutputs };
    const { cost, ignored } = posted({ id: 'a', outputs, extra: { metadata } }).details ?? {};
    return [cost?.total, ignored];
  };
  t.same(costOf({ total_cost: 0.5 }), [500_000_000, undefined]);
  t.same(costOf({ total_cost: '0.5' }), [500_000_000, undefined]);
  t.same(costOf({ total_cost: null }, { total_cost: 0.7 }), [700_000_000, undefined]);
  t.same(costOf({}, { total_cost: 0.7, input_cost: 'free' }), [
    700_000_000,
    [{ path: 'extra.metadata.usage_metadata.input_cost', reason: 'is no amount' }],
  ]);
  t.same(costOf({ output_cost: -1 }), [
    undefined,
    [{ path: 'outputs.usage_metadata.output_cost', reason: 'is no amount' }],
  ]);
  t.end();
});

t.test('counts the cache writes of Anthropic that LangChain gives by tier', (t) => {
  const usageOf = (input_token_details: object) => {
    const usage_metadata = { input_tokens: 2200, output_tokens: 9, input_token_details };
    return posted({ id: 'a', run_type: 'llm', outputs: { usage_metadata } }).usage;
  };
  const tiers = { ephemeral_5m_input_tokens: 2048, ephemeral_1h_input_tokens: 100 };
  const expected = {
    ...{ input_tokens: 2200, cache_write_tokens: 2148, total_tokens: 2209 },
    cache_write_1h_tokens: 100,
  };
  t.match(usageOf({ cache_creation: 0, ...tiers }), expected);
  t.match(usageOf(tiers), expected);
  t.match(usageOf({ ...tiers, cache_creation: 2150 }), { ...expected, cache_write_tokens: 2150 });
  const { ephemeral_1h_input_tokens: ephemeral_1hr_input_tokens, ...minutes } = tiers;
  t.match(usageOf({ ...minutes, ephemeral_1hr_input_tokens }), expected, 'the Claude Agent SDK');
  t.notHas(usageOf({ ephemeral_5m_input_tokens: 5 }), 'cache_write_1h_tokens');
  t.end();
});

t.test('adds the tokens of reasoning that LangSmith counts beside the output of Gemini', (t) => {
  const usage_metadata = {
    ...{ input_tokens: 21, output_tokens: 5, total_tokens: 30 },
    ...{ input_token_details: { cache_read: 8 }, output_token_details: { reasoning: 4 } },
  };
  t.same(posted({ id: 'a', run_type: 'llm', outputs: { usage_metadata } }).usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  });
  t.end();
});

t.test('notes no malformed counts in the answer of a model of the Vercel AI SDK 6', (t) => {
  const usage = {
    inputTokens: { total: 21, noCache: 13, cacheRead: 8 },
    outputTokens: { total: 9, text: 5, reasoning: 4 },
  };
  const usage_metadata = { input_tokens: 21, output_tokens: 9, total_tokens: 30 };
  const run = posted({ id: 'a', run_type: 'llm', outputs: { usage, usage_metadata } });
  t.match(run.usage, { input_tokens: 21, cached_tokens: 8, reasoning_tokens: 4 });
  t.equal(run.details?.ignored, undefined);
  t.end();
});

t.test('reads the usage in a result of LangChain before 1.2', (t) => {
  const usageOf = (outputs: object, run_type: string | null = 'llm') =>
    posted({ id: 'a', run_type, outputs }).usage;
  const said = (usage_metadata: unknown) => ({ message: { kwargs: { usage_metadata } } });
  const sent = {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    input_token_details: { cache_read: 8 },
  };
  const expected = { input_tokens: 21, output_tokens: 9, total_tokens: 30, cached_tokens: 8 };
  const token_usage = {
    ...{ prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    prompt_tokens_details: { audio_tokens: null, cached_tokens: 0 },
  };
  const result = { generations: [[said(sent)]], llm_output: { token_usage } };
  t.same(usageOf(result), expected);
  t.same(usageOf(result, null), expected, 'an update without a type has it of a model call only');
  t.equal(usageOf(result, 'chain'), null);
  t.match(usageOf({ generations: [[said(sent), said(sent)], [said(sent)]] }), {
    ...{ input_tokens: 63, output_tokens: 27, total_tokens: 90, cached_tokens: 24 },
  });
  t.same(
    usageOf({ generations: [[{ text: 'hi' }, 5, said(7)], 'x'], llm_output: { token_usage } }),
    {
      ...{ input_tokens: 1, output_tokens: 2, total_tokens: 3, cached_tokens: 0 },
    },
  );
  const tokenUsage = { promptTokens: 4, completionTokens: 5, totalTokens: 9 };
  t.same(usageOf({ generations: [], llmOutput: { tokenUsage } }), {
    ...{ input_tokens: 4, output_tokens: 5, total_tokens: 9 },
  });
  const usage_metadata = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  t.same(usageOf({ ...result, usage_metadata }), usage_metadata);
  t.equal(usageOf({ llm_output: { token_usage } }), null);
  t.end();
});

t.test('sums the usage of 1,000 generations, however many prompts they are of', (t) => {
  const generation = { message: { kwargs: { usage_metadata: { input_tokens: 1 } } } };
  for (const count of [999, 1000, 1001, 2000]) {
    const all = Array.from({ length: count }, () => generation);
    for (const generations of [all.map((one) => [one]), [all]]) {
      const { usage } = posted({ id: 'a', run_type: 'llm', outputs: { generations } });
      t.match(usage, { input_tokens: Math.min(count, 1000) }, `${count} in ${generations.length}`);
    }
  }
  t.end();
});

t.test('reads the usage that a provider answered', (t) => {
  const usageOf = (run_type: string | null, usage: unknown) =>
    posted({ id: 'a', run_type, outputs: { usage } });
  const anthropic = { input_tokens: 13, output_tokens: 9, cache_read_input_tokens: 8 };
  t.same(usageOf('llm', anthropic).usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30, cached_tokens: 8 },
  });
  t.equal(usageOf(null, anthropic).usage, null, 'an update may be of a chain');
  t.equal(usageOf('llm', 'none').usage, null);
  t.same(usageOf('llm', { prompt_tokens: 'x' }).details?.ignored, [
    { path: 'outputs.usage.prompt_tokens', reason: 'is no count of tokens' },
  ]);
  t.end();
});

t.test('maps unknown run types to chain and keeps them as external values', (t) => {
  t.match(posted({ id: 'a', run_type: 'tool' }), { kind: 'tool', external: null });
  t.match(posted({ id: 'a', run_type: 'prompt' }), {
    kind: 'chain',
    external: { run_type: 'prompt' },
  });
  t.match(posted({ id: 'a', run_type: 'toString' }), { kind: 'chain' });
  t.match(posted({ id: 'a' }), { kind: null, external: null });
  t.end();
});

t.test('finds the trace and parent of a run', (t) => {
  t.equal(posted({ id: OWN, trace_id: ROOT }).traceId, ROOT);
  t.equal(posted({ id: OWN }).traceId, OWN, 'a created run without a trace is a root');
  t.equal(patched({ id: OWN }).traceId, null, 'an update is found by its id');
  t.match(posted({ id: OWN, parent_run_id: ROOT }), { traceId: null, parentId: ROOT }, 'a child');
  t.equal(posted({ id: OWN, parent_run_id: OWN }).traceId, OWN, 'a run is no child of itself');
  const order = [ROOT, MIDDLE, OWN].map((id) => `${TIME}${id}`).join('.');
  t.match(patched({ id: OWN, dotted_order: order }), { traceId: ROOT, parentId: MIDDLE });
  t.match(posted({ id: ROOT, dotted_order: `${TIME}${ROOT}` }), { traceId: ROOT, parentId: null });
  t.match(posted({ id: OWN, dotted_order: `${TIME}${ROOT}.${TIME}${OWN}` }), {
    traceId: ROOT,
    parentId: ROOT,
  });
  t.match(posted({ id: OWN, dotted_order: 'nonsense' }), { traceId: OWN, parentId: null });
  t.match(posted({ id: OWN, dotted_order: `${TIME}\0.${TIME}x` }), {
    traceId: OWN,
    parentId: null,
  });
  t.match(posted({ id: OWN, dotted_order: order, parent_run_id: 'p' }), { parentId: 'p' });
  t.end();
});

t.test('counts tokens only on model calls', (t) => {
  const usage_metadata = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
  const usageOf = (run_type: string | null) =>
    posted({ id: 'a', run_type, outputs: { usage_metadata } }).usage;
  t.same(usageOf('llm'), usage_metadata);
  t.same(usageOf('embedding'), usage_metadata);
  t.same(usageOf(null), usage_metadata, 'a bare update may be of any type');
  t.equal(usageOf('chain'), null, 'a parent repeats the sums of its children');
  const inMetadata = posted({ id: 'a', run_type: 'llm', extra: { metadata: { usage_metadata } } });
  t.same(inMetadata.usage, usage_metadata);
  const priced = { ...usage_metadata, input_cost: 0, output_cost: 0, total_cost: 1 };
  const free = posted({ id: 'a', run_type: 'llm', outputs: { usage_metadata: priced } });
  t.same(free.usage, usage_metadata, 'a whole amount is no count');
  t.equal(posted({ id: 'a', outputs: { usage_metadata: 'x' } }).usage, null);
  t.end();
});

t.test('takes the model name by precedence', (t) => {
  const modelOf = (extra: object) => posted({ id: 'a', extra }).model;
  t.equal(modelOf({ invocation_params: { model: 'a', model_name: 'b' } }), 'a');
  t.equal(modelOf({ invocation_params: { model_name: 'b' } }), 'b');
  t.equal(modelOf({ metadata: { ls_model_name: '' }, invocation_params: { model: 'a' } }), 'a');
  t.equal(modelOf({}), null);
  t.end();
});

t.test('orders posts before patches, whatever their order in the body', (t) => {
  const index = scan('{"patch":[{"id":"c"}],"x":[9],"post":[{"id":"a"},{"id":"b"}]}');
  t.equal(index.count, 3);
  t.equal(index.posts, 2);
  t.same(
    [0, 1, 2].map((position) => runs.itemId(index, position)),
    ['a', 'b', 'c'],
  );
  t.equal(runs.observe(index, 2, 2).traceId, null, 'the last one is an update');
  const cut = (...keep: number[]) => runs.cut(index, keep).toString();
  t.equal(cut(1, 2), '{"patch":[{"id":"c"}],"x":[9],"post":[{"id":"b"}]}');
  t.equal(cut(0), '{"patch":[],"x":[9],"post":[{"id":"a"}]}');
  t.equal(cut(), '{"patch":[],"x":[9],"post":[]}');
  const again = scan(cut(1, 2));
  t.match([again.count, again.posts], [2, 1], 'and the rest can be scanned again');
  t.end();
});

t.test('is sent twice if the client records so in the metadata', (t) => {
  const isSentTwice = (variables: object) => {
    const extra = { metadata: { a: 1, ...variables } };
    const found = [posted({ id: 'r', extra }), patched({ id: 'r', extra })];
    t.equal(found[0]?.sentTwice, found[1]?.sentTwice);
    return found[0]?.sentTwice;
  };
  t.equal(isSentTwice({ LANGSMITH_OTEL_ENABLED: 'true' }), true);
  t.equal(isSentTwice({ LANGSMITH_TRACING_MODE: 'hybrid' }), true);
  t.equal(isSentTwice({ LANGSMITH_OTEL_ENABLED: 'true', LANGSMITH_OTEL_ONLY: 'true' }), undefined);
  t.equal(isSentTwice({ LANGSMITH_OTEL_ENABLED: { a: 'true' } }), undefined);
  t.equal(isSentTwice({}), undefined);
  t.equal(posted({ id: 'r', extra: { LANGSMITH_OTEL_ENABLED: 'true' } }).sentTwice, undefined);
  t.end();
});

t.test('treats a missing array as empty and refuses other values', (t) => {
  t.equal(scan('{}').count, 0);
  t.equal(scan('{"post":[],"patch":[]}').count, 0);
  t.match(scan('{"patch":[{}]}'), { count: 1, posts: 0 });
  for (const body of ['{"post":{}}', '{"patch":null}', '[]', 'null']) {
    t.throws(() => scan(body), { code: 'invalid_request' }, body);
  }
  t.end();
});

t.test('takes metadata from extra', (t) => {
  const index = scan('{"post":[{"extra":{"metadata":{"a": 1}},"inputs":{},"events":[]}]}');
  t.same(runs.payload(index, 0, PAYLOAD_FIELDS), {
    metadata: '{"a": 1}',
    inputs: '{}',
    events: '[]',
  });
  t.equal(runs.usageBytes(index, 0), 7 + 2 + 2);
  t.equal(runs.source(index, 0).startsWith('{"extra"'), true);
  t.end();
});

t.test('throws a PermanentError for a run without an id', (t) => {
  t.throws(() => posted({ name: 'x' }), { name: 'PermanentError', code: 'unreadable_event' });
  t.end();
});

t.test('wraps a single run as a batch of one', (t) => {
  const wrapped = (body: string, id?: string) => scan(wrapRun(Buffer.from(body), id));
  t.match(wrapped('{"id":"a"}'), { count: 1, posts: 1 });
  t.equal(runs.source(wrapped(' {"id":"a"} '), 0), '{"id":"a"}');

  const ids: [body: string, id: string][] = [
    ['{"id":"x","observation_id":"y"}', 'p'],
    ['{"end_time":5} \n', 'p'],
    ['{}', 'p'],
    [' { } ', 'p'],
    ['{"a":"}"}', 'p"\\\u0000é'],
    ['{"a":{}}', '../x'],
  ];
  for (const [body, id] of ids) {
    const index = wrapped(body, id);
    t.match([index.count, index.posts], [1, 0], body);
    t.same(
      JSON.parse(runs.source(index, 0)).observation_id,
      id,
      'the id of the path overrides the body',
    );
    t.same(JSON.parse(runs.source(index, 0)).id, id);
  }
  t.equal(wrapped('[{"id":"a"}]').count, 1, 'a value that is no object is one invalid item');
  t.equal(wrapped('[]', 'p').count, 1);
  t.end();
});

t.test('refuses to wrap bytes that are not one JSON value', (t) => {
  const bodies = [
    '',
    '{',
    '{"id":"a"},{"id":"b"}',
    '{"id":"a"}],"post":[{}',
    '{"a":"}',
    '{"id":1}]}',
  ];
  for (const body of bodies) {
    for (const id of [undefined, 'p']) {
      t.throws(() => wrapRun(Buffer.from(body), id), { code: 'invalid_json' }, body);
    }
  }
  t.end();
});

t.test('allows a single run the nesting of any body', (t) => {
  const run = (levels: number) =>
    Buffer.from(`{"id":"a","inputs":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`);
  const maxDepth = MAX_JSON_DEPTH + WRAPPED_LEVELS;
  t.equal(runs.scan(wrapRun(run(512)), { maxItems: 1, maxDepth }).count, 1);
  t.throws(() => wrapRun(run(513)), { code: 'invalid_json' });
  t.end();
});
