import t from 'tap';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import { observeEach, payload } from '../../../../src/model/formats.ts';
import type { Observation, Payload } from '../../../../src/model/observation.ts';
import { convertLogs } from '../../../../src/model/otlp/log-request.ts';
import { aTenant } from '../../../helper/batches.ts';
import type { LogsForm } from '../../../helper/otlp-proto.ts';
import { attributesOf, encodeLogs, logsOf } from '../../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 100 };
const AT = 1_790_000_000_000;
const SESSION = 'b0c7a5f2-6f0e-4b8f-9a76-1f5f6c9f0a11';
const PROMPT = '5b0f6f0e-3c58-4e0c-8d2e-0e5a4f3f1c22';
const CLAUDE = { scope: { name: 'com.anthropic.claude_code.events', version: '2.1.214' } };

/** An event as Claude Code sends it. */
function claude(event: string, more: Record<string, unknown> = {}, at = AT): object {
  return {
    timeUnixNano: String(BigInt(at) * 1_000_000n),
    observedTimeUnixNano: String(BigInt(at) * 1_000_000n),
    body: { stringValue: `claude_code.${event}` },
    attributes: attributesOf({
      'user.id': 'a3f1',
      'session.id': SESSION,
      'terminal.type': 'xterm',
      'event.name': event,
      'event.timestamp': new Date(at).toISOString(),
      'event.sequence': 3,
      'prompt.id': PROMPT,
      ...more,
    }).filter((each) => !('value' in each) || Object.keys(each.value as object).length > 0),
  };
}

/** An event as Codex sends it: its log bridge sets no time, and the place in the source as the event's name. */
function codex(event: string, more: Record<string, unknown> = {}, at = AT): object {
  return {
    observedTimeUnixNano: String(BigInt(at) * 1_000_000n + 7n),
    eventName: 'event otel/src/events/session_telemetry.rs:812',
    attributes: attributesOf({
      'event.name': `codex.${event}`,
      'event.timestamp': new Date(at).toISOString(),
      'conversation.id': '019f3d5f-3dc4-7f01-b42c-d19d98e1d13d',
      'app.version': '0.99.0',
      originator: 'codex_exec',
      'user.email': 'ada@example.com',
      model: 'gpt-5-codex',
      slug: 'gpt-5-codex',
      ...more,
    }),
  };
}

type Converted = {
  readonly observations: readonly Observation[];
  readonly payloads: readonly Payload[];
  readonly counts: ReturnType<typeof convertLogs>['logs'];
  readonly body: Buffer;
};

function converted(form: LogsForm, encoding: 'proto' | 'json' = 'proto'): Converted {
  const bytes = encoding === 'proto' ? encodeLogs(form) : Buffer.from(JSON.stringify(form));
  const { body, logs: counts } = convertLogs(
    encoding === 'proto' ? 'otlp_proto' : 'otlp_json',
    bytes,
    LIMITS,
  );
  const batch: SealedBatch = {
    kind: 'raw',
    id: '01KQ0000000000000000000000',
    format: 'otlp_proto',
    tenant: aTenant(),
    receivedAt: AT,
    requestItems: counts.recordsOf.length,
    body,
    encoding: 'identity',
    items: counts.recordsOf.length,
    positions: undefined,
    rejections: [],
    usage: { events: 1, bytes: 1 },
  };
  const { observations, failures } = observeEach(batch);
  t.strictSame(failures, []);
  const payloads = observations.map((_, position) => payload(batch, position));
  return { observations, payloads, counts, body };
}

function only(records: readonly object[], around = CLAUDE) {
  const { observations, payloads } = converted(logsOf(records, around));
  t.equal(observations.length, 1);
  const [observation] = observations;
  const [texts = {}] = payloads;
  if (observation === undefined) throw new Error('no observation');
  return { observation, payload: texts };
}

