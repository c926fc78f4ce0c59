import fc from 'fast-check';
import t from 'tap';
import { isId } from '../../../../src/model/json/id.ts';
import { parseVersion } from '../../../../src/model/json/version.ts';
import { native } from '../../../../src/model/native/format.ts';
import { PAYLOAD_FIELDS } from '../../../../src/model/observation.ts';
import { nativeEvent } from '../../../helper/batches.ts';

const scan = (text: string) => native.scan(Buffer.from(text), { maxItems: 1000 });
const scanEvents = (...events: unknown[]) => scan(JSON.stringify({ events }));
const observe = (more: Record<string, unknown>) =>
  native.observe(scanEvents(nativeEvent(more)), 0, 7);

/** The sizes of the inputs and outputs of `nativeEvent`. */
const SIZES = { inputBytes: 48, outputBytes: 16 };

t.test('observes an event with all its fields', (t) => {
  t.same(
    observe({
      parent_id: 'observation-0',
      event_version: 12,
      model: 'a-model',
      session_id: 's',
      user_id: 'u',
      usage: { input_tokens: 3, output_tokens: 4, cost: 0.5, note: 'x', cached: null },
      error: { message: 'm', type: 'T', stacktrace: 'at', code: 5 },
      context_metadata: { custom_fields: { a: 'context', b: 1 } },
      provider: 'openai',
      environment: 'production',
      release: '1.4.0',
      tags: ['beta', '', 'beta', null, ' search '],
      prompt: { name: 'answer', version: 3 },
      ttft_ms: 120.5,
      cost: { input: 0.001, output: 0.002 },
      custom_fields: { a: 'event', c: true },
    }),
    {
      id: 'observation-1',
      traceId: 'trace-1',
      parentId: 'observation-0',
      index: 7,
      operation: 'finish',
      version: '12',
      name: 'chat',
      kind: 'generation',
      status: 'success',
      startTime: { ms: Date.UTC(2026, 0, 15, 11, 59, 58), ns: 0 },
      endTime: { ms: Date.UTC(2026, 0, 15, 11, 59, 59, 500), ns: 0 },
      ended: true,
      model: 'a-model',
      usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
      sessionId: 's',
      userId: 'u',
      error: { message: 'm', type: 'T', stacktrace: 'at' },
      customFields: { a: 'event', b: '1', c: 'true', team: 'search' },
      external: null,
      details: {
        provider: 'openai',
        environment: 'production',
        release: '1.4.0',
        tags: ['beta', 'search'],
        promptName: 'answer',
        promptVersion: '3',
        ttftMs: 120.5,
        cost: { input: 1_000_000, output: 2_000_000, total: 3_000_000, source: 'sent' },
        ...SIZES,
      },
      payloadMask: 0b11011,
    },
  );
  t.end();
});

t.test('counts each kind of tokens under one name', (t) => {
  const usageOf = (usage: object) => observe({ usage }).usage;
  t.same(
    usageOf({
      ...{ prompt_tokens: 10, completion_tokens: 4, requests: 2 },
      prompt_tokens_details: { cached_tokens: 3, audio_tokens: 1, other: 5 },
      completion_tokens_details: { reasoning_tokens: 2 },
      unknown_details: { cached_tokens: 9 },
    }),
    {
      ...{ input_tokens: 10, output_tokens: 4, total_tokens: 14, requests: 2 },
      ...{ cached_tokens: 3, input_audio_tokens: 1, reasoning_tokens: 2 },
    },
  );
  t.same(
    usageOf({ prompt_tokens: 1, input_tokens: 2, input: 3, total_tokens: 9 }),
    { input_tokens: 2, total_tokens: 9 },
    'the own name of the kind precedes the others, and a sent total stays',
  );
  t.same(usageOf({ input_tokens: 5, cached_tokens: -1 }), {
    ...{ input_tokens: 5, cached_tokens: -1, total_tokens: 5 },
  });
  t.end();
});

