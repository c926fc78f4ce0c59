import t from 'tap';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import {
  judged,
  otlpCustomFieldRejections,
  otlpRejections,
} from '../../../../src/model/otlp/rules.ts';
import { attributesOf, requestOf, spanOf } from '../../../helper/otlp-proto.ts';
import { jsonIndex, MiB, protoIndex } from './reading.ts';

/** Bytes of bodies that become text, and of texts that become bytes again, as the rules read and measure them. */
function workOf(index: OtlpIndex, rejected = 0): { read: number; measured: number } {
  const work = { read: 0, measured: 0 };
  const bytes = Buffer.from(index.bytes);
  bytes.toString = (encoding, start, end) => {
    const text = index.bytes.toString(encoding, start, end);
    work.read += text.length;
    return text;
  };
  const { from } = Buffer;
  Buffer.from = ((text: string) => {
    const copy = from(text);
    work.measured += copy.length;
    return copy;
  }) as typeof from;
  try {
    t.equal(otlpRejections({ ...index, bytes }).length, rejected);
  } finally {
    Buffer.from = from;
  }
  return work;
}

t.test('the rules for ids and sizes', async (t) => {
  t.test('reject only spans without valid ids', async (t) => {
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

  t.test('accept exactly 4 MiB of JSON in a field, and no byte more', async (t) => {
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

  t.test('do not count white space of JSON text', async (t) => {
    const input = `[${' '.repeat(5 * MiB)}1]`;
    const index = protoIndex(requestOf([spanOf(0, { attributes: attributesOf({ input }) })]));
    t.same(otlpRejections(index), []);
  });

  t.test('count a large resource for each of its spans', async (t) => {
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

  t.test('count a large scope for each of its spans, exactly', async (t) => {
    const spans = Array.from({ length: 50 }, (_, i) =>
      spanOf(i, { attributes: attributesOf({ r: i, 'scope.s': 'own' }) }),
    );
    const text = (bytes: number) => 'x'.repeat(bytes);
    const request = (bytes: number) =>
      requestOf(spans, {
        resource: { attributes: attributesOf({ r: 'of the resource', 'scope.t': text(99) }) },
        scope: { attributes: attributesOf({ s: text(99), t: text(bytes) }) },
      });
    // Spans 0 to 9 have one digit.
    const rest = Buffer.byteLength(
      JSON.stringify({
        ...{ 'resource.r': 'of the resource', 'scope.t': '', r: 10 },
        ...{ 'scope.s': 'own', 'otel.span.kind': 'INTERNAL' },
      }),
    );
    const rejected = (bytes: number) =>
      [protoIndex, jsonIndex].map((read) =>
        otlpRejections(read(request(bytes))).map(({ index, code }) => [index, code].join()),
      );
    const tooLarge = (from: number) =>
      Array.from({ length: 50 - from }, (_, i) => `${from + i},payload_too_large`);
    t.same(rejected(4 * MiB - rest), [[], []]);
    t.same(rejected(4 * MiB - rest + 1), [tooLarge(10), tooLarge(10)]);
    t.same(rejected(4 * MiB - rest + 2), [tooLarge(0), tooLarge(0)]);
  });

  t.test('read a large scope and resource once for all of their spans', async (t) => {
    const large = (key: string, bytes: number) => {
      return { attributes: attributesOf({ [key]: 'x'.repeat(bytes) }) };
    };
    const spans = Array.from({ length: 500 }, (_, i) =>
      spanOf(i, { traceState: 'x'.repeat(2000) }),
    );
    // With the second size each span is measured too.
    for (const bytes of [MiB, 2 * MiB - 4096]) {
      const request = requestOf(spans, { resource: large('r', bytes), scope: large('s', bytes) });
      for (const index of [protoIndex(request), jsonIndex(request)]) {
        const work = workOf(index);
        t.ok(work.read <= index.bytes.length, 'each part becomes text once');
        t.ok(work.measured <= 1.5 * index.bytes.length, 'each text is measured once');
      }
    }
  });

  t.test('refuse a span by the numbers of its events and links, without reading it', async (t) => {
    const most = (bytes: number) => Math.floor((4 * MiB) / bytes);
    for (const [name, field, parts] of [
      ['events', 'events', most('{"name":""},'.length)],
      ['links', 'metadata', most('{"trace_id":"","span_id":""},'.length)],
    ] as const) {
      const request = requestOf([spanOf(0, { [name]: Array(parts + 1).fill({}) })]);
      for (const index of [protoIndex(request), jsonIndex(request)]) {
        const [{ reason = '' } = {}] = otlpRejections(index);
        t.match(reason, `its ${field} are larger`);
        t.same(workOf(index, 1), { read: 0, measured: 0 });
      }
    }
    const events = Array(most('{"name":""},'.length)).fill({});
    const request = requestOf([spanOf(0, { events })]);
    t.same(otlpRejections(protoIndex(request)), [], 'as many as 4 MiB have are accepted');
  });

  t.test('read no span, scope or resource of a small request', async (t) => {
    const request = requestOf([spanOf(0), spanOf(1)], { scope: { name: 's' } });
    for (const index of [protoIndex(request), jsonIndex(request)]) {
      t.same(workOf(index), { read: 0, measured: 0 });
    }
  });

  t.test('give the same rejections as the verdicts of a scan', async (t) => {
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

  t.test('have reasons without values', async (t) => {
    const secret = 'SECRETVALUE';
    const attributes = attributesOf({ custom_fields: secret, [secret]: secret });
    const index = jsonIndex(requestOf([spanOf(0, { traceId: secret, attributes })]));
    const all = [...otlpRejections(index), ...otlpCustomFieldRejections(index)];
    t.equal(all.length, 2);
    t.notMatch(JSON.stringify(all), secret);
  });
});
