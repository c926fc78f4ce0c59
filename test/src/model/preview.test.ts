import fc from 'fast-check';
import t from 'tap';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
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

t.test('a preview keeps custom fields that are parsed on demand', async (t) => {
  const custom_fields = { text: 'x'.repeat(100_000) };
  const [one] = observe(nativeBatch([nativeEvent({ inputs: 'hi', custom_fields })]));
  t.equal(one?.details?.inputPreview, 'hi');
  t.equal(one?.customFields?.text?.length, 100_000);
});