t.test('notes malformed counts of known kinds, and keeps the others', (t) => {
  const usage = {
    ...{ input_tokens: 5, output_tokens: null, cached_tokens: '3', total: 1.5, other: 'x' },
    prompt_tokens_details: { audio_tokens: [], unknown: 'y' },
    completion_tokens_details: 'none',
  };
  const { usage: read, details } = observe({ usage });
  t.same(read, { input_tokens: 5, total_tokens: 5 });
  t.same(details?.ignored, [
    { path: 'usage.cached_tokens', reason: 'is no count of tokens' },
    { path: 'usage.total', reason: 'is no count of tokens' },
    { path: 'usage.prompt_tokens_details.audio_tokens', reason: 'is no count of tokens' },
    { path: 'usage.completion_tokens_details', reason: 'is no count of tokens' },
  ]);
  t.equal(observe({ usage: { input_tokens: 1 } }).details?.ignored, undefined);
  t.end();
});

t.test('reads the usage objects of Gemini and of the Vercel AI SDK', (t) => {
  const usageOf = (usage: object) => observe({ usage }).usage;
  const expected = {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 8, reasoning_tokens: 4 },
  };
  t.same(
    usageOf({
      ...{ promptTokenCount: 21, candidatesTokenCount: 5, thoughtsTokenCount: 4 },
      ...{ cachedContentTokenCount: 8, totalTokenCount: 30 },
    }),
    expected,
    'the output of Gemini is without its thoughts',
  );
  t.same(
    usageOf({
      ...{ prompt_token_count: 21, candidates_token_count: 5, thoughts_token_count: 4 },
      ...{ cached_content_token_count: 8, total_token_count: 30 },
    }),
    expected,
  );
  const withTools = (promptTokenCount: number, more: object) =>
    usageOf({
      ...{ promptTokenCount, candidatesTokenCount: 5, thoughtsTokenCount: 4 },
      ...{ cachedContentTokenCount: 8, toolUsePromptTokenCount: 10, ...more },
    });
  const ofTools = { ...expected, toolUsePromptTokenCount: 10 };
  const whole = { ...ofTools, input_tokens: 31, total_tokens: 40 };
  t.same(
    withTools(21, { totalTokenCount: 40 }),
    whole,
    'the results of tools are beside the input',
  );
  t.match(withTools(21, { candidatesTokenCount: 9, totalTokenCount: 40 }), whole);
  t.match(withTools(21, {}), { input_tokens: 31 });
  t.same(withTools(21, { totalTokenCount: 30 }), ofTools, 'the total has no room for them');
  t.same(withTools(31, { totalTokenCount: 40 }), whole);
  const counts = { inputTokens: 21, outputTokens: 9, totalTokens: 30 };
  t.same(usageOf({ ...counts, reasoningTokens: 4, cachedInputTokens: 8 }), expected);
  const details = {
    inputTokenDetails: { noCacheTokens: 10, cacheReadTokens: 8, cacheWriteTokens: 3 },
    outputTokenDetails: { textTokens: 5, reasoningTokens: 4 },
  };
  t.same(usageOf({ ...counts, ...details }), { ...expected, cache_write_tokens: 3 });
  const ofModel = {
    inputTokens: { total: 21, noCache: 13, cacheRead: 8, cacheWrite: null },
    outputTokens: { total: 9, text: 5, reasoning: 4 },
  };
  t.same(usageOf(ofModel), expected);
  t.end();
});

t.test('adds the cached tokens of an Anthropic usage object to the input', (t) => {
  const anthropic = { input_tokens: 13, output_tokens: 9, cache_read_input_tokens: 5 };
  t.match(observe({ usage: { ...anthropic, cache_creation_input_tokens: 3 } }).usage, {
    ...{ input_tokens: 21, output_tokens: 9, total_tokens: 30 },
    ...{ cached_tokens: 5, cache_write_tokens: 3 },
  });
  const cache_creation = { ephemeral_5m_input_tokens: 1, ephemeral_1h_input_tokens: 2 };
  const written = { ...anthropic, cache_creation_input_tokens: 3, cache_creation };
  t.match(observe({ usage: written }).usage, {
    ...{ input_tokens: 21, cache_write_tokens: 3, cache_write_1h_tokens: 2 },
  });
  t.match(observe({ usage: { input_tokens: 1, cache_creation: 3 } }).usage, { cache_creation: 3 });
  t.match(
    observe({ usage: { ...anthropic, total_tokens: 22 } }).usage,
    { input_tokens: 13, total_tokens: 22 },
    'the total shows that they are included',
  );
  t.match(
    observe({ usage: { input_tokens: 13, cached_tokens: 5 } }).usage,
    { input_tokens: 13 },
    'other names include them',
  );
  t.end();
});

