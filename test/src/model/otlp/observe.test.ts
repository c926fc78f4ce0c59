import t from 'tap';
import { PermanentError } from '../../../../src/model/errors.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { otlpCustomFieldRejections } from '../../../../src/model/otlp/rules.ts';
import { lengthDelimited } from '../../../../src/model/otlp/wire.ts';
import { attributesOf, requestOf, spanOf } from '../../../helper/otlp-proto.ts';
import { jsonIndex, LIMITS, moduleOf, protoIndex, read, withAttributes } from './reading.ts';

t.test('a span as an observation', async (t) => {
  t.test('has an id of trace and span id, and keeps both as external ids', async (t) => {
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

  t.test('is a root without a parent id, or with one of zeros', async (t) => {
    // Validation refuses the last one, but not every pipeline has it.
    for (const parentSpanId of ['', '0'.repeat(16), 'cc'.repeat(7)]) {
      const { observation } = read(spanOf(0, { parentSpanId }));
      t.equal(observation.parentId, null);
      t.notOk('parent_span_id' in (observation.external ?? {}));
    }
  });

  t.test('has an operation and status by its end time and status code', async (t) => {
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

  t.test('has times with nanoseconds', async (t) => {
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

  t.test('is sent twice if a LangSmith client says so, in its own scope', async (t) => {
    const isSentTwice = (name: string, values: Record<string, unknown>) => {
      const attributes = Object.entries(values).map(([variable, value]) => [
        `langsmith.metadata.LANGSMITH_${variable}`,
        value,
      ]);
      const span = spanOf(0, { attributes: attributesOf(Object.fromEntries(attributes)) });
      const { observation, payload } = read(span, { scope: { name } });
      t.match(payload.metadata, Object.fromEntries(attributes), 'the metadata keeps them');
      return observation.sentTwice;
    };
    t.equal(isSentTwice('langsmith', { OTEL_ENABLED: 'true' }), true);
    t.equal(isSentTwice('langsmith', { TRACING_MODE: 'hybrid' }), true);
    t.equal(isSentTwice('langsmith', { OTEL_ENABLED: 'true', OTEL_ONLY: 'true' }), undefined);
    t.equal(isSentTwice('langsmith', { OTEL_ENABLED: true }), true);
    t.equal(isSentTwice('other', { OTEL_ENABLED: 'true' }), undefined);
    t.equal(isSentTwice('langsmith', {}), undefined);
  });

  t.test('has the kind of the first convention with a known value', async (t) => {
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
    t.equal(kind({ 'span.type': 'interaction' }), 'agent', 'Claude Code');
    t.equal(kind({ 'span.type': 'tool.execution', 'gen_ai.tool.call.id': 'toolu_1' }), 'span');
    t.equal(kind({ 'span.type': 'other', 'gen_ai.tool.call.id': 'toolu_1' }), 'tool');
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

  t.test('has model, usage, session and user as fields', async (t) => {
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
      cached_tokens: 3,
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
      'the metadata has only attributes that became no other field',
    );
  });

  t.test('takes usage from JSON text, and ignores values that are no counts', async (t) => {
    const details = { input: 5, output: 6, total: 11, input_cached_tokens: 2, cost: 0.1 };
    const langfuse = { 'langfuse.observation.usage_details': JSON.stringify(details) };
    t.same(withAttributes(langfuse).observation.usage, {
      input_tokens: 5,
      output_tokens: 6,
      total_tokens: 11,
      cached_tokens: 2,
    });
    for (const value of ['many', -1, 1.5, true, [1], '', Number.NaN]) {
      t.equal(withAttributes({ 'gen_ai.usage.input_tokens': value }).observation.usage, null);
    }
  });

  t.test('counts cached tokens of Langfuse as part of the input', async (t) => {
    const usageOf = (details: object) =>
      withAttributes({ 'langfuse.observation.usage_details': JSON.stringify(details) }).observation
        .usage;
    t.same(usageOf({ input: 10, output: 5, cache_read_input_tokens: 90 }), {
      input_tokens: 100,
      output_tokens: 5,
      total_tokens: 105,
      cached_tokens: 90,
    });
    const apart = { input: 10, output: 5, input_cached_tokens: 2, output_reasoning_tokens: 3 };
    t.match(usageOf({ ...apart, total: 20 }), { input_tokens: 12, output_tokens: 8 });
    t.match(usageOf({ ...apart, total: 15 }), { input_tokens: 10, output_tokens: 5 });
    const openai = { prompt_tokens: 10, completion_tokens: 5, input_cached_tokens: 2 };
    t.match(usageOf(openai), { input_tokens: 10, output_tokens: 5 });
  });

  t.test('has the session and user of its resource if it has none', async (t) => {
    const resource = { attributes: attributesOf({ 'session.id': 'r', 'user.id': 'u' }) };
    const attributes = attributesOf({ 'user.id': 'own' });
    const { observation } = read(spanOf(0, { attributes }), { resource });
    t.match(observation, { sessionId: 'r', userId: 'own' });
  });

  t.test('has the error of an attribute, an exception event or its status', async (t) => {
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

  t.test('without valid ids throws a PermanentError', async (t) => {
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

t.test('a protobuf span with unusual fields', async (t) => {
  const ids = [lengthDelimited(10, Buffer.alloc(16, 1)), lengthDelimited(18, Buffer.alloc(8, 2))];
  const observed = (...fields: Buffer[]) => {
    const span = lengthDelimited(18, Buffer.concat([...ids, ...fields]));
    const body = lengthDelimited(10, lengthDelimited(18, span));
    return otlpProto.observe(otlpProto.scan(body, LIMITS), 0, 0);
  };

  t.test('merges its statuses', async (t) => {
    const failed = Buffer.concat([lengthDelimited(18, Buffer.from('boom')), Buffer.from([24, 2])]);
    const repeated = (last: number[]) =>
      observed(lengthDelimited(122, failed), lengthDelimited(122, Buffer.from(last)));
    t.match(repeated([24, 1]), { status: 'success', error: null });
    t.match(repeated([24, 2]), { status: 'error', error: { message: 'boom' } });
    t.match(repeated([18, 1, 120]), { status: 'error', error: { message: 'x' } });
  });

  t.test('has no value of an attribute without a known member', async (t) => {
    const attribute = (value: number[]) =>
      lengthDelimited(
        74,
        Buffer.concat([
          lengthDelimited(10, Buffer.from('input.value')),
          lengthDelimited(18, Buffer.from(value)),
        ]),
      );
    t.equal(observed(attribute([0x40, 1])).payloadMask, observed().payloadMask);
    t.not(observed(attribute([24, 1])).payloadMask, observed().payloadMask);
  });
});

t.test('custom fields', async (t) => {
  const fieldsOf = (values: Record<string, unknown>, resource: Record<string, unknown> = {}) => {
    const span = spanOf(0, { attributes: attributesOf(values) });
    const around = { resource: { attributes: attributesOf(resource) } };
    return read(span, around).observation.customFields;
  };

  t.test('may be an object or dotted attributes, and merge by precedence', async (t) => {
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
      'metadata overrides extra.metadata',
    );
  });

  t.test('ignore secret-like, reserved, nested and blank fields', async (t) => {
    t.equal(
      fieldsOf({ custom_fields: { api_key: 'x', nested: { a: 1 }, list: [1], blank: ' ' } }),
      null,
    );
    t.equal(fieldsOf({ custom_fields: {} }), null);
    t.equal(fieldsOf({ 'custom_fields.trace_id': 'x', 'custom_fields.__proto__': 'y' }), null);
    t.equal(({} as { x?: unknown }).x, undefined);
  });

  t.test('reject their span if they are no object', async (t) => {
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

  t.test('of a resource belong to all of its spans', async (t) => {
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

  t.test('may not be spelled otherwise', async (t) => {
    const attributes = attributesOf({ 'custom_fields.team': 1, model: 'm', metadata: '{"a":1}' });
    t.same(otlpCustomFieldRejections(protoIndex(requestOf([spanOf(0, { attributes })]))), []);
  });

  t.test('are found if JSON.parse would confuse their attribute’s field names', async (t) => {
    for (let i = 0; i < 3; i++) JSON.parse('{"odd":1,"key":"custom_fields","valu\\\\":1}');
    const request = JSON.stringify(
      requestOf([spanOf(0, { attributes: attributesOf({ custom_fields: 'text' }) })]),
    ).replace('"key":"custom_fields","value":', '"odd":1,"key":"custom_fields","valu\\u0065":');
    const index = jsonIndex(request);
    t.equal(otlpCustomFieldRejections(index).length, 1);
  });

  t.test('are found if they are escaped in JSON', async (t) => {
    const text = JSON.stringify(
      requestOf([spanOf(0, { attributes: attributesOf({ custom_fields: 1 }) })]),
    );
    const index = jsonIndex(text.replace('custom_fields', '\\u0063ustom_fields'));
    t.equal(otlpCustomFieldRejections(index).length, 1);
  });
});
