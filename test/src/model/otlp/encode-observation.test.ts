import t from 'tap';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import { withCustomFieldsText } from '../../../../src/model/custom-fields.ts';
import { observe, payload } from '../../../../src/model/formats.ts';
import type { Observation } from '../../../../src/model/observation.ts';
import { EMBEDDED_KEY } from '../../../../src/model/otlp/embedded-observation.ts';
import { encodeOtlp } from '../../../../src/model/otlp/encode.ts';
import {
  OBSERVATION_ORIGIN,
  spanIdOf,
  spanOfObservation,
  traceIdOf,
} from '../../../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans, type OwnSpan } from '../../../../src/model/otlp/own-span.ts';
import type { OtlpSpan } from '../../../../src/model/otlp/span.ts';
import { nativeEvent, otlpBatch, rawBatch } from '../../../helper/batches.ts';

function nativeText(events: readonly string[]): SealedBatch {
  return rawBatch('native', Buffer.from(`{"events":[${events.join(',')}]}`), events.length);
}

function spansOf(batch: SealedBatch): OwnSpan[] {
  return observe(batch).map((observation, position) =>
    spanOfObservation(observation, payload(batch, position), batch.receivedAt),
  );
}

/** The batch as another tracectl receives it, after it left as spans. */
async function through(batch: SealedBatch, encoding: 'proto' | 'json'): Promise<SealedBatch> {
  const spans = spansOf(batch);
  const body = await encodeOwnSpans(OBSERVATION_ORIGIN, spans, encoding);
  return rawBatch(`otlp_${encoding}`, body, spans.length);
}

function observed(batch: SealedBatch): unknown[] {
  return observe(batch).map((observation, position) => ({
    ...observation,
    payload: payload(batch, position),
  }));
}

/** A batch of one span that another client wrote. */
function arrived(span: OtlpSpan): SealedBatch {
  const body = encodeOtlp({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] }, 'proto');
  return rawBatch('otlp_proto', body, 1);
}

const EVENTS: readonly string[] = [
  JSON.stringify(nativeEvent()),
  JSON.stringify(
    nativeEvent({
      id: 'start of it',
      operation: 'start',
      status: 'running',
      end_time: null,
      outputs: null,
      parent_id: 'observation-1',
      event_version: '18446744073709551615',
      model: 'gpt-x',
      session_id: 's-1',
      user_id: 'u-1',
      context_metadata: { custom_fields: { team: 'other', region: 'eu' }, n: 1 },
      usage: { input_tokens: 3, output_tokens: 4, odd_tokens: 5 },
      ...{ provider: 'p', environment: 'e', release: 'r', tags: ['a', 'b'], ttft_ms: 2.5 },
      ...{ prompt: { name: 'n', version: '1' }, cost: { input: 0.1, total: 0.3 } },
    }),
  ),
  JSON.stringify(
    nativeEvent({
      id: '0123456789abcdef',
      trace_id: '0af7651916cd43dd8448eb211c80319c',
      operation: 'error',
      status: 'cancelled',
      name: '',
      start_time: '1969-01-01T00:00:00.000000001Z',
      error: { message: 'went wrong', type: 'Broken', stacktrace: 'at x' },
      events: [{ name: 'token', at: 1 }],
      kind: null,
    }),
  ),
  // The spelling of numbers, text that looks like JSON, and lone surrogates.
  '{"id":"n","trace_id":"t","operation":"finish","inputs":1.50e2,"outputs":"[1]"}',
  '{"id":"s","trace_id":"t","operation":"finish","inputs":"plain","outputs":"\\ud800 \\u0041"}',
  '{"id":"o","trace_id":"t","operation":"finish","inputs":{ "b" : 1.0, "a":12345678901234567890,"b":2},"outputs":""}',
  '{"id":"l","trace_id":"t","operation":"finish","inputs":[null, true],"metadata":{"x":"\\u0000"}}',
];

for (const encoding of ['proto', 'json'] as const) {
  t.test(`restores native events from ${encoding}`, async (t) => {
    const batch = nativeText(EVENTS);
    const restored = observed(await through(batch, encoding));
    for (const [i, sent] of observed(batch).entries()) t.same(restored[i], sent, String(EVENTS[i]));
    t.equal(restored.length, EVENTS.length);
  });

  t.test(`restores runs from ${encoding}`, async (t) => {
    const body = JSON.stringify({
      post: [
        {
          id: '018f3b2e-7b64-7a30-9d6a-0f2f3a7b1c2d',
          name: 'run',
          run_type: 'prompt',
          start_time: 1_768_478_398_123,
          inputs: { q: 1 },
          session_name: 'default',
        },
      ],
      patch: [{ id: 'unknown trace', end_time: '2026-01-15T11:59:59.5Z', error: 'no' }],
    });
    const batch = rawBatch('runs', Buffer.from(body), 2);
    t.same(observed(await through(batch, encoding)), observed(batch));
  });
}