t.test('reads details from the metadata if the event lacks them', async (t) => {
  const metadata = {
    environment: 'staging',
    release: 'r',
    tags: ['a'],
    prompt_name: 'p',
    prompt_version: '2',
  };
  const details = {
    environment: 'staging',
    release: 'r',
    tags: ['a'],
    promptName: 'p',
    promptVersion: '2',
    ...SIZES,
  };
  t.same(observe({ metadata }).details, details);
  t.same(observe({ metadata: null, extra: { metadata } }).details, details);
  t.match(observe({ metadata, environment: 'own', tags: ['b'] }).details, {
    environment: 'own',
    tags: ['b'],
    release: 'r',
  });
});

t.test('leaves out details of a wrong type, and keeps the event', async (t) => {
  const wrong = { provider: 5, environment: {}, tags: 'a', prompt: 'p', ttft_ms: -1, cost: 'free' };
  const ignored = [
    { path: 'tags', reason: 'is no list of texts' },
    { path: 'ttft_ms', reason: 'is no duration' },
    { path: 'cost', reason: 'is no amount' },
  ];
  t.same(observe({ ...wrong, metadata: [] }).details, { ...SIZES, ignored });
  t.same(observe({ tags: ['a', 5, null, {}] }).details, {
    ...{ ...SIZES, tags: ['a'] },
    ignored: [{ path: 'tags', reason: 'is no list of texts' }],
  });
  t.same(observe({ tags: ['a', null] }).details, { ...SIZES, tags: ['a'] });
  t.same(observe({ metadata: { tags: [5] } }).details, SIZES, 'metadata may have any value');
  t.same(observe({ cost: -1 }).details, {
    ...SIZES,
    ignored: [{ path: 'cost', reason: 'is no amount' }],
  });
  t.same(observe({ cost: 0 }).details?.cost, {
    input: null,
    output: null,
    total: 0,
    source: 'sent',
  });
  t.same(observe({ cost: { total: 0.5, input: { a: 1 } } }).details?.cost, {
    ...{ input: null, output: null, total: 500_000_000, source: 'sent' },
  });
  t.same(observe({ cost: { total: 0.5, input: { a: 1 }, output: null } }).details?.ignored, [
    { path: 'cost.input', reason: 'is no amount' },
  ]);
});

t.test('measures inputs and outputs as compact JSON', async (t) => {
  const sizesOf = (inputs: string, outputs: string) => {
    const event = JSON.stringify(nativeEvent({ inputs: undefined, outputs: undefined }));
    const body = `{"events":[${event.slice(0, -1)},"inputs":${inputs},"outputs":${outputs}}]}`;
    return native.observe(scan(body), 0, 0).details;
  };
  t.same(sizesOf('{ "a" : [1, "é"] }', '""'), { inputBytes: 14, outputBytes: 2 });
  t.equal(sizesOf('null', 'null'), null);
});

t.test('reads the first 16,384 custom fields of an object, and repetitions of their names', (t) => {
  const many = Array.from({ length: 16_384 }, (_, i) => `"${'n'.repeat(i === 0 ? 1 : 257)}${i}":1`);
  const [head] = JSON.stringify({ events: [nativeEvent({})] }).split(/\}\]\}$/);
  const index = scan(`${head},"custom_fields":{${many.join()},"late":1,"n0":2}}]}`);
  const { customFields } = native.observe(index, 0, 0);
  t.equal(customFields?.late, undefined);
  t.equal(customFields?.n0, '2');
  t.end();
});

t.test('treats null as absent', (t) => {
  const nothing = Object.fromEntries(
    ['name', 'start_time', 'end_time', 'event_version', 'inputs', 'outputs', 'metadata'].map(
      (field) => [field, null],
    ),
  );
  const seen = observe({ ...nothing, model: null, usage: null, error: null, parent_id: null });
  t.match(seen, { name: null, startTime: null, endTime: null, version: '0', model: null });
  t.match(seen, { usage: null, error: null, parentId: null, payloadMask: 0, customFields: null });
  t.end();
});

