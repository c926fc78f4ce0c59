import fc from 'fast-check';
import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { PermanentError } from '../../../../src/model/errors.ts';
import {
  type Observation,
  PAYLOAD_FIELDS,
  type Payload,
} from '../../../../src/model/observation.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { renderExportResponse, renderRpcStatus } from '../../../../src/model/otlp/response.ts';
import {
  judged,
  otlpCustomFieldRejections,
  otlpRejections,
} from '../../../../src/model/otlp/rules.ts';
import {
  anyValueOf,
  attributesOf,
  decodeRequest,
  decodeResponse,
  decodeRpcStatus,
  encodeRequest,
  type RequestForm,
  requestOf,
  spanOf,
} from '../../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 1000 };
const MiB = 1024 * 1024;

const protoIndex = (request: RequestForm) => otlpProto.scan(encodeRequest(request), LIMITS);
const jsonIndex = (request: RequestForm | string) => {
  const text = typeof request === 'string' ? request : JSON.stringify(request);
  return otlpJson.scan(Buffer.from(text), LIMITS);
};
const moduleOf = (index: OtlpIndex) => (index.type === 'otlp_proto' ? otlpProto : otlpJson);

/** A span's observation and its payload fields, parsed; the same from both encodings. */
function read(
  span: object,
  around: { resource?: object; scope?: object } = {},
): { observation: Observation; payload: Record<string, unknown>; text: Payload } {
  const request = requestOf([span], around);
  const [proto, json] = [protoIndex(request), jsonIndex(request)].map((index) => ({
    observation: moduleOf(index).observe(index, 0, 7),
    text: moduleOf(index).payload(index, 0, PAYLOAD_FIELDS),
  }));
  t.same(proto, json, 'protobuf and JSON read the same');
  const { observation, text } = proto as NonNullable<typeof proto>;
  const payload = Object.fromEntries(
    Object.entries(text).map(([field, value]) => [field, JSON.parse(value)]),
  );
  const mask = PAYLOAD_FIELDS.reduce((bits, field, i) => bits | (field in text ? 1 << i : 0), 0);
  t.equal(observation.payloadMask, mask, 'the mask says which payload fields there are');
  return { observation, payload, text };
}

const withAttributes = (values: Record<string, unknown>, more: object = {}) =>
  read(spanOf(0, { attributes: attributesOf(values), ...more }));