t.test(
  'a request of Claude Code is a generation with its model, tokens, cost and duration',
  (t) => {
    const { observation } = only([
      claude('api_request', {
        model: 'claude-sonnet-5',
        input_tokens: '12',
        output_tokens: '340',
        cache_read_tokens: '5000',
        cache_creation_tokens: '200',
        cache_creation_5m_tokens: 50,
        cache_creation_1h_tokens: 150,
        cost_usd: '0.0123',
        cost_usd_micros: 12300,
        duration_ms: '2500',
        ttft_ms: '420',
        request_id: 'req_011',
        query_source: 'repl_main_thread',
      }),
    ]);
    t.match(observation, {
      name: 'claude_code.api_request',
      kind: 'generation',
      status: 'success',
      operation: 'finish',
      ended: true,
      model: 'claude-sonnet-5',
      usage: {
        input_tokens: 5212,
        output_tokens: 340,
        total_tokens: 5552,
        cached_tokens: 5000,
        cache_write_tokens: 200,
        cache_write_1h_tokens: 150,
      },
      startTime: { ms: AT - 2500, ns: 0 },
      endTime: { ms: AT, ns: 0 },
      sessionId: SESSION,
      userId: 'a3f1',
      details: { provider: 'anthropic', ttftMs: 420, cost: { source: 'sent', total: 12_300_000 } },
    });
    t.equal(observation.details?.ignored, undefined);
    t.end();
  },
);

t.test('the prompt is the root of its trace, and the other events are below it', (t) => {
  const { observations, payloads } = converted(
    logsOf(
      [
        claude('user_prompt', { prompt: 'Fix the test', prompt_length: '12' }),
        claude('tool_decision', {
          tool_name: 'Bash',
          tool_use_id: 'toolu_1',
          decision: 'accept',
          source: 'config',
        }),
        claude('tool_result', {
          tool_name: 'Bash',
          tool_use_id: 'toolu_1',
          success: 'true',
          duration_ms: '40',
          tool_input: '{"command":"ls"}',
        }),
        claude('plugin_loaded', { 'plugin.name': 'x' }),
      ],
      CLAUDE,
    ),
  );
  const [root, decision, result, other] = observations;
  t.match(root, { name: 'claude_code', kind: 'agent', parentId: null, ended: true, endTime: null });
  t.equal(payloads[0]?.inputs, '"Fix the test"');
  t.match(result, { name: 'Bash', kind: 'tool', status: 'success', startTime: { ms: AT - 40 } });
  t.equal(result?.details?.tool, 'Bash');
  t.equal(payloads[2]?.inputs, '{"command":"ls"}');
  t.equal(decision?.id, result?.id, 'the decision is about the same call');
  t.match(decision, { operation: 'start', status: 'pending', endTime: null, ended: false });
  t.match(other, { name: 'claude_code.plugin_loaded', kind: 'event' });
  for (const each of [decision, result, other]) {
    t.equal(each?.traceId, root?.traceId);
    t.equal(each?.parentId, root?.id);
  }
  t.end();
});

t.test('of a redacted prompt, the root has the length', (t) => {
  const prompt = claude('user_prompt', { prompt: '<REDACTED>', prompt_length: '12' });
  t.equal(only([prompt]).payload.inputs, '{"prompt_length":12}');
  t.notMatch(only([prompt]).payload.metadata, /REDACTED/);
  t.end();
});

t.test('failed events are errors, and a rejected tool call ends with one', (t) => {
  const error = claude('api_error', {
    model: 'claude-sonnet-5',
    error: 'overloaded',
    status_code: 529,
    duration_ms: 1000,
  });
  t.match(only([error]).observation, {
    kind: 'generation',
    status: 'error',
    operation: 'error',
    model: 'claude-sonnet-5',
    error: { message: 'overloaded' },
  });
  const failed = {
    tool_name: 'Bash',
    tool_use_id: 'u',
    success: 'false',
    error_type: 'ShellError',
  };
  t.match(only([claude('tool_result', failed)]).observation, {
    status: 'error',
    error: { message: 'ShellError', type: 'ShellError' },
  });
  const rejected = { tool_name: 'Bash', tool_use_id: 'u', decision: 'reject' };
  t.match(only([claude('tool_decision', rejected)]).observation, {
    name: 'Bash',
    status: 'error',
    ended: true,
    error: { message: 'reject' },
  });
  t.end();
});

t.test('the response of a request is its output', (t) => {
  const { observations, payloads } = converted(
    logsOf(
      [
        claude('api_request', { request_id: 'req_1', model: 'm' }),
        claude('assistant_response', { request_id: 'req_1', response: 'Done.', model: 'm' }),
        claude('assistant_response', { response: 'Done.', model: 'm' }),
      ],
      CLAUDE,
    ),
  );
  t.equal(observations[1]?.id, observations[0]?.id);
  t.equal(observations[1]?.operation, 'start');
  t.equal(payloads[1]?.outputs, '"Done."');
  t.match(observations[2], { kind: 'event', operation: 'finish', model: null });
  t.end();
});