t.test('prefers one of two names of a field', (t) => {
  t.equal(observe({ observation_id: 'o' }).id, 'o', 'observation_id over id');
  t.equal(observe({ observation_id: null }).id, 'observation-1');
  t.equal(observe({ run_type: 'tool' }).kind, 'generation', 'kind over run_type');
  t.equal(observe({ kind: null, run_type: 'tool' }).kind, 'tool');
  t.equal(observe({ parent_id: 'p', parent_observation_id: 'q' }).parentId, 'p');
  t.equal(observe({ parent_observation_id: 'q' }).parentId, 'q');
  t.equal(observe({ parent_id: '' }).parentId, null, 'an empty parent is none');
  t.end();
});

t.test('marks an observation as ended by its operation or end time', (t) => {
  t.equal(observe({ operation: 'start', end_time: null }).ended, false);
  t.equal(observe({ operation: 'start' }).ended, true, 'it has an end time');
  t.equal(observe({ operation: 'finish', end_time: null }).ended, true);
  t.equal(observe({ operation: 'error', end_time: null }).ended, true);
  t.end();
});

t.test('reads an error that is a string', (t) => {
  t.same(observe({ error: 'boom' }).error, { message: 'boom', type: null, stacktrace: null });
  t.equal(observe({ error: '' }).error, null);
  t.equal(observe({ error: 5 }).error, null);
  t.end();
});

t.test('throws a PermanentError for an event without id, trace or operation', (t) => {
  for (const more of [{ id: 5 }, { trace_id: null }, { operation: 'begin' }]) {
    t.throws(() => observe(more), { name: 'PermanentError', code: 'unreadable_event' });
  }
  t.throws(() => native.observe(scanEvents('x'), 0, 0), { name: 'PermanentError' });
  t.end();
});

t.test('returns payload fields as the received text', (t) => {
  const index = scan(
    '{"events":[{"id":"a","inputs": [1.0, 1e3,"\\u0041"] ,"outputs":null,"metadata":{"b":1,"a":2}}]}',
  );
  t.same(native.payload(index, 0, PAYLOAD_FIELDS), {
    inputs: '[1.0, 1e3,"\\u0041"]',
    metadata: '{"b":1,"a":2}',
  });
  t.same(native.payload(index, 0, ['metadata']), { metadata: '{"b":1,"a":2}' });
  t.equal(native.source(scan('{"events":[1, {"id" : "a"} ]}'), 1), '{"id" : "a"}');
  const extra = scanEvents({ extra: { metadata: { custom_fields: { a: 1 } } } });
  t.same(native.payload(extra, 0, ['metadata']), { metadata: '{"custom_fields":{"a":1}}' });
  t.end();
});

t.test('counts each of the five fields once as usage, in compact JSON', (t) => {
  const index = scan(
    '{"events":[{"id":"long id","inputs":[ 1 ],"outputs":"\\u0041","events":null,' +
      '"metadata":{},"extra":{"metadata":[1,2,3]},"context_metadata":7}]}',
  );
  t.equal(native.usageBytes(index, 0), 3 + 3 + 0 + 2 + 1);
  const extra = scan('{"events":[{"metadata":null,"extra":{"metadata":[1, 2]}}]}');
  t.equal(native.usageBytes(extra, 0), 5, 'extra.metadata if there is no metadata');
  t.equal(native.usageBytes(scan('{"events":["x"]}'), 0), 0);
  t.end();
});

t.test('returns only valid item ids', (t) => {
  const shown = (id: unknown) => native.itemId(scanEvents({ id }), 0);
  t.equal(shown('a'), 'a');
  t.equal(shown('é'.repeat(2048)), 'é'.repeat(2048), 'exactly 4,096 bytes');
  t.equal(shown(`${'é'.repeat(2048)}a`), undefined);
  for (const id of ['', 'a\0b', '\ud800', 7, null, {}]) t.equal(shown(id), undefined);
  t.equal(native.itemId(scan('{"events":["x"]}'), 0), undefined);
  t.equal(native.itemId(scanEvents({ id: 'a', observation_id: 5 }), 0), undefined);
  t.end();
});