t.test('a span as an observation', async (t) => {
  t.test('has ids made of trace and span, and keeps the originals', async (t) => {
    const { observation } = read(
      spanOf(0, { traceId: 'AB'.repeat(16), spanId: 'cd'.repeat(8), parentSpanId: 'EF'.repeat(8) }),
    );
    t.match(observation, {
      id: `${'ab'.repeat(16)}:${'cd'.repeat(8)}`,
      traceId: 'ab'.repeat(16),
      parentId: `${'ab'.repeat(16)}:${'ef'.repeat(8)}`,
      index: 7,
      version: '0',
      external: {
        trace_id: 'ab'.repeat(16),
        span_id: 'cd'.repeat(8),
        parent_span_id: 'ef'.repeat(8),
      },
    });
  });

  t.test('is a root without a parent, or with one of zeros', async (t) => {
    for (const parentSpanId of ['', '0'.repeat(16)]) {
      const { observation } = read(spanOf(0, { parentSpanId }));
      t.equal(observation.parentId, null);
      t.notOk('parent_span_id' in (observation.external ?? {}));
    }
  });

  t.test('has the status the table of the contract says', async (t) => {
    const of = (more: object) => {
      const { operation, status, ended } = read(spanOf(0, more)).observation;
      return [operation, status, ended];
    };
    t.same(of({ status: { code: 2 } }), ['error', 'error', true]);
    t.same(of({ status: { code: 1 } }), ['finish', 'success', true]);
    t.same(of({ status: { code: 0 } }), ['finish', 'pending', true]);
    t.same(of({}), ['finish', 'pending', true]);
    t.same(of({ endTimeUnixNano: '0' }), ['start', 'pending', false]);
    t.same(of({ status: { code: 99 } }), ['finish', 'pending', true]);
    const named = jsonIndex(requestOf([spanOf(0, { status: { code: 'STATUS_CODE_ERROR' } })]));
    t.equal(otlpJson.observe(named, 0, 0).status, 'error');
  });

  t.test('has its times to the nanosecond', async (t) => {
    const { observation } = read(
      spanOf(0, {
        startTimeUnixNano: '1704067200123456789',
        endTimeUnixNano: '18446744073709551615',
      }),
    );
    t.same(observation.startTime, { ms: 1704067200123, ns: 456789 });
    t.same(observation.endTime, { ms: 18446744073709, ns: 551615 });
    t.equal(read(spanOf(0, { startTimeUnixNano: '0' })).observation.startTime, null);
  });

  t.test('has the kind that the first convention with a known value gives', async (t) => {
    const kind = (values: Record<string, unknown>) => withAttributes(values).observation.kind;
    t.equal(kind({}), 'span');
    t.equal(kind({ 'openinference.span.kind': 'LLM' }), 'generation');
    t.equal(kind({ 'openinference.span.kind': 'RERANKER' }), 'retriever');
    t.equal(kind({ 'gen_ai.operation.name': 'chat' }), 'generation');
    t.equal(kind({ 'gen_ai.operation.name': 'execute_tool' }), 'tool');
    t.equal(kind({ 'gen_ai.operation.name': 'invented' }), 'span');
    t.equal(
      kind({ 'gen_ai.operation.name': 'invented', 'gen_ai.request.model': 'm' }),
      'generation',
    );
    t.equal(kind({ 'traceloop.span.kind': 'workflow' }), 'chain');
    t.equal(kind({ 'mlflow.spanType': '"CHAT_MODEL"' }), 'generation');
    t.equal(kind({ 'langsmith.span.kind': 'parser' }), 'chain');
    t.equal(kind({ 'ai.operationId': 'ai.generateText.doGenerate' }), 'generation');
    t.equal(kind({ 'operation.name': 'ai.generateText my-function' }), 'chain');
    t.equal(kind({ 'operation.name': 'checkout' }), 'span');
    t.equal(kind({ 'ai.operationId': 'ai.toolCall' }), 'tool');
    t.equal(
      kind({ 'langfuse.observation.type': 'agent', 'gen_ai.operation.name': 'chat' }),
      'agent',
    );
    t.equal(kind({ 'openinference.span.kind': 'constructor' }), 'span');
  });

  t.test('has model, usage, session and user in their own fields', async (t) => {
    const { observation, payload } = withAttributes({
      'gen_ai.request.model': 'gpt-4o',
      'gen_ai.response.model': 'gpt-4o-2024',
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': '34',
      'llm.token_count.total': 46.0,
      'llm.token_count.completion': 1,
      'gen_ai.usage.cache_read.input_tokens': 3,
      'session.id': 's-1',
      'user.id': 42,
    });
    t.match(observation, { model: 'gpt-4o-2024', sessionId: 's-1', userId: '42' });
    t.same(observation.usage, {
      input_tokens: 12,
      output_tokens: 34,
      total_tokens: 46,
      cache_read_input_tokens: 3,
    });
    t.same(
      payload.metadata,
      {
        'gen_ai.request.model': 'gpt-4o',
        'llm.token_count.completion': 1,
        'session.id': 's-1',
        'user.id': 42,
        'otel.span.kind': 'INTERNAL',
      },
      'what became a field is not repeated, what did not is kept',
    );
  });

  t.test('takes usage from JSON, and nothing that is no count', async (t) => {
    const details = { input: 5, output: 6, total: 11, input_cached_tokens: 2, cost: 0.1 };
    const langfuse = { 'langfuse.observation.usage_details': JSON.stringify(details) };
    t.same(withAttributes(langfuse).observation.usage, {
      input_tokens: 5,
      output_tokens: 6,
      total_tokens: 11,
      cache_read_input_tokens: 2,
    });
    for (const value of ['many', -1, 1.5, true, [1], '', Number.NaN]) {
      t.equal(withAttributes({ 'gen_ai.usage.input_tokens': value }).observation.usage, null);
    }
  });

  t.test('has session and user of its resource where it has none', async (t) => {
    const resource = { attributes: attributesOf({ 'session.id': 'r', 'user.id': 'u' }) };
    const attributes = attributesOf({ 'user.id': 'own' });
    const { observation } = read(spanOf(0, { attributes }), { resource });
    t.match(observation, { sessionId: 'r', userId: 'own' });
  });

  t.test('has an error from wherever it was said', async (t) => {
    const errorOf = (values: Record<string, unknown>, more: object = {}) =>
      withAttributes(values, more).observation.error;
    const exception = {
      name: 'exception',
      attributes: attributesOf({
        'exception.type': 'TypeError',
        'exception.message': 'from event',
        'exception.stacktrace': 'at x',
      }),
    };
    const status = { code: 2, message: 'from status' };
    t.same(errorOf({}, { status, events: [exception] }), {
      message: 'from event',
      type: 'TypeError',
      stacktrace: 'at x',
    });
    t.match(errorOf({}, { status }), { message: 'from status', type: null, stacktrace: null });
    t.match(errorOf({ error: 'first' }, { status, events: [exception] }), { message: 'first' });
    t.match(errorOf({ 'exception.message': 'second' }, { events: [exception] }), {
      message: 'second',
    });
    t.match(errorOf({ error: true }, { status }), { message: 'from status' });
    t.equal(errorOf({}, { status: { code: 2 } }), null);
    t.equal(errorOf({}, { status: { code: 1, message: 'fine' } }), null);
  });

  t.test('without valid ids is none', async (t) => {
    for (const more of [{ traceId: '' }, { spanId: '0'.repeat(16) }, { traceId: 'ab' }]) {
      for (const index of [
        protoIndex(requestOf([spanOf(0, more)])),
        jsonIndex(requestOf([spanOf(0, more)])),
      ]) {
        t.throws(() => moduleOf(index).observe(index, 0, 0), PermanentError);
        t.equal(moduleOf(index).itemId(index, 0), undefined);
      }
    }
  });
});