t.test('malformed values cost their field and are listed, and the item keeps them', (t) => {
  const { observation, payload: texts } = only([
    claude('api_request', {
      model: ['m'],
      input_tokens: 'many',
      output_tokens: 5,
      cost_usd: 'free',
      duration_ms: -1,
      success: 'perhaps',
    }),
  ]);
  t.match(observation, { status: 'success', usage: { output_tokens: 5 }, startTime: { ms: AT } });
  t.equal(observation.model, null);
  t.same(
    new Set(observation.details?.ignored?.map(({ path, reason }) => `${path} ${reason}`)),
    new Set([
      'attributes.model is no text',
      'attributes.input_tokens is no count of tokens',
      'attributes.cost_usd is no amount',
      'attributes.duration_ms is no duration',
      'attributes.success is neither true nor false',
    ]),
  );
  t.match(JSON.parse(texts.metadata ?? ''), { input_tokens: 'many', 'claude_code.model': ['m'] });
  t.notMatch(texts.metadata, /tracectl.ignored/);
  t.end();
});

t.test('a repeated request gives the same ids, another one others', (t) => {
  const ids = (records: object[]) =>
    converted(logsOf(records, CLAUDE)).observations.map(({ id }) => id);
  const first = [claude('api_request', { model: 'm' }), claude('skill_activated')];
  t.same(ids(first), ids(first));
  const [one] = ids([claude('api_request', { model: 'm' }, AT)]);
  const [resumed] = ids([claude('api_request', { model: 'm' }, AT + 1)]);
  t.not(one, resumed, 'a resumed session counts from 0 again');
  t.end();
});

t.test(
  'events without a prompt are in the trace of their session, without a session on their own',
  (t) => {
    const { observations } = converted(
      logsOf(
        [
          claude('api_request', { 'prompt.id': undefined }),
          claude('auth', { 'prompt.id': undefined }),
          claude('auth', { 'prompt.id': undefined, 'session.id': undefined }),
        ],
        CLAUDE,
      ),
    );
    const [request, auth, alone] = observations;
    t.equal(request?.traceId, auth?.traceId);
    t.equal(request?.details?.traceName, 'claude_code session');
    t.ok(request?.parentId);
    t.not(alone?.traceId, auth?.traceId);
    t.equal(alone?.parentId, null);
    t.end();
  },
);

t.test('an event within a span of the client is in its trace, below the span', (t) => {
  const traceId = '0123456789abcdef0123456789abcdef';
  const record = { ...claude('user_prompt', { prompt: 'x' }), traceId, spanId: '0123456789abcdef' };
  t.match(only([record]).observation, {
    traceId,
    parentId: `${traceId}:0123456789abcdef`,
    kind: 'event',
  });
  t.end();
});

t.test('the events of a Codex conversation are one trace', (t) => {
  const { observations, payloads } = converted(
    logsOf([
      codex('conversation_starts', { provider_name: 'OpenAI', approval_policy: 'on-request' }),
      codex('user_prompt', { prompt: 'Fix it', prompt_length: '6' }),
      codex('api_request', { duration_ms: '900', 'http.response.status_code': 200, attempt: 1 }),
      codex('sse_event', { 'event.kind': 'response.output_text.delta', duration_ms: '1' }),
      codex('sse_event', { 'event.kind': 'response.completed', duration_ms: '1' }),
      codex('sse_event', {
        'event.kind': 'response.completed',
        input_token_count: '100',
        output_token_count: '20',
        cached_token_count: 64,
        cache_write_token_count: 16,
        reasoning_token_count: 8,
        tool_token_count: '120',
      }),
      codex('tool_result', {
        tool_name: 'shell',
        call_id: 'call_1',
        arguments: '{"command":["ls"]}',
        duration_ms: '12',
        success: 'false',
        output: 'no such file',
      }),
    ]),
  );
  const [root, prompt, rootInput, request, call, tool] = observations;
  t.equal(observations.length, 6, 'the progress of a stream is dropped');
  t.match(root, { name: 'codex', kind: 'agent', parentId: null, ended: true, model: null });
  t.match(prompt, { name: 'codex.user_prompt', kind: 'event', parentId: root?.id, model: null });
  t.equal(rootInput?.id, root?.id);
  t.equal(payloads[2]?.inputs, '"Fix it"');
  t.match(request, { name: 'codex.api_request', kind: 'span', startTime: { ms: AT - 900 } });
  t.match(call, {
    kind: 'generation',
    model: 'gpt-5-codex',
    usage: {
      input_tokens: 100,
      output_tokens: 20,
      cached_tokens: 64,
      cache_write_tokens: 16,
      reasoning_tokens: 8,
    },
    userId: 'ada@example.com',
    sessionId: '019f3d5f-3dc4-7f01-b42c-d19d98e1d13d',
  });
  t.match(tool, { name: 'shell', kind: 'tool', status: 'error', model: null });
  t.equal(payloads[5]?.inputs, '{"command":["ls"]}');
  t.equal(payloads[5]?.outputs, '"no such file"');
  t.equal(new Set(observations.map(({ traceId }) => traceId)).size, 1);
  t.end();
});

