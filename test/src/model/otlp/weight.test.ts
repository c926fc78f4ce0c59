import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import {
  OTLP_STRIDE,
  OtlpField,
  RESOURCE_STRIDE,
  ResourceField,
  SCOPE_STRIDE,
  ScopeField,
} from '../../../../src/model/otlp/fields.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import { otlpCustomFieldRejections, otlpRejections } from '../../../../src/model/otlp/rules.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../../../helper/otlp-proto.ts';
import { requestForm } from './forms.ts';
import { jsonIndex, LIMITS, MiB, protoIndex, read } from './reading.ts';

const KEYS = 32_768;
const SHARED_KEYS = 8_192;
const VALUES_OF_A_KEY = 8;
/** Fields of a message that may repeat without effect. */
const FREE_FIELDS = 24;

const keys = (count: number) => Array(count).fill({ key: 'a' });
const kvlist = (values: object[]) => ({ key: 'a', value: { kvlistValue: { values } } });
const array = (count: number, value: object) => ({
  key: 'a',
  value: { arrayValue: { values: Array(count).fill(value) } },
});

t.test('a span has at most 32,768 keys at any depth, and others are not read', async (t) => {
  const shapes: readonly (readonly [string, (count: number) => object])[] = [
    ['attributes', (count) => ({ attributes: keys(count) })],
    ['a kvlist', (count) => ({ attributes: [kvlist(keys(count - 1))] })],
    ['a kvlist in a kvlist', (count) => ({ attributes: [kvlist([kvlist(keys(count - 2))])] })],
    ['an event', (count) => ({ events: [{ attributes: keys(count) }] })],
    ['a link', (count) => ({ links: [{ attributes: keys(count) }] })],
    ['all', (count) => ({ attributes: keys(count - 9), links: [{ attributes: keys(9) }] })],
  ];
  for (const [shape, fields] of shapes) {
    for (const indexOf of [protoIndex, jsonIndex]) {
      const rejected = (count: number) =>
        otlpRejections(indexOf(requestOf([spanOf(0, fields(count)), spanOf(1)])));
      t.same(rejected(KEYS), [], shape);
      t.match(rejected(KEYS + 1), [
        { index: 0, code: 'payload_too_large', reason: /spans\[0\] has more than 32768 keys/ },
      ]);
    }
  }
});

t.test('eight values of arrays count as a key', async (t) => {
  const most = VALUES_OF_A_KEY * (KEYS - 1);
  for (const indexOf of [protoIndex, jsonIndex]) {
    // The scan of JSON has a path of its own for arrays of texts.
    for (const value of [{}, { stringValue: 'a' }, { doubleValue: 0.5 }]) {
      const rejected = (count: number) =>
        otlpRejections(indexOf(requestOf([spanOf(0, { attributes: [array(count, value)] })])));
      t.same(rejected(most), [], JSON.stringify(value));
      t.match(rejected(most + 1), [{ code: 'payload_too_large', reason: /more than 32768 keys/ }]);
    }
  }
});

t.test('both encodings count alike', async () => {
  fc.assert(
    fc.property(requestForm, (request) => {
      const [ofProto, ofJson] = [protoIndex(request), jsonIndex(request)].map(weightsOf);
      assert.deepEqual(ofJson, ofProto);
    }),
  );
});

/** The weights of all spans, resources and scopes of an index. */
function weightsOf({ count, spans, resources, scopes }: OtlpIndex): number[][] {
  const every = (record: Uint32Array, stride: number, field: number) =>
    [...record].filter((_, place) => place % stride === field);
  return [
    every(spans.subarray(0, count * OTLP_STRIDE), OTLP_STRIDE, OtlpField.WEIGHT),
    every(resources, RESOURCE_STRIDE, ResourceField.WEIGHT),
    every(scopes, SCOPE_STRIDE, ScopeField.WEIGHT),
  ];
}

t.test('a resource and a scope have at most 8,192 keys', async (t) => {
  for (const part of ['resource', 'scope'] as const) {
    for (const indexOf of [protoIndex, jsonIndex]) {
      const index = (count: number) =>
        indexOf(requestOf([spanOf(0), spanOf(1)], { [part]: { attributes: keys(count) } }));
      t.same(otlpRejections(index(SHARED_KEYS)), [], part);
      const reason = new RegExp(`${part} has more than 8192 keys`);
      const all = [0, 1].map((position) => ({
        index: position,
        code: 'payload_too_large',
        reason,
      }));
      t.match(otlpRejections(index(SHARED_KEYS + 1)), all, part);
      t.match(otlpCustomFieldRejections(index(SHARED_KEYS + 1)), all, part);
    }
  }
});

