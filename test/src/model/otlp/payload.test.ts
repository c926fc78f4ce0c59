import t from 'tap';
import { PAYLOAD_FIELDS } from '../../../../src/model/observation.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../../../helper/otlp-proto.ts';
import { jsonIndex, LIMITS, read, withAttributes } from './reading.ts';

t.test('payloads', async (t) => {
  t.test('have the inputs and outputs of the attribute with the highest precedence', async (t) => {
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

  t.test('have JSON text unchanged, and other text as a string', async (t) => {
    const json = '{ "b": 1.50,\n "a": [1e3, 12345678901234567890] }';
    const { text } = withAttributes({ input: json, output: '{not json' });
    t.equal(text.inputs, json);
    t.equal(text.outputs, '"{not json"');
    for (const other of ['"quoted"', '17', 'null', '', '[1', '{}x']) {
      t.not(withAttributes({ input: other, output: 'o' }).text.inputs, other);
    }
    const deep = '['.repeat(5000) + ']'.repeat(5000);
    t.equal(withAttributes({ input: deep }).payload.inputs, deep, 'too deep to count as JSON');
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

  t.test('keep integers of every length in bytes', async (t) => {
    const values = [0n, 127n, 128n, 2n ** 49n - 1n, 2n ** 49n, 2n ** 53n + 1n, -1n, -128n];
    const attributes = Object.fromEntries(values.map((value, i) => [`n${i}`, value]));
    const { text } = withAttributes(attributes);
    for (const [i, value] of values.entries()) t.match(text.metadata, `"n${i}":${value},`);
  });

  t.test(
    'have the attributes of a shared resource under other keys in one span only',
    async (t) => {
      const own = spanOf(0, { attributes: attributesOf({ 'host.name': 'own' }) });
      const request = requestOf([own, spanOf(1)], {
        resource: { attributes: attributesOf({ 'host.name': 'shared' }) },
        scope: { name: 'scope', version: '1' },
      });
      const index = otlpProto.scan(encodeRequest(request), LIMITS);
      const scope = '"scope.name":"scope","scope.version":"1"';
      t.same(
        [0, 1, 0].map((at) => otlpProto.payload(index, at, ['metadata']).metadata),
        [
          `{"resource.host.name":"shared",${scope},"host.name":"own","otel.span.kind":"INTERNAL"}`,
          `{"host.name":"shared",${scope},"otel.span.kind":"INTERNAL"}`,
          `{"resource.host.name":"shared",${scope},"host.name":"own","otel.span.kind":"INTERNAL"}`,
        ],
      );
    },
  );

  t.test('keep the digits of integers in JSON, quoted or not', async (t) => {
    const attributes =
      '[{"key":"n","value":{"intValue":9007199254740993}},{"key":"s","value":{"intValue":"9007199254740993"}}]';
    const span = JSON.stringify(spanOf(0)).replace('}', `,"attributes":${attributes}}`);
    const index = jsonIndex(`{"resourceSpans":[{"scopeSpans":[{"spans":[${span}]}]}]}`);
    const { metadata } = otlpJson.payload(index, 0, ['metadata']);
    t.match(metadata, '"n":9007199254740993,"s":9007199254740993');
  });

  t.test('keep the digits of integers in JSON wherever they are', async (t) => {
    for (let place = 0; place < 33; place++) {
      for (const digits of ['9007199254740993', '-9007199254740993', '9223372036854775807']) {
        const attributes = `[{"key":"${'k'.repeat(place)}","value":{"intValue": ${digits}}}]`;
        const span = JSON.stringify(spanOf(0)).replace('}', `,"attributes":${attributes}}`);
        const index = jsonIndex(`{"resourceSpans":[{"scopeSpans":[{"spans":[${span}]}]}]}`);
        const { metadata } = otlpJson.payload(index, 0, ['metadata']);
        t.match(metadata, `":${digits}`, `${digits} at ${place}`);
      }
    }
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

  t.test('have flat metadata of all other attributes and fields', async (t) => {
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

  t.test('cannot change a prototype', async (t) => {
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

  t.test('join numbered message attributes to lists', async (t) => {
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

  t.test('keep every value of odd message attributes', async (t) => {
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

  t.test('have inputs and outputs of events if no attribute has them', async (t) => {
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

  t.test('have system instructions in front of the messages', async (t) => {
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

  t.test('have a whole message in one attribute of an event', async (t) => {
    const messageOf = (name: string, content: unknown, more: object = {}) => {
      const attributes = { 'gen_ai.system': 'az.ai.inference', 'gen_ai.event.content': content };
      const event = { name, attributes: attributesOf({ ...attributes, ...more }) };
      const { inputs, outputs } = read(spanOf(0, { events: [event] })).payload;
      return inputs ?? outputs;
    };
    const said = { role: 'user', content: 'hi' };
    t.same(messageOf('gen_ai.user.message', JSON.stringify(said)), [said]);
    t.same(messageOf('gen_ai.user.message', ' {"content":"hi"}', { id: 'm1' }), [
      { ...said, id: 'm1' },
    ]);
    t.same(messageOf('gen_ai.user.message', 'hi'), [said]);
    t.same(messageOf('gen_ai.user.message', '{ }'), [{ role: 'user' }]);
    const choice = { message: { content: 'yo' }, finish_reason: 'stop', index: 0 };
    t.same(messageOf('gen_ai.choice', JSON.stringify(choice)), [choice]);
  });

  t.test('have the system instructions of an event in front of its messages', async (t) => {
    const messages = [{ role: 'user', parts: [{ type: 'text', content: 'hi' }] }];
    const instructions = [{ type: 'text', content: 'be brief' }];
    const event = (values: Record<string, unknown>) => ({
      name: 'gen_ai.client.inference.operation.details',
      attributes: attributesOf(values),
    });
    const expected = [{ role: 'system', parts: instructions }, ...messages];
    const inputs = { 'gen_ai.input.messages': JSON.stringify(messages) };
    const system = { 'gen_ai.system_instructions': JSON.stringify(instructions) };
    for (const events of [
      [event({ ...inputs, ...system })],
      [event(system), event(inputs)],
      [event(inputs), event({ 'gen_ai.system_instructions': 'be brief' })],
    ]) {
      t.same(read(spanOf(0, { events })).payload.inputs, expected);
    }
    const noList = event({ 'gen_ai.input.messages': 'hi', ...system });
    t.equal(read(spanOf(0, { events: [noList] })).payload.inputs, 'hi');
  });

  t.test('have the text and tool calls of a model as one message', async (t) => {
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

  t.test('keep an object of token counts in the metadata', async (t) => {
    const details = { input: 1, output: 2, input_audio: 3 };
    const text = JSON.stringify(details);
    const seen = withAttributes({ 'langfuse.observation.usage_details': text });
    t.match(seen.observation.usage, { input_tokens: 4, output_tokens: 2, input_audio_tokens: 3 });
    t.match(seen.payload.metadata, { 'langfuse.observation.usage_details': details });
  });

  t.test('have context metadata', async (t) => {
    const { payload } = withAttributes({ context_metadata: { env: 'prod' } });
    t.same(payload.context_metadata, { env: 'prod' });
    t.same(payload.metadata, { 'otel.span.kind': 'INTERNAL' });
  });
});

t.test('a null key or value in JSON is an absent one', async (t) => {
  const unnamed = { key: null, value: { stringValue: '{"a":1}' } };
  const attributes = [
    ...[unnamed, { key: 'input', value: null }, { key: 'm', value: null }],
    { key: 'metadata', value: { kvlistValue: { values: [unnamed, { key: 'v', value: null }] } } },
    { key: 'llm.input_messages.0.message.content', value: { stringValue: 'hi' } },
  ];
  const span = spanOf(0, {
    attributes,
    events: [{ name: 'exception', attributes }],
    links: [{ traceId: '01'.repeat(16), spanId: '02'.repeat(8), attributes }],
  });
  const around = { resource: { attributes }, scope: { name: 's', attributes } };
  const text = JSON.stringify(requestOf([span], around));
  const absent = text.replaceAll('"key":null,', '').replaceAll(',"value":null', '');
  const [found, wanted] = [text, absent].map((each) => {
    const index = jsonIndex(each);
    const payload = otlpJson.payload(index, 0, PAYLOAD_FIELDS);
    for (const json of Object.values(payload)) JSON.parse(json);
    return { payload, observation: otlpJson.observe(index, 0, 0) };
  });
  t.match(wanted?.payload.metadata, '"":');
  t.same(found, wanted);
});