t.test('custom fields', async (t) => {
  const fieldsOf = (values: Record<string, unknown>, resource: Record<string, unknown> = {}) => {
    const span = spanOf(0, { attributes: attributesOf(values) });
    const around = { resource: { attributes: attributesOf(resource) } };
    return read(span, around).observation.customFields;
  };

  t.test('come as an object or dotted, and merge in the order of the contract', async (t) => {
    t.strictSame(
      { ...fieldsOf({ custom_fields: { team: 'a', n: 3, yes: true } }) },
      {
        team: 'a',
        n: '3',
        yes: 'true',
      },
    );
    t.strictSame(
      { ...fieldsOf({ 'custom_fields.team': 'a', 'custom_fields.a.b': 1 }) },
      {
        team: 'a',
        'a.b': '1',
      },
    );
    t.strictSame(
      {
        ...fieldsOf(
          {
            'context_metadata.custom_fields.a': 'context',
            'context_metadata.custom_fields.b': 'context',
            'context_metadata.custom_fields.c': 'context',
            'metadata.custom_fields': { a: 'metadata', b: 'metadata' },
            'custom_fields.a': 'event',
          },
          { 'custom_fields.c': 'resource', 'custom_fields.d': 'resource' },
        ),
      },
      { a: 'event', b: 'metadata', c: 'context', d: 'resource' },
    );
    t.strictSame(
      { ...fieldsOf({ extra: { metadata: { custom_fields: { a: 'x' } } } }) },
      { a: 'x' },
    );
    t.strictSame(
      {
        ...fieldsOf({
          'extra.metadata.custom_fields.a': 'extra',
          'extra.metadata.custom_fields.b': 'extra',
          'metadata.custom_fields.a': 'metadata',
        }),
      },
      { a: 'metadata' },
      'metadata stands in the place of extra.metadata',
    );
  });

  t.test('ignore what the contract ignores', async (t) => {
    t.equal(
      fieldsOf({ custom_fields: { api_key: 'x', nested: { a: 1 }, list: [1], blank: ' ' } }),
      null,
    );
    t.equal(fieldsOf({ custom_fields: {} }), null);
    t.equal(fieldsOf({ 'custom_fields.trace_id': 'x', 'custom_fields.__proto__': 'y' }), null);
    t.equal(({} as { x?: unknown }).x, undefined);
  });

  t.test('reject their span where they are no object', async (t) => {
    const bad = ['text', '{"a":1}', 1, 1.5, true, [], ['a']];
    const places = [
      (value: unknown) => ({ custom_fields: value }),
      (value: unknown) => ({ 'metadata.custom_fields': value }),
      (value: unknown) => ({ 'extra.metadata.custom_fields': value }),
      (value: unknown) => ({ 'context_metadata.custom_fields': value }),
      (value: unknown) => ({ metadata: { custom_fields: value } }),
      (value: unknown) => ({ extra: { metadata: { custom_fields: value } } }),
      (value: unknown) => ({ 'extra.metadata': { custom_fields: value } }),
      (value: unknown) => ({ context_metadata: { custom_fields: value } }),
    ];
    for (const place of places) {
      for (const value of bad) {
        const spans = [spanOf(0), spanOf(1, { attributes: attributesOf(place(value)) }), spanOf(2)];
        for (const index of [protoIndex(requestOf(spans)), jsonIndex(requestOf(spans))]) {
          const [rejection, ...others] = otlpCustomFieldRejections(index);
          t.match(rejection, { index: 1, code: 'invalid_custom_fields' });
          t.match(
            rejection?.reason,
            /^resourceSpans\[0\]\.scopeSpans\[0\]\.spans\[1\]\.attributes\.[a-z_.]*custom_fields must be an object or null$/,
          );
          t.same(others, []);
        }
      }
      for (const value of [null, {}, { a: 'b' }]) {
        const spans = [spanOf(0, { attributes: attributesOf(place(value)) })];
        t.same(otlpCustomFieldRejections(protoIndex(requestOf(spans))), []);
        t.same(otlpCustomFieldRejections(jsonIndex(requestOf(spans))), []);
      }
    }
  });

  t.test('of a resource count for all of its spans', async (t) => {
    const resource = { attributes: attributesOf({ custom_fields: 'text' }) };
    const request = requestOf([spanOf(0), spanOf(1)], { resource });
    request.resourceSpans?.unshift({});
    request.resourceSpans?.push(...(requestOf([spanOf(2)]).resourceSpans ?? []));
    for (const index of [protoIndex(request), jsonIndex(request)]) {
      const rejections = otlpCustomFieldRejections(index);
      t.same(
        rejections.map((rejection) => rejection.index),
        [0, 1],
      );
      t.match(rejections[0]?.reason, /^resourceSpans\[1\]\.resource\.attributes\.custom_fields /);
    }
  });

  t.test('of other names are nobody’s business', async (t) => {
    const attributes = attributesOf({ 'custom_fields.team': 1, model: 'm', metadata: '{"a":1}' });
    t.same(otlpCustomFieldRejections(protoIndex(requestOf([spanOf(0, { attributes })]))), []);
  });

  t.test('are found under a field name that JSON.parse takes for another one', async (t) => {
    for (let i = 0; i < 3; i++) JSON.parse('{"odd":1,"key":"custom_fields","valu\\\\":1}');
    const request = JSON.stringify(
      requestOf([spanOf(0, { attributes: attributesOf({ custom_fields: 'text' }) })]),
    ).replace('"key":"custom_fields","value":', '"odd":1,"key":"custom_fields","valu\\u0065":');
    const index = jsonIndex(request);
    t.equal(otlpCustomFieldRejections(index).length, 1);
  });

  t.test('escaped in JSON are found all the same', async (t) => {
    const text = JSON.stringify(
      requestOf([spanOf(0, { attributes: attributesOf({ custom_fields: 1 }) })]),
    );
    const index = jsonIndex(text.replace('custom_fields', '\\u0063ustom_fields'));
    t.equal(otlpCustomFieldRejections(index).length, 1);
  });
});