t.test('a field that a message repeats although it has one of it counts as a value', async (t) => {
  const most = VALUES_OF_A_KEY * KEYS + FREE_FIELDS;
  // Its name, kind and two times.
  const ofSpan = 4;
  for (const [name, field, others] of [
    ['name', [0x2a, 0], ofSpan],
    ['status', [0x7a, 0], ofSpan],
  ] as const) {
    const rejected = (count: number) => {
      const repeated = Buffer.alloc(field.length * count, Buffer.from(field));
      return otlpRejections(otlpProto.scan(withFields(repeated), LIMITS));
    };
    t.same(rejected(most - others), [], name);
    t.match(rejected(most - others + 1), [{ code: 'payload_too_large' }], name);
  }
  const rejected = (members: string[]) => {
    const span = JSON.stringify(spanOf(0)).replace(
      '{',
      `{${members.map((each) => `${each},`).join('')}`,
    );
    const body = `{"resourceSpans":[{"scopeSpans":[{"spans":[${span}]}]}]}`;
    return otlpRejections(otlpJson.scan(Buffer.from(body), LIMITS));
  };
  const names = (count: number) => Array<string>(count).fill('"name":"a"');
  const own = Object.keys(spanOf(0)).length;
  t.same(rejected(names(most - own)), []);
  t.match(rejected(names(most - own + 1)), [{ code: 'payload_too_large' }]);
  t.same(rejected([`"x":[${'[],'.repeat(1_000_000)}[]]`]), [], 'an unknown member of 3 MB');
  t.match(rejected([`"x":[${'[],'.repeat(1_500_000)}[]]`]), [{ code: 'payload_too_large' }]);
});

t.test('large spans of a request have at most 327,680 keys together', async (t) => {
  const full = 10;
  // Longer than the limit of a field if each byte becomes six in JSON, and shorter in fact.
  const large = { key: 'large', value: { stringValue: 'x'.repeat(2_000_000) } };
  const spans = Array.from({ length: full }, (_, i) =>
    spanOf(i, { attributes: [large, ...keys(KEYS - 1)] }),
  );
  const rejected = (...more: object[]) =>
    otlpRejections(
      protoIndex(requestOf([...spans, ...more.map((fields, i) => spanOf(full + i, fields))])),
    );
  t.same(rejected(), []);
  t.same(rejected({ attributes: [] }, {}), [], 'small spans are not measured');
  const one = { attributes: [large] };
  t.same(rejected(one, {}), [], 'the weight of the spans before is at the limit');
  t.match(rejected(one, one), [
    {
      index: full + 1,
      code: 'payload_too_large',
      reason: /large spans of the request have more than 327680 keys/,
    },
  ]);
});

t.test('a full body of embeddings passes', async (t) => {
  const vectors = { arrayValue: { values: Array(100_000).fill({ doubleValue: 0.5 }) } };
  const attributes = [{ key: 'embedding.embeddings.0.embedding.vector', value: vectors }];
  // Requests behind one another are one request.
  const body = Buffer.concat(Array(23).fill(encodeRequest(requestOf([spanOf(0, { attributes })]))));
  t.ok(body.length > 24 * MiB);
  t.same(otlpRejections(otlpProto.scan(body, LIMITS)), []);
});

t.test('a span with more keys has no facts but its ids', async (t) => {
  for (const [module, index] of [
    [otlpProto, protoIndex(requestOf([spanOf(0, { attributes: keys(KEYS + 1) })]))],
    [otlpJson, jsonIndex(requestOf([spanOf(0, { attributes: keys(KEYS + 1) })]))],
  ] as const) {
    const head = module.head(index, 0);
    t.equal(head.traceId, head.id?.slice(0, 32));
    t.same([head.parentId, head.name, head.kind, head.status, head.scope], Array(5).fill(null));
    t.equal(head.attribute('a'), undefined);
  }
});

