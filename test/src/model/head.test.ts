import t from 'tap';
import type { BatchIndex } from '../../../src/model/batch-index.ts';
import type { FormatModule } from '../../../src/model/format-module.ts';
import { native } from '../../../src/model/native/format.ts';
import { otlpJson, otlpProto } from '../../../src/model/otlp/format.ts';
import { runs } from '../../../src/model/runs/format.ts';
import { nativeEvent } from '../../helper/batches.ts';
import { attributesOf, encodeRequest, requestOf, spanOf } from '../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 1000 };

/** The facts of the item at position 0, and whether they are those of its observation. */
function headOf<Index extends BatchIndex>(format: FormatModule<Index>, body: string | Buffer) {
  const index = format.scan(Buffer.from(body), LIMITS);
  return { head: format.head(index, 0), observe: () => format.observe(index, 0, 0) };
}

t.test('the head of an item has the facts of its observation', async (t) => {
  const span = spanOf(0, {
    parentSpanId: 'aa00000000000000',
    attributes: attributesOf({ 'gen_ai.operation.name': 'chat' }),
    status: { code: 1 },
  });
  const request = requestOf([span], { scope: { name: 'a scope' } });
  const run = {
    id: 'r',
    run_type: 'tool',
    name: 'n',
    trace_id: 't',
    parent_run_id: 'p',
    error: 'x',
  };
  const found = [
    headOf(native, JSON.stringify({ events: [nativeEvent({ parent_id: 'p' })] })),
    headOf(runs, JSON.stringify({ post: [run] })),
    headOf(runs, JSON.stringify({ patch: [{ id: 'r', end_time: '2026-01-01T00:00:00Z' }] })),
    headOf(runs, JSON.stringify({ post: [{ id: 'r' }] })),
    headOf(otlpProto, encodeRequest(request)),
    headOf(otlpJson, JSON.stringify(request)),
  ];
  for (const { head, observe } of found) {
    const { id, traceId, parentId, name, kind, status } = observe();
    t.match(head, { id, traceId, parentId, name, kind, status });
  }
  t.same(
    found.map(({ head }) => head.scope),
    [null, null, null, null, 'a scope', 'a scope'],
  );
});

t.test('the head of an item that no observation can be made of has nulls', async (t) => {
  const span = { name: 'n', traceId: '', spanId: '' };
  const request = requestOf([span]);
  const nothing = { id: undefined, traceId: null, parentId: null, scope: null };
  t.match(headOf(native, '{"events":[5]}').head, { ...nothing, name: null, status: null });
  t.match(headOf(runs, '{"post":[{}]}').head, { ...nothing, name: null, kind: null });
  t.match(headOf(otlpProto, encodeRequest(request)).head, { ...nothing, name: 'n', kind: 'span' });
  t.match(headOf(otlpJson, JSON.stringify(request)).head, { ...nothing, name: 'n', kind: 'span' });
});

t.test('an attribute of a head', async (t) => {
  t.test(
    'of a span is that of the span, else that of its resource, in both encodings',
    async (t) => {
      const request = requestOf(
        [
          spanOf(0, {
            attributes: [
              ...attributesOf({ text: 'a', number: 5n, list: ['x', 1], empty: '', both: 'span' }),
              ...attributesOf({ nothing: null, twice: 'first' }),
              ...attributesOf({ twice: 'last' }),
            ],
          }),
        ],
        { resource: { attributes: attributesOf({ both: 'resource', host: 'h', nothing: 'r' }) } },
      );
      for (const { head } of [
        headOf(otlpProto, encodeRequest(request)),
        headOf(otlpJson, JSON.stringify(request)),
      ]) {
        const keys = [
          'text',
          'number',
          'list',
          'empty',
          'both',
          'host',
          'nothing',
          'twice',
          'other',
        ];
        t.same(
          keys.map((key) => head.attribute(key)),
          ['a', '5', '["x",1]', '', 'span', 'h', 'r', 'last', undefined],
        );
      }
    },
  );

  t.test('of a native event or run is a member of its effective metadata', async (t) => {
    const metadata = { text: 'é"', number: 1.5, list: ['x'], nothing: null, 'a.b': true };
    for (const { head } of [
      headOf(native, JSON.stringify({ events: [{ metadata, extra: { metadata: { x: 1 } } }] })),
      headOf(runs, JSON.stringify({ post: [{ extra: { metadata } }] })),
    ]) {
      const keys = ['text', 'number', 'list', 'nothing', 'a.b', 'x', '__proto__'];
      t.same(
        keys.map((key) => head.attribute(key)),
        ['é"', '1.5', '["x"]', undefined, 'true', undefined, undefined],
      );
    }
    const { head } = headOf(native, '{"events":[{"metadata":{"a":"first","\\u0061":"last"}}]}');
    t.equal(head.attribute('a'), 'last', 'a repeated key has its last value');
  });
});