t.test('payloads', async (t) => {
  t.test('have inputs and outputs by precedence', async (t) => {
    const both = withAttributes({
      input: 'first',
      'input.value': 'second',
      'llm.input_messages': 'third',
      output: { answer: 42 },
    });
    t.equal(both.payload.inputs, 'first');
    t.same(both.payload.outputs, { answer: 42 });
    t.match(both.payload.metadata, { 'input.value': 'second', 'llm.input_messages': 'third' });
    t.equal(withAttributes({ input: '', 'input.value': 'second' }).payload.inputs, 'second');
  });

  t.test('give JSON text as that very text, other text as text', async (t) => {
    const json = '{ "b": 1.50,\n "a": [1e3, 12345678901234567890] }';
    const { text } = withAttributes({ input: json, output: '{not json' });
    t.equal(text.inputs, json);
    t.equal(text.outputs, '"{not json"');
    for (const other of ['"quoted"', '17', 'null', '', '[1', '{}x']) {
      t.not(withAttributes({ input: other, output: 'o' }).text.inputs, other);
    }
    const deep = '['.repeat(5000) + ']'.repeat(5000);
    t.equal(withAttributes({ input: deep }).payload.inputs, deep, 'too deep to be taken as JSON');
  });

  t.test('keep every kind of value', async (t) => {
    const { text } = withAttributes({
      big: 2n ** 63n - 1n,
      small: -(2n ** 63n),
      bytes: Buffer.from([0, 255]),
      empty: null,
      list: [1, 'a', null, [true]],
      map: { a: { b: 1.5 } },
      nul: '\0',
    });
    t.equal(
      text.metadata,
      '{"big":9223372036854775807,"small":-9223372036854775808,"bytes":"AP8=","empty":null,' +
        '"list":[1,"a",null,[true]],"map":{"a":{"b":1.5}},"nul":"\\u0000","otel.span.kind":"INTERNAL"}',
    );
    const doubles = { nan: Number.NaN, inf: -Infinity, tiny: 5e-324 };
    t.match(withAttributes(doubles).payload.metadata, {
      nan: 'NaN',
      inf: '-Infinity',
      tiny: 5e-324,
    });
  });

  t.test('keep the digits of JSON integers however they were sent', async (t) => {
    const attributes =
      '[{"key":"n","value":{"intValue":9007199254740993}},{"key":"s","value":{"intValue":"9007199254740993"}}]';
    const span = JSON.stringify(spanOf(0)).replace('}', `,"attributes":${attributes}}`);
    const index = jsonIndex(`{"resourceSpans":[{"scopeSpans":[{"spans":[${span}]}]}]}`);
    const { metadata } = otlpJson.payload(index, 0, ['metadata']);
    t.match(metadata, '"n":9007199254740993,"s":9007199254740993');
  });

  t.test('show invalid UTF-8 as U+FFFD', async (t) => {
    const bytes = encodeRequest(
      requestOf([spanOf(0, { attributes: attributesOf({ input: 'ab??cd' }) })]),
    );
    bytes.write('\xff\xfe', bytes.indexOf('??'), 'latin1');
    const index = otlpProto.scan(bytes, LIMITS);
    t.equal(otlpProto.payload(index, 0, ['inputs']).inputs, '"ab\ufffd\ufffdcd"');
    t.ok(otlpProto.source(index, 0).includes('ab\ufffd\ufffdcd'));
  });

  t.test('have flat metadata in which nothing is lost', async (t) => {
    const { payload } = read(
      spanOf(0, {
        kind: 3,
        flags: 257,
        traceState: 'a=b',
        attributes: attributesOf({ shared: 'span', own: 1 }),
        droppedAttributesCount: 2,
        droppedEventsCount: 3,
        links: [
          {
            traceId: 'ab'.repeat(16),
            spanId: 'cd'.repeat(8),
            attributes: attributesOf({ why: 'retry' }),
          },
        ],
        status: { code: 1, message: 'all good' },
      }),
      {
        resource: { attributes: attributesOf({ 'service.name': 'shop', shared: 'resource' }) },
        scope: { name: 'lib', version: '1.2', attributes: attributesOf({ short: true }) },
      },
    );
    t.strictSame(payload.metadata, {
      'service.name': 'shop',
      'resource.shared': 'resource',
      'scope.name': 'lib',
      'scope.version': '1.2',
      'scope.short': true,
      shared: 'span',
      own: 1,
      'otel.span.kind': 'CLIENT',
      'otel.trace_state': 'a=b',
      'otel.flags': 257,
      'otel.status_description': 'all good',
      'otel.links': [
        { trace_id: 'ab'.repeat(16), span_id: 'cd'.repeat(8), attributes: { why: 'retry' } },
      ],
      'otel.dropped_attributes_count': 2,
      'otel.dropped_events_count': 3,
    });
  });

  t.test('cannot touch a prototype', async (t) => {
    const { text } = withAttributes({
      __proto__x: 1,
      map: JSON.parse('{"__proto__":{"polluted":1}}'),
      'llm.input_messages.0.__proto__.polluted': 'x',
      'llm.input_messages.0.constructor.prototype.polluted': 'x',
    });
    t.match(text.metadata, '"map":{"__proto__":{"polluted":1}}');
    t.match(text.inputs, '"__proto__"');
    t.equal(({} as { polluted?: unknown }).polluted, undefined);
  });

  t.test('list events with time and attributes', async (t) => {
    const events = [
      { name: 'a', timeUnixNano: '1704067200000000001', attributes: attributesOf({ x: [1] }) },
      { name: 'b', timeUnixNano: '1704067200000000000', droppedAttributesCount: 1 },
    ];
    t.same(read(spanOf(0, { events })).payload.events, [
      { name: 'a', time: '2024-01-01T00:00:00.000000001Z', attributes: { x: [1] } },
      { name: 'b', time: '2024-01-01T00:00:00.000Z', dropped_attributes_count: 1 },
    ]);
  });

  t.test('put numbered message attributes together', async (t) => {
    const { payload } = withAttributes({
      'llm.input_messages.10.message.content': 'eleventh',
      'llm.input_messages.1.message.role': 'user',
      'llm.input_messages.0.message.role': 'system',
      'llm.input_messages.0.message.content': 'be nice',
      'llm.input_messages.1.message.contents.0.message_content.type': 'text',
      'llm.input_messages.1.message.contents.0.message_content.text': 'hi',
      'llm.output_messages.0.message.tool_calls.0.tool_call.function.name': 'f',
      'llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments': '{"a":1}',
    });
    t.same(payload.inputs, [
      { role: 'system', content: 'be nice' },
      { role: 'user', contents: [{ type: 'text', text: 'hi' }] },
      { content: 'eleventh' },
    ]);
    t.same(payload.outputs, [{ tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }] }]);
    t.same(payload.metadata, { 'otel.span.kind': 'INTERNAL' });
  });

  t.test('are not fooled by odd message attributes', async (t) => {
    const { payload } = withAttributes({
      'gen_ai.prompt.name': 'not a message',
      'llm.input_messages.99999.message.role': 'beyond the cap',
      'llm.input_messages.9999.message.role': 'sparse',
      'llm.input_messages.9999.message': 'conflict',
      'llm.input_messages.9999.message.tags.0': 'a',
      [`llm.input_messages.9999.${'x.'.repeat(10_000)}y`]: 'deep',
    });
    t.match(payload.metadata, {
      'gen_ai.prompt.name': 'not a message',
      'llm.input_messages.99999.message.role': 'beyond the cap',
    });
    const text = JSON.stringify(payload.inputs);
    for (const value of ['sparse', 'conflict', '"a"', 'deep']) t.ok(text.includes(value), value);
  });

  t.test('take inputs and outputs from events where no attribute has them', async (t) => {
    const message = (name: string, values: Record<string, unknown>) => ({
      name,
      attributes: attributesOf(values),
    });
    const events = [
      message('gen_ai.user.message', { content: 'hi', 'gen_ai.system': 'openai' }),
      message('gen_ai.choice', { index: 0, message: '{"content":"yo"}' }),
      message('gen_ai.content.prompt', { 'gen_ai.prompt': '[{"old":1}]' }),
    ];
    const { payload } = read(spanOf(0, { events }));
    t.same(payload.inputs, [{ role: 'user', content: 'hi' }]);
    t.same(payload.outputs, [{ index: 0, message: { content: 'yo' } }]);
    t.same(read(spanOf(0, { events: [events[2]] })).payload.inputs, [{ old: 1 }]);
    const details = message('gen_ai.client.inference.operation.details', {
      'gen_ai.output.messages': [{ role: 'assistant' }],
    });
    t.same(read(spanOf(0, { events: [details] })).payload.outputs, [{ role: 'assistant' }]);
    const attributes = attributesOf({ input: 'attribute' });
    t.equal(read(spanOf(0, { events, attributes })).payload.inputs, 'attribute');
  });

  t.test('put system instructions in front of the messages they are for', async (t) => {
    const messages = [{ role: 'user', parts: [{ type: 'text', content: 'hi' }] }];
    const instructions = [{ type: 'text', content: 'be brief' }];
    const both = withAttributes({
      'gen_ai.input.messages': JSON.stringify(messages),
      'gen_ai.system_instructions': JSON.stringify(instructions),
    });
    t.same(both.payload.inputs, [{ role: 'system', parts: instructions }, ...messages]);
    t.notOk('gen_ai.system_instructions' in (both.payload.metadata as object));
    const asText = withAttributes({
      'gen_ai.input.messages': '[ ]',
      'gen_ai.system_instructions': 'be brief',
    });
    t.same(asText.payload.inputs, [{ role: 'system', parts: instructions }]);
    for (const [key, value] of [
      ['input', 'hi'],
      ['gen_ai.input.messages', 'no list'],
    ]) {
      const { payload } = withAttributes({
        [key as string]: value,
        'gen_ai.system_instructions': 'be brief',
      });
      t.equal(payload.inputs, value);
      t.match(payload.metadata, { 'gen_ai.system_instructions': 'be brief' });
    }
  });

  t.test('have a model’s text and its tool calls as one message', async (t) => {
    const calls = [{ toolCallId: 'c', toolName: 'search', args: {} }];
    const { payload } = withAttributes({
      'ai.response.text': 'Let me look.',
      'ai.response.toolCalls': JSON.stringify(calls),
    });
    t.same(payload.outputs, { role: 'assistant', content: 'Let me look.', tool_calls: calls });
    t.same(payload.metadata, { 'otel.span.kind': 'INTERNAL' });
    const callsAlone = withAttributes({
      'ai.response.text': '',
      'ai.response.toolCalls': JSON.stringify(calls),
    });
    t.same(callsAlone.payload.outputs, calls);
  });

  t.test('keep an object of token counts beside the usage it gave', async (t) => {
    const details = JSON.stringify({ input: 1, output: 2, input_audio: 3 });
    const seen = withAttributes({ 'langfuse.observation.usage_details': details });
    t.same(seen.observation.usage, { input_tokens: 1, output_tokens: 2 });
    t.match(seen.payload.metadata, { 'langfuse.observation.usage_details': details });
  });

  t.test('have context metadata of their own', async (t) => {
    const { payload } = withAttributes({ context_metadata: { env: 'prod' } });
    t.same(payload.context_metadata, { env: 'prod' });
    t.same(payload.metadata, { 'otel.span.kind': 'INTERNAL' });
  });
});