t.test('accepts ids of well-formed Unicode of 1 to 4,096 bytes without NUL', (t) => {
  const surrogates = fc.integer({ min: 0xd7fe, max: 0xe001 });
  const unit = fc.oneof(fc.nat({ max: 0x80 }), fc.nat({ max: 0xffff }), surrogates);
  fc.assert(
    fc.property(
      fc.array(unit, { maxLength: 20 }).map((units) => String.fromCharCode(...units)),
      (text) => {
        const expected = text !== '' && text.isWellFormed() && !text.includes('\0');
        return isId(text) === expected;
      },
    ),
  );
  t.equal(isId('x'.repeat(4096)), true);
  t.equal(isId('x'.repeat(4097)), false);
  t.equal(isId('\u{1f600}'.repeat(1024)), true);
  t.equal(isId(`${'\u{1f600}'.repeat(1024)}x`), false);
  t.end();
});

t.test('cuts items and keeps all bytes around them', (t) => {
  const text = '{ "a":1, "events": [ {"id":"a"} , 5,\n{"id":"b"} ] , "z": [] } ';
  const cut = (...keep: number[]) => native.cut(scan(text), keep).toString();
  t.equal(cut(0, 1, 2), '{ "a":1, "events": [ {"id":"a"},5,{"id":"b"} ] , "z": [] } ');
  t.equal(cut(0, 2), '{ "a":1, "events": [ {"id":"a"},{"id":"b"} ] , "z": [] } ');
  t.equal(cut(1), '{ "a":1, "events": [ 5 ] , "z": [] } ');
  t.equal(cut(), '{ "a":1, "events": [  ] , "z": [] } ');
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.jsonValue(), fc.boolean()), { maxLength: 8 }), (items) => {
      const events = items.map(([event]) => event);
      const keep = [...items.keys()].filter((position) => items[position]?.[1]);
      const bytes = native.cut(scanEvents(...events), keep);
      const expected = JSON.stringify({ events: keep.map((position) => events[position]) });
      return JSON.stringify(JSON.parse(bytes.toString())) === expected;
    }),
    { numRuns: 200 },
  );
  t.end();
});

t.test('reads event versions exactly', (t) => {
  const good: [text: string, version: string][] = [
    ['0', '0'],
    ['-0', '0'],
    ['0.0e5', '0'],
    ['0e99999999999999999999', '0'],
    ['1', '1'],
    ['1.0', '1'],
    ['1e3', '1000'],
    ['1.25E+2', '125'],
    ['1200e-2', '12'],
    ['9007199254740993', '9007199254740993'],
    ['18446744073709551615', '18446744073709551615'],
    ['1.8446744073709551615e19', '18446744073709551615'],
    ['"18446744073709551615"', '18446744073709551615'],
    ['"007"', '7'],
    ['"000"', '0'],
    ['"\\u0035"', '5'],
    [`"${'0'.repeat(1000)}5"`, '5'],
    [`1.${'0'.repeat(4094)}`, '1'],
    [`1${'0'.repeat(30)}e-30`, '1'],
  ];
  for (const [text, version] of good) t.equal(parseVersion(text), version, text);
  const bad = [
    ...[
      '-1',
      '1.5',
      '1e-1',
      '18446744073709551616',
      '1e20',
      '1.8446744073709551616e19',
      '1e999999999',
    ],
    ...[
      '""',
      '"  "',
      '"-1"',
      '"1.5"',
      '"1e3"',
      '"0x10"',
      '"5n"',
      '"1_000"',
      '"+5"',
      '" 5"',
      '"-0"',
    ],
    ...['"5\\n"', '"18446744073709551616"', 'true', '[]', '{}', '[1]', `"${'9'.repeat(100_000)}"`],
  ];
  for (const text of bad) t.equal(parseVersion(text), undefined, text.slice(0, 30));
  t.equal(
    parseVersion(`1.${'0'.repeat(4095)}`),
    undefined,
    'a spelling of more than 4,096 characters',
  );
  t.equal(parseVersion(`"${'\u0661'}"`), undefined, 'a digit of another script');
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n + 5n }), fc.nat({ max: 3 }), (value, zeros) => {
      const expected = value < 2n ** 64n ? String(value) : undefined;
      const spellings = [
        String(value),
        `"${'0'.repeat(zeros)}${value}"`,
        `${value}.${'0'.repeat(zeros + 1)}`,
      ];
      return spellings.every((text) => parseVersion(text) === expected);
    }),
  );
  t.end();
});
