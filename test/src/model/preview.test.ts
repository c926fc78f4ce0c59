import fc from 'fast-check';
import t from 'tap';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { observe, payload } from '../../../src/model/formats.ts';
import { PREVIEW_CHARACTERS, previewOf } from '../../../src/model/preview.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch } from '../../helper/batches.ts';

t.test('the preview of a text is its beginning, of any other value its JSON', async (t) => {
  for (const [json, preview] of [
    [undefined, undefined],
    ['null', undefined],
    ['""', undefined],
    ['"  \\n "', undefined],
    ['"hello"', 'hello'],
    ['"say \\"hi\\" \\\\"', 'say "hi" \\'],
    ['"a\\n\\n  b\\u00e9"', 'a bé'],
    ['0', '0'],
    ['false', 'false'],
    ['{ "a" : [1,\n 2] }', '{ "a" : [1, 2] }'],
  ] as const) {
    t.equal(previewOf(json), preview, String(json));
  }
});

t.test(`a preview has at most ${PREVIEW_CHARACTERS} characters, and whole ones`, async (t) => {
  const long = 'x'.repeat(PREVIEW_CHARACTERS);
  t.equal(previewOf(JSON.stringify(long)), long);
  t.equal(previewOf(JSON.stringify(`${long}y`)), long);
  t.equal(previewOf(`[${long}]`), `[${long.slice(1)}`);
  const face = '\u{1f600}';
  t.equal(previewOf(JSON.stringify(`${long.slice(1)}${face}`)), long.slice(1));
  t.equal(previewOf(JSON.stringify(`${long.slice(2)}${face}`)), `${long.slice(2)}${face}`);
});

t.test('a preview has as many characters, however much white space is between them', async (t) => {
  for (const gap of [1, 2, 5, 6, 20, 55]) {
    const text = `a${' '.repeat(gap)}`.repeat(PREVIEW_CHARACTERS);
    const preview = 'a '.repeat(PREVIEW_CHARACTERS / 2);
    t.equal(previewOf(JSON.stringify(text)), preview, `${gap}`);
    t.equal(previewOf(`[${text}]`), `[${preview.slice(0, -1)}`, `JSON, ${gap}`);
  }
});

t.test('a text that is cut within an escape has the characters before it', async (t) => {
  const property = fc.property(
    fc.string({ unit: 'grapheme', minLength: 0, maxLength: 20 }),
    fc.constantFrom('\\u0041', '\\\\', '\\"', '\\n', 'a'),
    (prefix, unit) => {
      const json = `"${JSON.stringify(prefix).slice(1, -1)}${unit.repeat(12_100)}"`;
      const whole = (JSON.parse(json) as string).replaceAll(/\s+/g, ' ').trim();
      const preview = previewOf(json) ?? '';
      t.ok(whole.startsWith(preview));
      t.ok(preview.length >= PREVIEW_CHARACTERS - 1 || preview === whole);
    },
  );
  fc.assert(property, { numRuns: 100 });
});

t.test('observations without a parent have previews, in every format', async (t) => {
  const events = [
    nativeEvent({ id: 'root', inputs: { q: 'what?' }, outputs: 'this' }),
    nativeEvent({ id: 'child', parent_id: 'root' }),
    nativeEvent({ id: 'bare', inputs: null, outputs: undefined }),
  ];
  const previewsOf = (batch: SealedBatch) =>
    observe(batch).map(({ details }) => [details?.inputPreview, details?.outputPreview]);
  t.same(previewsOf(nativeBatch(events)), [
    ['{"q":"what?"}', 'this'],
    [undefined, undefined],
    [undefined, undefined],
  ]);
  const spans = [
    {
      spanId: '0000000000000001',
      attributes: { 'input.value': 'what?', 'output.value': '{"a":1}' },
    },
    {
      spanId: '0000000000000002',
      parentSpanId: '0000000000000001',
      attributes: { 'input.value': 'x' },
    },
  ];
  for (const format of ['otlp_proto', 'otlp_json'] as const) {
    t.same(previewsOf(otlpBatch(spans, { format })), [
      ['what?', '{"a":1}'],
      [undefined, undefined],
    ]);
  }
  const run = {
    id: 'r',
    trace_id: 'r',
    name: 'n',
    run_type: 'llm',
    start_time: 1,
    inputs: { a: 1 },
  };
  const runs = rawBatch('runs', Buffer.from(JSON.stringify({ post: [run], patch: [] })), 1);
  t.same(previewsOf(runs), [['{"a":1}', undefined]]);
});

t.test('the preview of a span is that of its payload', async (t) => {
  const text = fc.oneof(
    fc.constantFrom(
      'null',
      ' null',
      '"',
      '"text"',
      '"cut',
      '{"a":1}',
      ' [1, "\\u00e9"]',
      '{"a"',
      '7',
    ),
    fc.constantFrom(
      'user: hi',
      '{"m":["ChatMessage(role=user)"]}',
      ' \n\t ',
      '\u{feff}x',
      'a\u0000',
    ),
    fc.constantFrom('{"type":"text","value":"v"}', `${'\n'.repeat(150)}late`, 'x\n'.repeat(900)),
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc
      .tuple(fc.constantFrom('é', '€', '\u{1f600}', '{"a":"', ' '), fc.nat(13_000))
      .map(([unit, n]) => unit.repeat(n)),
  );
  const value = fc.oneof({ arbitrary: text, weight: 8 }, fc.constant(''));
  const keys = [
    ...[
      'input.value',
      'output.value',
      'input.mime_type',
      'output.mime_type',
      'gcp.vertex.agent.llm_response',
    ],
    ...[
      'llm.input_messages.0.message.role',
      'llm.input_messages.0.message.content',
      'final_result',
    ],
    ...['gen_ai.input.messages', 'gen_ai.output.messages', 'gen_ai.system_instructions'],
    ...[
      'ai.response.text',
      'ai.response.toolCalls',
      'langfuse.observation.input',
      'mlflow.spanOutputs',
    ],
    ...['langwatch.input', 'langwatch.output', 'lmnr.span.input', 'genkit:input', 'gen_ai.prompt'],
    ...['logfire.json_schema', 'mastra.agent_run.input', 'tool_response', 'braintrust.input_json'],
  ];
  const attributes = fc.dictionary(fc.constantFrom(...keys), value, { maxKeys: 6 });
  const property = fc.property(attributes, (attributes) => {
    for (const format of ['otlp_proto', 'otlp_json'] as const) {
      const batch = otlpBatch([{ attributes }], { format });
      const { details } = observe(batch)[0] ?? {};
      const { inputs, outputs } = payload(batch, 0);
      t.equal(details?.inputPreview, previewOf(inputs));
      t.equal(details?.outputPreview, previewOf(outputs));
    }
  });
  const typed = { 'langwatch.input': '{"type":"text","value":"v"}' };
  fc.assert(property, { numRuns: 400, examples: [[typed]] });
});

t.test('a preview keeps custom fields that are parsed on demand', async (t) => {
  const custom_fields = { text: 'x'.repeat(100_000) };
  const [one] = observe(nativeBatch([nativeEvent({ inputs: 'hi', custom_fields })]));
  t.equal(one?.details?.inputPreview, 'hi');
  t.equal(one?.customFields?.text?.length, 100_000);
});