/** Values of every kind, under keys that mean something and keys that do not. */
const key = fc.oneof(
  fc.constantFrom(
    'input',
    'output',
    'error',
    'model',
    'session.id',
    'gen_ai.usage.input_tokens',
    'llm.input_messages.0.message.content',
    'llm.input_messages.1.message.role',
    'custom_fields',
    'custom_fields.a',
    'metadata.custom_fields',
    'context_metadata',
    'openinference.span.kind',
    'gen_ai.operation.name',
    '__proto__',
    '',
  ),
  fc.string({ unit: 'binary', maxLength: 12 }),
);
const { value } = fc.letrec<{ value: object }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('LLM', 'chat', '', '{"a":1}').map(anyValueOf),
    fc.string({ unit: 'binary', maxLength: 8 }).map(anyValueOf),
    fc.boolean().map(anyValueOf),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(anyValueOf),
    fc.nat(1000).map(anyValueOf),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((doubleValue) => ({ doubleValue })),
    fc.uint8Array({ maxLength: 5 }).map((bytes) => anyValueOf(Buffer.from(bytes))),
    fc.constant({}),
    fc.array(tie('value'), { maxLength: 3 }).map((values) => ({ arrayValue: { values } })),
    fc
      .array(fc.record({ key, value: tie('value') }), { maxLength: 3 })
      .map((values) => ({ kvlistValue: { values } })),
  ),
}));
const attributes = fc.array(fc.record({ key, value }), { maxLength: 8 });
const id = (bytes: number) =>
  fc.uint8Array({ minLength: bytes, maxLength: bytes }).map((array) => {
    array[0] = 1;
    return Buffer.from(array).toString('hex');
  });