const SPAN = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) };

function genAi(event: string, more: object = {}): object {
  return { timeUnixNano: String(BigInt(AT) * 1_000_000n), eventName: event, ...more };
}

t.test('the messages of a span are joined to it', (t) => {
  const { observations, payloads, counts } = converted(
    logsOf([
      genAi('gen_ai.system.message', {
        ...SPAN,
        attributes: attributesOf({ 'gen_ai.system': 'openai' }),
        body: attributesBody({ content: 'Be brief.' }),
      }),
      genAi('gen_ai.user.message', { ...SPAN, body: attributesBody({ content: 'Hi' }) }),
      genAi('gen_ai.choice', {
        ...SPAN,
        body: attributesBody({ index: 0, finish_reason: 'stop', message: { content: 'Hello' } }),
      }),
    ]),
  );
  t.equal(observations.length, 1);
  t.strictSame(counts.recordsOf, [3]);
  t.match(observations[0], {
    id: `${SPAN.traceId}:${SPAN.spanId}`,
    name: null,
    operation: 'start',
    ended: false,
    endTime: null,
  });
  t.strictSame(JSON.parse(payloads[0]?.inputs ?? ''), [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hi' },
  ]);
  t.match(JSON.parse(payloads[0]?.outputs ?? ''), [{ message: { content: 'Hello' } }]);
  t.end();
});

t.test('a message in the text of a record is read without what the logger adds', (t) => {
  const record = (event: string, message: unknown) =>
    genAi(event, {
      ...{ ...SPAN, body: { stringValue: JSON.stringify(message) } },
      attributes: attributesOf({
        ...{ 'event.name': event, 'gen_ai.system': 'openai', CHAT_MESSAGE_INDEX: 0 },
        ...{ 'code.file.path': 'decorators.py', 'code.line.number': 380 },
      }),
    });
  const said = { role: 'user', content: 'Hi' };
  const choice = { message: { role: 'assistant', content: 'Ho' }, index: 0 };
  const { payload } = only(
    [record('gen_ai.user.message', said), record('gen_ai.choice', choice)],
    {} as never,
  );
  t.strictSame(JSON.parse(payload.inputs ?? ''), [said]);
  t.strictSame(JSON.parse(payload.outputs ?? ''), [choice]);
  t.match(JSON.parse(payload.events ?? ''), [
    { attributes: { 'code.file.path': 'decorators.py' } },
  ]);
  t.end();
});

t.test('the text of a log record that is no message is the content of one', (t) => {
  for (const [text, content] of [
    ['{"city":"Paris"}', { city: 'Paris' }],
    [' {"a":{"role":"user"}}', { a: { role: 'user' } }],
    ['{}', {}],
    ['{"city":', '{"city":'],
    ['Hi', 'Hi'],
  ] as const) {
    const record = genAi('gen_ai.user.message', { ...SPAN, body: { stringValue: text } });
    const { payload } = only([record], {} as never);
    t.strictSame(JSON.parse(payload.inputs ?? ''), [{ role: 'user', content }], text);
  }
  const parts = { parts: [{ type: 'text', content: 'Hi' }] };
  const record = genAi('gen_ai.user.message', {
    ...SPAN,
    body: { stringValue: ` ${JSON.stringify(parts)}` },
  });
  const { payload } = only([record], {} as never);
  t.strictSame(JSON.parse(payload.inputs ?? ''), [{ role: 'user', ...parts }]);
  t.end();
});

t.test('the user and the session of a message are those of its span', (t) => {
  const user = (id: string) => attributesOf({ 'user.id': id, 'gen_ai.conversation.id': 'c' });
  const body = attributesBody({ content: 'Hi' });
  const { observation } = only(
    [
      genAi('gen_ai.system.message', { ...SPAN, body }),
      genAi('gen_ai.user.message', { ...SPAN, body, attributes: user('u') }),
      genAi('gen_ai.user.message', { ...SPAN, body, attributes: user('other') }),
    ],
    {} as never,
  );
  t.match(observation, { userId: 'u', sessionId: 'c' });
  t.end();
});

