import fc from 'fast-check';
import t from 'tap';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { observe, payload, STORED_LIMITS, scan } from '../../../../src/model/formats.ts';
import { CARRIED_KEY } from '../../../../src/model/otlp/embedded-observation.ts';
import { encodeRequest, requestOf } from '../../../../src/model/otlp/encode.ts';
import {
  requestOfSpans,
  spanIdOf,
  spanOfObservation,
  traceIdOf,
} from '../../../../src/model/otlp/encode-observation.ts';
import { readExportResponse, readStatusMessage } from '../../../../src/model/otlp/read-response.ts';
import type { OtlpSpan } from '../../../../src/model/otlp/span.ts';
import { nativeEvent, otlpBatch, rawBatch } from '../../../helper/batches.ts';

function nativeText(events: readonly string[]): SealedBatch {
  return rawBatch('native', Buffer.from(`{"events":[${events.join(',')}]}`), events.length);
}

/** Sent as spans, and received by another tracectl. */
function through(batch: SealedBatch, encoding: 'proto' | 'json'): SealedBatch {
  const spans = observe(batch).map((observation, position) =>
    spanOfObservation(observation, payload(batch, position), batch.receivedAt),
  );
  const body = encodeRequest(requestOfSpans(spans), encoding);
  return rawBatch(encoding === 'proto' ? 'otlp_proto' : 'otlp_json', body, spans.length);
}

function seen(batch: SealedBatch): unknown {
  return observe(batch).map((observation, position) => ({
    ...observation,
    payload: payload(batch, position),
  }));
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
  // Numbers keep their spelling, text that looks like JSON stays text, and lone surrogates survive.
  '{"id":"n","trace_id":"t","operation":"finish","inputs":1.50e2,"outputs":"[1]"}',
  '{"id":"s","trace_id":"t","operation":"finish","inputs":"plain","outputs":"\\ud800 \\u0041"}',
  '{"id":"o","trace_id":"t","operation":"finish","inputs":{ "b" : 1.0, "a":12345678901234567890,"b":2},"outputs":""}',
  '{"id":"l","trace_id":"t","operation":"finish","inputs":[null, true],"metadata":{"x":"\\u0000"}}',
];

for (const encoding of ['proto', 'json'] as const) {
  t.test(`native events come back the same through OTLP (${encoding})`, async (t) => {
    const batch = nativeText(EVENTS);
    const back = through(batch, encoding);
    const sent = seen(batch) as { id: string }[];
    for (const [i, found] of (seen(back) as { id: string }[]).entries()) {
      t.same(found, sent[i], sent[i]?.id ?? '');
    }
    t.equal(observe(back).length, EVENTS.length);
  });

  t.test(`runs come back the same through OTLP (${encoding})`, async (t) => {
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
    t.same(seen(through(batch, encoding)), seen(batch));
  });
}

t.test('what any OpenTelemetry tool reads', async (t) => {
  const batch = nativeText([
    JSON.stringify(
      nativeEvent({
        model: 'gpt-x',
        usage: { input_tokens: 3, output_tokens: 4 },
        session_id: 's-1',
        inputs: 'hello',
      }),
    ),
    JSON.stringify(nativeEvent({ operation: 'start', end_time: null, status: 'running' })),
    JSON.stringify(nativeEvent({ operation: 'error', status: 'error', error: 'went wrong' })),
  ]);
  const [finished, started, failed] = observe(batch).map((observation, position) =>
    spanOfObservation(observation, payload(batch, position), batch.receivedAt),
  );
  const attributes = Object.fromEntries(
    (finished?.attributes ?? []).map(({ key, value }) => [
      key,
      value?.stringValue ?? value?.intValue,
    ]),
  );
  t.match(attributes, {
    'openinference.span.kind': 'LLM',
    'gen_ai.operation.name': 'chat',
    'gen_ai.request.model': 'gpt-x',
    'llm.model_name': 'gpt-x',
    'gen_ai.usage.input_tokens': '3',
    'llm.token_count.completion': '4',
    'session.id': 's-1',
    'input.value': 'hello',
    'input.mime_type': 'text/plain',
    'output.value': '{"content":"hi"}',
    'output.mime_type': 'application/json',
    'custom_fields.team': 'search',
  });
  t.match(finished, { name: 'chat', kind: 3, status: { code: 1 } });
  t.equal(finished?.endTimeUnixNano, '1768478399500000000');
  t.equal(started?.endTimeUnixNano, undefined, 'what has not ended has no end');
  t.match(failed, {
    status: { code: 2, message: 'went wrong' },
    events: [{ name: 'exception', attributes: [{ key: 'exception.message' }] }],
  });
});