const span = fc.record(
  {
    traceId: id(16),
    spanId: id(8),
    parentSpanId: fc.oneof(fc.constant(''), id(8)),
    name: fc.string({ unit: 'binary', maxLength: 10 }),
    kind: fc.nat(6),
    startTimeUnixNano: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    endTimeUnixNano: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
    attributes,
    events: fc.array(
      fc.record({
        name: fc.constantFrom('exception', 'other', 'gen_ai.choice', 'gen_ai.user.message'),
        timeUnixNano: fc.constant('1'),
        attributes,
      }),
      { maxLength: 2 },
    ),
    status: fc.record({ code: fc.nat(3), message: fc.string({ maxLength: 5 }) }),
    flags: fc.nat(300),
  },
  { requiredKeys: ['traceId', 'spanId'] },
);
const request = fc
  .array(
    fc.record({
      resource: fc.record({ attributes }),
      scopeSpans: fc.array(
        fc.record({
          scope: fc.record({ name: fc.string({ maxLength: 5 }), attributes }),
          spans: fc.array(span, { maxLength: 3 }),
          schemaUrl: fc.constantFrom('', 'https://example.com/schema'),
        }),
        { maxLength: 3 },
      ),
    }),
    { maxLength: 3 },
  )
  .map((resourceSpans): RequestForm => ({ resourceSpans }));

t.test('for every request', async (t) => {
  t.test('protobuf and JSON give the same observations, payloads and rejections', async () => {
    fc.assert(
      fc.property(request, (request) => {
        const proto = protoIndex(request);
        const json = jsonIndex(request);
        const all = (index: OtlpIndex) =>
          Array.from({ length: index.count }, (_, i) => {
            const observation = moduleOf(index).observe(index, i, i);
            const payload = moduleOf(index).payload(index, i, PAYLOAD_FIELDS);
            for (const text of Object.values(payload)) JSON.parse(text);
            const mask = PAYLOAD_FIELDS.reduce((m, f, k) => m | (f in payload ? 1 << k : 0), 0);
            if (mask !== observation.payloadMask) throw new Error('the mask is wrong');
            return { observation, payload, id: moduleOf(index).itemId(index, i) };
          });
        same(all(proto), all(json));
        same(otlpCustomFieldRejections(proto), otlpCustomFieldRejections(json));
        same(otlpRejections(proto), []);
      }),
      { numRuns: 150 },
    );
  });

  t.test('cutting spans out leaves the others as they were', async () => {
    fc.assert(
      fc.property(request, fc.infiniteStream(fc.boolean()), (request, choice) => {
        for (const index of [protoIndex(request), jsonIndex(request)]) {
          const format = moduleOf(index);
          const keep = Array.from({ length: index.count }, (_, i) => i).filter(
            () => choice.next().value,
          );
          const bytes = format.cut(index, keep);
          const cut = format.scan(bytes, LIMITS);
          same(
            Array.from({ length: cut.count }, (_, i) => format.source(cut, i)),
            keep.map((position) => format.source(index, position)),
          );
          if (keep.length === index.count) same(bytes.equals(index.bytes), true);
          if (index.type === 'otlp_proto') {
            const spans = decodeRequest(bytes).resourceSpans.flatMap((r) => r.scopeSpans);
            same(
              spans.flatMap((scope) => scope.spans),
              keep.map((i) => decodedSpans(index.bytes)[i]),
            );
          }
        }
      }),
      { numRuns: 80 },
    );
  });

  t.test('a span’s source is a request that reads the same', async () => {
    fc.assert(
      fc.property(request, (request) => {
        for (const index of [protoIndex(request), jsonIndex(request)]) {
          for (let i = 0; i < index.count; i++) {
            const alone = jsonIndex(moduleOf(index).source(index, i));
            same(alone.count, 1);
            same(otlpJson.observe(alone, 0, i), moduleOf(index).observe(index, i, i));
            same(
              otlpJson.payload(alone, 0, PAYLOAD_FIELDS),
              moduleOf(index).payload(index, i, PAYLOAD_FIELDS),
            );
          }
        }
      }),
      { numRuns: 80 },
    );
  });
});

function decodedSpans(bytes: Buffer): unknown[] {
  return decodeRequest(bytes)
    .resourceSpans.flatMap((resource) => resource.scopeSpans)
    .flatMap((scope) => scope.spans);
}

function same(found: unknown, wanted: unknown): void {
  const [a, b] = [found, wanted].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`found ${a}, wanted ${b}`);
}