function attributesBody(members: Record<string, unknown>): object {
  return { kvlistValue: { values: attributesOf(members) } };
}

const DETAILS = attributesOf({
  'gen_ai.operation.name': 'chat',
  'gen_ai.request.model': 'gpt-5',
  'gen_ai.conversation.id': 'c1',
  'gen_ai.usage.input_tokens': 3,
  'gen_ai.input.messages': [{ role: 'user', parts: [{ type: 'text', content: 'Hi' }] }],
  'gen_ai.output.messages': [{ role: 'assistant', parts: [{ type: 'text', content: 'Ho' }] }],
});

t.test('the details of an operation are those of its span, or a call without one', (t) => {
  const record = genAi('gen_ai.client.inference.operation.details', { attributes: DETAILS });
  const joined = only([{ ...record, ...SPAN }], {} as never);
  t.match(joined.observation, {
    id: `${SPAN.traceId}:${SPAN.spanId}`,
    operation: 'start',
    kind: 'generation',
    model: 'gpt-5',
    usage: { input_tokens: 3 },
    sessionId: 'c1',
  });
  t.match(JSON.parse(joined.payload.inputs ?? ''), [{ role: 'user' }]);
  const alone = only([record], {} as never);
  t.match(alone.observation, { name: 'chat gpt-5', operation: 'finish', status: 'success' });
  t.match(JSON.parse(alone.payload.outputs ?? ''), [{ role: 'assistant' }]);
  t.end();
});

t.test('the user of an operation precedes those of its messages', (t) => {
  const user = (id: string) => attributesOf({ 'user.id': id });
  const { observation } = only(
    [
      genAi('gen_ai.client.inference.operation.details', { ...SPAN, attributes: user('u') }),
      genAi('gen_ai.user.message', { ...SPAN, attributes: user('other') }),
    ],
    {} as never,
  );
  t.match(observation, { userId: 'u' });
  t.end();
});

t.test('an evaluation is an observation below the evaluated one', (t) => {
  const attributes = attributesOf({
    'gen_ai.evaluation.name': 'relevance',
    'gen_ai.evaluation.score.value': 0.5,
    'gen_ai.evaluation.score.label': 'partly',
    'gen_ai.evaluation.explanation': 'Off topic.',
  });
  const { observation, payload: texts } = only(
    [genAi('gen_ai.evaluation.result', { ...SPAN, attributes })],
    {} as never,
  );
  t.match(observation, {
    name: 'relevance',
    kind: 'evaluator',
    traceId: SPAN.traceId,
    parentId: `${SPAN.traceId}:${SPAN.spanId}`,
    status: 'success',
  });
  t.strictSame(JSON.parse(texts.outputs ?? ''), {
    score: 0.5,
    label: 'partly',
    explanation: 'Off topic.',
  });
  t.end();
});

t.test(
  'counts records of calls that repeat spans of OpenLIT and Copilot Chat, and keeps evaluations',
  (t) => {
    const call = { attributes: attributesOf({ 'gen_ai.usage.input_tokens': 21 }) };
    const records = [
      genAi('gen_ai.client.inference.operation.details', call),
      genAi('gen_ai.client.inference.operation.details', { ...SPAN, ...call }),
      genAi('gen_ai.evaluation.result', SPAN),
    ];
    for (const name of ['openlit.instrumentation.openai', 'openlit', 'copilot-chat']) {
      const { counts, observations } = converted(logsOf(records, { scope: { name } }));
      t.match(counts, { repeated: 2, detached: 0, recordsOf: [1] }, name);
      t.match(observations, [{ kind: 'evaluator' }]);
    }
    for (const name of ['another', 'openlitigation', 'copilot-chats', '']) {
      const { counts } = converted(logsOf(records, { scope: { name } }));
      t.match(counts, { repeated: 0, recordsOf: [1, 1, 1] }, name);
    }
    t.end();
  },
);

t.test('counts records that are no events of LLM calls, and messages without a span', (t) => {
  const { counts, observations } = converted(
    logsOf([
      { body: { stringValue: 'GET /index.html' } },
      { eventName: 'session.start', attributes: attributesOf({ 'event.name': 'user_prompt' }) },
      genAi('gen_ai.user.message', { body: attributesBody({ content: 'Hi' }) }),
      genAi('gen_ai.user.message', { ...SPAN, spanId: '0'.repeat(16) }),
      {},
    ]),
  );
  t.match(counts, { unsupported: 3, detached: 2, recordsOf: [], firstOf: [] });
  t.equal(observations.length, 0);
  t.end();
});