t.test('ids that OTLP has stay, others are the same for the same id', async (t) => {
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

t.test(
  'an account of an observation that nobody of us wrote is an attribute like any other',
  async (t) => {
    const span = (text: string): OtlpSpan => ({
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
      name: 'n',
      attributes: [{ key: CARRIED_KEY, value: { stringValue: text } }],
    });
    const sound = { id: 'i', operation: 'finish', version: '1', ended: true };
    const observed = (value: unknown) => {
      const text = typeof value === 'string' ? value : JSON.stringify(value);
      const body = encodeRequest(requestOfSpans([span(text)]), 'proto');
      return observe(rawBatch('otlp_proto', body, 1))[0];
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
    const batch = rawBatch('otlp_proto', encodeRequest(requestOfSpans([forged]), 'proto'), 1);
    t.same(payload(batch, 0), {}, 'a field that is no JSON is none');
  },
);

t.test('every field of OTLP survives from JSON to protobuf', async (t) => {
  const attributes = [
    { key: 'text', value: { stringValue: '' } },
    { key: 'yes', value: { boolValue: true } },
    { key: 'no', value: { boolValue: false } },
    { key: 'int', value: { intValue: '-9223372036854775808' } },
    { key: 'double', value: { doubleValue: 0.5 } },
    { key: 'nan', value: { doubleValue: 'NaN' } },
    { key: 'bytes', value: { bytesValue: 'AAEC' } },
    { key: 'list', value: { arrayValue: { values: [{ intValue: '1' }, { stringValue: 'x' }] } } },
    { key: 'map', value: { kvlistValue: { values: [{ key: 'k', value: { stringValue: 'v' } }] } } },
    { key: 'none', value: {} },
  ];
  const span = {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId: 'b7ad6b7169203331',
    traceState: 'a=b',
    parentSpanId: 'b7ad6b7169203332',
    name: 'größer '.repeat(40),
    kind: 3,
    startTimeUnixNano: '1768478398000000001',
    endTimeUnixNano: '18446744073709551615',
    attributes,
    droppedAttributesCount: 1,
    events: [{ timeUnixNano: '5', name: 'e', attributes, droppedAttributesCount: 2 }],
    droppedEventsCount: 3,
    links: [
      {
        traceId: '0af7651916cd43dd8448eb211c80319d',
        spanId: 'b7ad6b7169203333',
        traceState: 'c=d',
        attributes,
        droppedAttributesCount: 4,
        flags: 257,
      },
    ],
    droppedLinksCount: 5,
    status: { message: 'm', code: 2 },
    flags: 4_294_967_295,
  };
  const request = {
    resourceSpans: [
      {
        resource: { attributes, droppedAttributesCount: 6 },
        scopeSpans: [
          {
            scope: { name: 's', version: '1', attributes, droppedAttributesCount: 7 },
            spans: [span, { ...span, spanId: 'b7ad6b7169203339' }],
            schemaUrl: 'https://example.com/scope',
          },
        ],
        schemaUrl: 'https://example.com/resource',
      },
    ],
  };
  const json = scan('otlp_json', Buffer.from(JSON.stringify(request)), STORED_LIMITS) as OtlpIndex;
  const proto = encodeRequest(requestOf(json, [0, 1]), 'proto');
  const index = scan('otlp_proto', proto, STORED_LIMITS) as OtlpIndex;
  t.same(requestOf(index, [0, 1]), request);
  const backToJson = encodeRequest(requestOf(index, [0, 1]), 'json');
  t.same(JSON.parse(backToJson.toString()), request);
});

t.test('an answer is read as it is meant, and never believed', async (t) => {
  const partial = Buffer.concat([
    Buffer.from([0x0a, 5, 0x08, 2, 0x12, 1, 0x78]),
    // A field that a later version may have.
    Buffer.from([0x7a, 1, 0]),
  ]);
  t.same(readExportResponse(partial, false), { rejectedSpans: 2, errorMessage: 'x' });
  t.same(readExportResponse(Buffer.alloc(0), false), { rejectedSpans: 0, errorMessage: '' });
  t.same(readExportResponse(Buffer.from('{}'), true), { rejectedSpans: 0, errorMessage: '' });
  for (const wrong of ['[]', 'null', '<html>', '{"partialSuccess":']) {
    t.equal(readExportResponse(Buffer.from(wrong), true), undefined);
  }
  for (let end = 1; end < 7; end++) {
    t.equal(readExportResponse(partial.subarray(0, end), false), undefined, 'torn off');
  }
  const anything = fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(anything, fc.boolean(), (body, isJson) => {
      const answer = readExportResponse(body, isJson);
      readStatusMessage(body, isJson);
      return answer === undefined || answer.rejectedSpans >= 0;
    }),
  );
  t.equal(readStatusMessage(Buffer.from([0x12, 1, 0x78]), false), 'x');
  t.equal(readStatusMessage(Buffer.from('{"message":"x"}'), true), 'x');
  t.equal(readStatusMessage(Buffer.from('{"message":1}'), true), undefined);
});

t.test('what comes in as OTLP is unchanged by what another tracectl may say', async (t) => {
  const batch = otlpBatch([{ attributes: { 'input.value': 'x', metadata: '{"a":1}' } }]);
  t.equal(observe(batch)[0]?.id, '0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331');
  t.equal(payload(batch, 0).inputs, '"x"');
});