t.test('usage counts the bytes of attributes and events', async (t) => {
  const more = {
    attributes: attributesOf({ a: 'x', b: 1 }),
    events: [{ name: 'e' }],
    name: 'not counted',
  };
  const proto = protoIndex(requestOf([spanOf(0, more)]));
  t.equal(otlpProto.usageBytes(proto, 0), 8 + 7 + 3, 'as received in protobuf');
  const spaced = JSON.stringify(requestOf([spanOf(0, more)]), null, 4);
  const json = jsonIndex(spaced);
  const compact = JSON.stringify(more.attributes).length + JSON.stringify(more.events).length;
  t.equal(otlpJson.usageBytes(json, 0), compact, 'as compact JSON in JSON');
});

t.test('JSON with white space anywhere is cut and read all the same', async (t) => {
  const text = JSON.stringify(requestOf([spanOf(0), spanOf(1), spanOf(2)]), null, 2);
  const index = jsonIndex(text);
  for (const keep of [[], [0], [1], [2], [0, 2], [0, 1, 2]]) {
    const cut = otlpJson.cut(index, keep);
    const again = otlpJson.scan(cut, LIMITS);
    t.same(
      Array.from({ length: again.count }, (_, i) => otlpJson.observe(again, i, 0).name),
      keep.map((i) => `span ${i}`),
    );
  }
});

t.test('the rules for ids and sizes', async (t) => {
  t.test('reject a span without valid ids, and only that', async (t) => {
    const bad: [object, RegExp][] = [
      [{ traceId: 'aa'.repeat(15) }, /spans\[1\]\.traceId must be/],
      [{ traceId: '00'.repeat(16) }, /traceId must be/],
      [{ traceId: '' }, /traceId must be/],
      [{ spanId: 'bb'.repeat(7) }, /spanId must be/],
      [{ spanId: '00'.repeat(8) }, /spanId must be/],
      [{ parentSpanId: 'cc'.repeat(7) }, /parentSpanId must be/],
    ];
    for (const [more, reason] of bad) {
      const spans = [spanOf(0), spanOf(1, more), spanOf(2)];
      for (const index of [protoIndex(requestOf(spans)), jsonIndex(requestOf(spans))]) {
        const rejections = otlpRejections(index);
        t.equal(rejections.length, 1);
        t.match(rejections[0], { index: 1, code: 'invalid_field', reason });
      }
    }
    const base64 = jsonIndex(requestOf([spanOf(0, { traceId: 'AAAAAAAAAAAAAAAAAAAAAQ==' })]));
    t.equal(otlpRejections(base64).length, 1);
  });

  t.test('accept exactly 4 MiB of JSON in a field, and not one byte more', async (t) => {
    const sized = (key: string, bytes: number, fill = 'x') => {
      const each = fill === '\0' ? 6 : Buffer.byteLength(fill);
      const padding = 'p'.repeat((bytes - 2) % each);
      return spanOf(0, {
        attributes: attributesOf({ [key]: padding + fill.repeat((bytes - 2) / each) }),
      });
    };
    for (const fill of ['x', '\0', 'é']) {
      const ok = requestOf([sized('input', 4 * MiB, fill), spanOf(1)]);
      const over = requestOf([sized('input', 4 * MiB + 1, fill), spanOf(1)]);
      for (const index of [protoIndex(ok), jsonIndex(ok)]) t.same(otlpRejections(index), []);
      for (const index of [protoIndex(over), jsonIndex(over)]) {
        t.match(otlpRejections(index), [{ index: 0, code: 'payload_too_large' }]);
      }
    }
    // {"k":"…","otel.span.kind":"INTERNAL"}
    const rest = '{"k":,"otel.span.kind":"INTERNAL"}'.length;
    t.same(otlpRejections(protoIndex(requestOf([sized('k', 4 * MiB - rest)]))), []);
    t.equal(otlpRejections(protoIndex(requestOf([sized('k', 4 * MiB - rest + 1)]))).length, 1);
  });

  t.test('count JSON text without its white space', async (t) => {
    const input = `[${' '.repeat(5 * MiB)}1]`;
    const index = protoIndex(requestOf([spanOf(0, { attributes: attributesOf({ input }) })]));
    t.same(otlpRejections(index), []);
  });

  t.test('measure a large resource once, and count it for each of its spans', async (t) => {
    const resource = (bytes: number) => ({ attributes: attributesOf({ r: 'x'.repeat(bytes) }) });
    const spans = Array.from({ length: 500 }, (_, i) => spanOf(i));
    const over = protoIndex(requestOf(spans, { resource: resource(5 * MiB) }));
    t.equal(otlpRejections(over).length, 500);
    // {"r":"…","otel.span.kind":"INTERNAL"}
    const rest = '{"r":"","otel.span.kind":"INTERNAL"}'.length;
    const exact = protoIndex(requestOf(spans, { resource: resource(4 * MiB - rest) }));
    t.same(otlpRejections(exact), []);
    const one = protoIndex(requestOf(spans, { resource: resource(4 * MiB - rest + 1) }));
    t.equal(otlpRejections(one).length, 500);
  });

  t.test('are the same where they were judged with the scan', async (t) => {
    const spans = [
      spanOf(0),
      { ...spanOf(1), traceId: '' },
      spanOf(2, { attributes: attributesOf({ custom_fields: 'text' }) }),
      spanOf(3, { attributes: attributesOf({ a: 'x'.repeat(5 * MiB) }) }),
    ];
    for (const index of [protoIndex(requestOf(spans)), jsonIndex(requestOf(spans))]) {
      const { verdicts } = judged(index);
      t.same(verdicts, {
        fields: otlpRejections(index),
        customFields: otlpCustomFieldRejections(index),
      });
      t.same([verdicts?.fields.length, verdicts?.customFields.length], [2, 1]);
      t.equal(otlpRejections({ ...index, verdicts: verdicts as never }), verdicts?.fields);
    }
  });

  t.test('never repeat a value', async (t) => {
    const secret = 'SECRETVALUE';
    const attributes = attributesOf({ custom_fields: secret, [secret]: secret });
    const index = jsonIndex(requestOf([spanOf(0, { traceId: secret, attributes })]));
    const all = [...otlpRejections(index), ...otlpCustomFieldRejections(index)];
    t.equal(all.length, 2);
    t.notMatch(JSON.stringify(all), secret);
  });
});