t.test('writes the attributes, status and events that OpenTelemetry tools read', async (t) => {
  const batch = nativeText([
    JSON.stringify(
      nativeEvent({
        model: 'gpt-x',
        usage: { input_tokens: 3, output_tokens: 4 },
        session_id: 's-1',
        ...{ provider: 'openai', tags: ['a'], ttft_ms: 500, cost: 0.25 },
        inputs: 'hello',
      }),
    ),
    JSON.stringify(nativeEvent({ operation: 'start', end_time: null, status: 'running' })),
    JSON.stringify(nativeEvent({ operation: 'error', status: 'error', error: 'went wrong' })),
  ]);
  const [finished, started, failed] = spansOf(batch);
  t.match(finished?.attributes, {
    'openinference.span.kind': 'LLM',
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'gpt-x',
    'llm.model_name': 'gpt-x',
    'gen_ai.usage.input_tokens': 3,
    'llm.token_count.completion': 4,
    'session.id': 's-1',
    'gen_ai.provider.name': 'openai',
    'tag.tags': ['a'],
    'gen_ai.response.time_to_first_chunk': 0.5,
    'gen_ai.usage.cost': 0.25,
    'input.value': 'hello',
    'input.mime_type': 'text/plain',
    'output.value': '{"content":"hi"}',
    'output.mime_type': 'application/json',
    'custom_fields.team': 'search',
  });
  t.match(finished, { name: 'chat', kind: 'client', status: { code: 1 } });
  t.same(finished?.end, { ms: 1_768_478_399_500, ns: 0 });
  t.equal(started?.end, undefined, 'a started observation has no end');
  t.match(failed, {
    status: { code: 2, message: 'went wrong' },
    events: [{ name: 'exception', attributes: { 'exception.message': 'went wrong' } }],
  });
});

t.test('keeps the custom fields of a copy that has only their text', async (t) => {
  const { customFields, ...rest } = observe(nativeText(EVENTS))[0] as Observation;
  const lazy = withCustomFieldsText(rest, JSON.stringify(customFields));
  for (const copy of [{ ...lazy }, structuredClone(lazy)]) {
    const { attributes } = spanOfObservation(copy, {}, 0);
    t.match(attributes, { 'custom_fields.team': 'search' });
  }
});

t.test('keeps ids that OTLP can express, and hashes others', async (t) => {
  t.equal(traceIdOf('0AF7651916cd43dd8448eb211c80319c'), '0af7651916cd43dd8448eb211c80319c');
  t.equal(
    traceIdOf('018f3b2e-7b64-7a30-9d6a-0f2f3a7b1c2d'),
    '018f3b2e7b647a309d6a0f2f3a7b1c2d',
    'a UUID is 16 bytes',
  );
  t.equal(spanIdOf('0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331'), 'b7ad6b7169203331');
  for (const idOf of [traceIdOf, spanIdOf]) {
    t.match(idOf('any'), /^([0-9a-f]{16}){1,2}$/);
    t.equal(idOf('any'), idOf('any'));
    t.not(idOf('any'), idOf('other'));
    t.not(idOf('0'.repeat(32)), '0'.repeat(32));
  }
});

t.test('ignores an embedded observation that is not well-formed', async (t) => {
  const span = (text: string): OtlpSpan => ({
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    name: 'n',
    attributes: [{ key: EMBEDDED_KEY, value: { stringValue: text } }],
  });
  const sound = { id: 'i', operation: 'finish', version: '1', ended: true };
  const observed = (value: unknown) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return observe(arrived(span(text)))[0];
  };
  t.equal(observed(sound)?.id, 'i');
  for (const wrong of [
    '',
    'text',
    '[]',
    '[['.repeat(5000),
    { ...sound, id: '' },
    { ...sound, id: 'a\0b' },
    { ...sound, id: 7 },
    { ...sound, version: '18446744073709551616' },
    { ...sound, version: '1.0' },
    { ...sound, operation: 'other' },
    { ...sound, kind: 'other' },
    { ...sound, status: 'other' },
    { ...sound, ended: 1 },
    { ...sound, startTime: 'yesterday' },
    { ...sound, startTime: [1] },
    { ...sound, startTime: [1e15, 0] },
    { ...sound, endTime: [0, 1_000_000] },
    { ...sound, endTime: [0.5, 0] },
    { ...sound, usage: { input_tokens: 'many' } },
    { ...sound, usage: [] },
    { ...sound, error: 'text' },
    { ...sound, external: { a: 1 } },
    { ...sound, forms: { inputs: 'other' } },
    { ...sound, forms: { other: 'json' } },
  ]) {
    t.equal(
      observed(wrong)?.id,
      '0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331',
      JSON.stringify(wrong).slice(0, 60),
    );
  }
  const forged = span(JSON.stringify({ ...sound, forms: { inputs: 'json' } }));
  forged.attributes?.push({ key: 'input.value', value: { stringValue: 'no JSON' } });
  t.same(payload(arrived(forged), 0), {}, 'a payload that is no JSON is absent');
});

t.test('reads payload attributes of a span without an embedded observation', async (t) => {
  const batch = otlpBatch([{ attributes: { 'input.value': 'x', metadata: '{"a":1}' } }]);
  t.equal(observe(batch)[0]?.id, '0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331');
  t.equal(payload(batch, 0).inputs, '"x"');
});