t.test(
  'the first 256 members of an object in a long JSON text count, and repetitions of their names',
  async (t) => {
    const observed = (text: string) => {
      const key = 'langsmith.usage_metadata';
      const attributes = [{ key, value: { stringValue: text } }];
      return read(spanOf(0, { attributes })).observation.usage;
    };
    const names = (count: number) => Array.from({ length: count }, (_, i) => `"n${i}":[1]`).join();
    const first =
      '"input_tokens":1,"input_token_details":{"cache_read":1,"cache_read":4,"x":{}},"total_cost":null';
    const counts = { cached_tokens: 4, input_tokens: 9, output_tokens: 2, total_tokens: 11 };
    t.same(observed(` {${first},${names(252)},"output_tokens":2,"input_tokens":9}`), counts);
    const { output_tokens: _, ...rest } = counts;
    t.same(observed(`{${first},${names(253)},"output_tokens":2,"input_tokens":9}`), {
      ...rest,
      total_tokens: 9,
    });
    t.equal(observed(`{${first},${names(252)}`), null);
    t.equal(observed(`[{${first}},${'1,'.repeat(300)}1]`), null);
  },
);

t.test('the first 256 members of the usage in the outputs of a call count', async (t) => {
  const names = (count: number) => Array.from({ length: count }, (_, i) => `"n${i}":[1]`).join();
  for (const [key, place] of [
    ['gcp.vertex.agent.llm_response', '"x":{"usage_metadata":1},"usage_metadata"'],
    ['genkit:output', '"usage":5,"\\u0075sage"'],
  ] as const) {
    const usageOf = (text: string) => {
      const attributes = attributesOf({ 'gen_ai.operation.name': 'chat', [key]: text });
      return read(spanOf(0, { attributes })).observation.usage;
    };
    const many = (count: number) =>
      usageOf(` {${names(300)},${place}:{"input":7,${names(count)},"output":2}}`);
    t.same(many(254), { input_tokens: 7, output_tokens: 2, total_tokens: 9 }, key);
    t.same(many(255), { input_tokens: 7, total_tokens: 7 }, key);
    t.equal(usageOf(`{${place}:{"input":7}`), null);
    const list = { stringValue: `{${names(300)},${place}:{"input_token_details":[1]}}` };
    const attributes = [...attributesOf({ 'gen_ai.operation.name': 'chat' }), { key, value: list }];
    t.match(read(spanOf(0, { attributes })).observation.details?.ignored, [
      { path: `attributes.${key}.input_token_details` },
    ]);
  }
});

t.test('a JSON text above 1 MiB gives no counts and no tags', async (t) => {
  const observed = (key: string, text: string) => {
    const attributes = [{ key, value: { stringValue: text } }];
    return read(spanOf(0, { attributes })).observation;
  };
  const most = 1_048_576;
  const counts = (length: number) => `{"input":7${' '.repeat(length - 11)}}`;
  t.same(
    observed('langfuse.observation.usage_details', counts(most)).usage,
    observed('langfuse.observation.usage_details', '{"input":7}').usage,
  );
  t.equal(observed('langfuse.observation.usage_details', counts(most + 1)).usage, null);
  const tags = (length: number) => `["a"${' '.repeat(length - 5)}]`;
  t.same(observed('langfuse.trace.tags', tags(most)).details?.tags, ['a']);
  t.equal(observed('langfuse.trace.tags', tags(most + 1)).details?.tags, undefined);
  const ofCall = (length: number) => {
    const output = `{"usage":{"inputTokens":7${' '.repeat(length - 27)}}}`;
    const attributes = attributesOf({
      'genkit:metadata:subtype': 'model',
      'genkit:output': output,
    });
    return read(spanOf(0, { attributes })).observation.usage;
  };
  t.same(ofCall(most), { input_tokens: 7, total_tokens: 7 });
  t.equal(ofCall(most + 1), null);
});

/** A request with one span that has these fields, too. */
function withFields(fields: Buffer): Buffer {
  const body = encodeRequest(requestOf([spanOf(0)]));
  const { spans } = otlpProto.scan(body, LIMITS);
  const content = Buffer.concat([body.subarray(spans[0], spans[1]), fields]);
  return message(1, message(2, message(2, content)));
}

function message(field: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([8 * field + 2]), varint(content.length), content]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let rest = value; ; rest = Math.floor(rest / 128)) {
    bytes.push(rest > 127 ? (rest & 127) | 128 : rest);
    if (rest <= 127) return Buffer.from(bytes);
  }
}