t.test('answers', async (t) => {
  const [json, proto] = ['application/json', 'application/x-protobuf'];
  const rejection = (index: number) =>
    ({ index, code: 'invalid_field', reason: `spans[${index}].traceId must be 16 bytes` }) as const;

  t.test('are empty where every span was accepted', async (t) => {
    t.equal(renderExportResponse([], json).toString(), '{}');
    t.equal(renderExportResponse([], proto).length, 0);
  });

  t.test('tell how many spans were rejected, and why', async (t) => {
    const rejections = Array.from({ length: 1000 }, (_, i) => rejection(i));
    const asJson = JSON.parse(renderExportResponse(rejections, json).toString());
    t.equal(asJson.partialSuccess.rejectedSpans, 1000);
    t.match(asJson.partialSuccess.errorMessage, /^invalid_field: spans\[0\].* and \d+ more$/);
    t.ok(Buffer.byteLength(asJson.partialSuccess.errorMessage) <= 2048);
    t.same(decodeResponse(renderExportResponse(rejections, proto)), asJson);
    t.match(decodeResponse(renderExportResponse([rejection(3)], proto)), {
      partialSuccess: {
        rejectedSpans: 1,
        errorMessage: 'invalid_field: spans[3].traceId must be 16 bytes',
      },
    });
  });

  t.test('are a google.rpc.Status on an error', async (t) => {
    const codes = { 400: 3, 401: 16, 402: 8, 403: 7, 404: 5, 405: 12, 409: 10, 413: 3, 415: 3 };
    for (const [status, code] of Object.entries({ ...codes, 429: 8, 503: 14 })) {
      const text = renderRpcStatus(Number(status), 'no', json).toString();
      t.equal(text, `{"code":${code},"message":"no"}`);
      t.same(decodeRpcStatus(renderRpcStatus(Number(status), 'no', proto)), {
        code,
        message: 'no',
      });
    }
    const long = JSON.parse(renderRpcStatus(400, 'é'.repeat(5000), json).toString());
    t.equal(long.message, 'é'.repeat(1024));
  });
});

t.test('groups, wherever they stand, change nothing of what is read', async (t) => {
  const request = requestOf(
    [
      spanOf(0, {
        attributes: attributesOf({
          'input.value': 'in',
          list: ['a', { x: 1 }],
          map: { y: [true] },
        }),
        events: [{ name: 'exception', timeUnixNano: '5', attributes: attributesOf({ m: 'x' }) }],
        links: [{ traceId: '01', spanId: '02', attributes: attributesOf({ q: 1 }) }],
        status: { code: 2, message: 'bad' },
      }),
      spanOf(1),
    ],
    { resource: { attributes: attributesOf({ service: 'x' }) }, scope: { name: 's' } },
  );
  const plain = encodeRequest(request);
  const grouped = withGroups(plain, REQUEST);
  t.ok(grouped.length > plain.length + 40 * GROUP.length);
  const [expected, found] = [plain, grouped].map((bytes) => {
    const index = otlpProto.scan(bytes, LIMITS);
    return [0, 1].map((position) => [
      otlpProto.observe(index, position, position),
      otlpProto.payload(index, position, PAYLOAD_FIELDS),
      otlpRejections(index),
    ]);
  });
  t.same(found, expected);
});

/** Field 99, with a text, a number and another group in it. */
const GROUP = Buffer.from('9b060a014110017b0d000000007c9c06', 'hex');
/** Messages by the numbers of their fields, as far as groups are put into them. */
type Shape = { readonly [field: number]: Shape };
const VALUE: { [field: number]: Shape } = {};
const ATTRIBUTE: Shape = { 2: VALUE };
VALUE[5] = { 1: VALUE };
VALUE[6] = { 1: ATTRIBUTE };
const SPAN: Shape = { 9: ATTRIBUTE, 11: { 3: ATTRIBUTE }, 13: { 4: ATTRIBUTE }, 15: {} };
const REQUEST: Shape = { 1: { 1: { 1: ATTRIBUTE }, 2: { 1: {}, 2: SPAN } } };

/** A message with a group before each of its fields, and after the last. */
function withGroups(message: Buffer, shape: Shape): Buffer {
  const parts: Buffer[] = [];
  let p = 0;
  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = message[p++] ?? 0;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (p < message.length) {
    const start = p;
    const tag = varint();
    parts.push(GROUP);
    if ((tag & 7) !== 2) {
      if ((tag & 7) === 0) varint();
      else p += (tag & 7) === 1 ? 8 : 4;
      parts.push(message.subarray(start, p));
      continue;
    }
    const head = message.subarray(start, p);
    const length = varint();
    const content = message.subarray(p, p + length);
    p += length;
    const inner = shape[tag >> 3];
    const changed = inner === undefined ? content : withGroups(content, inner);
    parts.push(head, lengthOf(changed), changed);
  }
  return Buffer.concat([...parts, GROUP]);
}

function lengthOf({ length }: Buffer): Buffer {
  const bytes: number[] = [];
  let rest = length;
  for (; rest > 127; rest >>= 7) bytes.push((rest & 127) | 128);
  return Buffer.from([...bytes, rest]);
}
