import fc from 'fast-check';
import t from 'tap';
import { Refusal } from '../../../../src/model/errors.ts';
import { otlpJson, otlpProto } from '../../../../src/model/otlp/format.ts';
import {
  attributesOf,
  decodeRequest,
  encodeRequest,
  requestOf,
  spanOf,
} from '../../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 1000 };

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
  return 'accepted';
}

const scanProto = (bytes: Buffer) => otlpProto.scan(bytes, LIMITS);
const scanJson = (text: string | Buffer) => otlpJson.scan(Buffer.from(text), LIMITS);
const hex = (text: string) => Buffer.from(text, 'hex');

const everything = encodeRequest(
  requestOf(
    [
      spanOf(0, {
        traceState: 'a=b',
        flags: 257,
        attributes: attributesOf({
          input: 'hello',
          number: 5,
          big: 2n ** 60n,
          double: 1.5,
          yes: true,
          list: ['a', 1, { x: [true] }],
          map: { a: { b: ['c'] } },
          bytes: Buffer.from('hi'),
          nothing: null,
        }),
        events: [
          { name: 'exception', timeUnixNano: '5', attributes: attributesOf({ message: 'x' }) },
        ],
        links: [{ traceId: '01', spanId: '02', attributes: attributesOf({ q: 1 }) }],
        status: { code: 2, message: 'bad' },
      }),
      spanOf(1),
    ],
    {
      resource: { attributes: attributesOf({ 'service.name': 'x' }) },
      scope: { name: 's', version: '1', attributes: attributesOf({ z: 1 }) },
    },
  ),
);

t.test('the wire scan', async (t) => {
  t.test(
    'agrees with protobufjs on mutated requests: invalid or valid, and the number of spans',
    async (t) => {
      const mutation = fc.tuple(
        fc.constantFrom('set', 'insert', 'remove', 'truncate'),
        fc.nat(everything.length - 1),
        fc.nat(255),
      );
      let accepted = 0;
      fc.assert(
        fc.property(fc.array(mutation, { minLength: 1, maxLength: 3 }), (mutations) => {
          const bytes = mutations.reduce(mutate, everything);
          const expected = spansByProtobufjs(bytes);
          if (expected === 'not comparable') return;
          const found = spansFound(bytes);
          if (found !== 'broken') accepted++;
          if (found !== expected) throw new Error(`found ${found}, expected ${expected}`);
        }),
        { numRuns: 4000 },
      );
      t.ok(accepted > 50, 'enough mutated requests are valid for the comparison');
    },
  );

  t.test('reads two joined requests as one, and an empty body as none', async (t) => {
    t.equal(scanProto(Buffer.concat([everything, everything])).count, 4);
    t.equal(scanProto(Buffer.alloc(0)).count, 0);
  });

  t.test(
    'refuses lengths past the end, long varints, invalid groups and field number zero',
    async (t) => {
      const broken = {
        'length past the end': '0a7f41',
        'negative length': '0affffffffffffffffff01',
        'varint of twelve bytes': '0affffffffffffffffffffff01',
        'varint of eleven bytes as value': '78ffffffffffffffffffff01',
        'varint cut off': '0aff',
        'a group that does not end': '0b',
        'a group that ends as another': '0b14',
        'a group across the end of its message': '0a010b0c',
        'the end of no group': '0c',
        'field number zero in a group': '0b00000c',
        'a group with field number zero': '0304',
        'a group in a group that ends as another': '0b130c14',
        'wire type 6': '0e00',
        'wire type 7': '0f00',
        'field number zero': '0000',
        'field number above 2^29': 'ffffffffff7f00',
        'fixed64 cut off': '0900000000',
        'fixed32 cut off': '0d0000',
      };
      for (const [name, bytes] of Object.entries(broken)) {
        t.equal(
          codeOf(() => scanProto(hex(bytes))),
          'invalid_request',
          name,
        );
      }
      t.equal(
        codeOf(() => scanProto(hex('0b'.repeat(100_000)))),
        'invalid_request',
        'many groups',
      );
    },
  );

  t.test('skips unknown fields, and known fields of a wrong wire type', async (t) => {
    const unknown = hex('7a0141f80701ad0600000000a10600000000000000000801');
    t.equal(scanProto(Buffer.concat([unknown, everything, unknown])).count, 2);
  });

  t.test('skips groups, up to 100 nested ones', async (t) => {
    const groups = (depth: number) => hex('7b'.repeat(depth) + '7c'.repeat(depth));
    for (const group of ['7b7c', '7b08017c', '7b7b0a0141107f7c0d00000000097f000000000000007c']) {
      t.equal(scanProto(Buffer.concat([hex(group), everything, hex(group)])).count, 2, group);
    }
    t.equal(scanProto(Buffer.concat([groups(100), everything])).count, 2);
    t.equal(
      codeOf(() => scanProto(groups(101))),
      'invalid_request',
    );
  });

  t.test('accepts 100 nested arrays and kvlists and refuses 101', async (t) => {
    for (const kind of ['array', 'kvlist'] as const) {
      t.equal(
        codeOf(() => scanProto(nested(100, kind))),
        'accepted',
        kind,
      );
      t.equal(
        codeOf(() => scanProto(nested(101, kind))),
        'invalid_request',
        kind,
      );
      t.equal(
        codeOf(() => scanProto(nested(20_000, kind))),
        'invalid_request',
        kind,
      );
    }
  });

  t.test('refuses a body with 1,001 spans, however they are spread', async (t) => {
    const spans = (count: number) => Array.from({ length: count }, (_, i) => spanOf(i));
    t.equal(scanProto(encodeRequest(requestOf(spans(1000)))).count, 1000);
    t.equal(
      codeOf(() => scanProto(encodeRequest(requestOf(spans(1001))))),
      'too_many_events',
    );
    const split = Buffer.concat(spans(1001).map((span) => encodeRequest(requestOf([span]))));
    t.equal(
      codeOf(() => scanProto(split)),
      'too_many_events',
    );
    const brokenAfter = Buffer.concat([split, hex('0a7f41')]);
    t.equal(
      codeOf(() => scanProto(brokenAfter)),
      'invalid_request',
      'an invalid body takes precedence',
    );
  });

  t.test('has no records of resources without spans', async (t) => {
    const index = scanProto(Buffer.concat([Buffer.alloc(200_000, hex('0a00')), everything]));
    t.equal(index.count, 2);
    t.equal(index.resources.length, scanProto(everything).resources.length);
  });
});

t.test('the JSON scan', async (t) => {
  const json = (request: object) => JSON.stringify(request);
  const span = (more: object) => json(requestOf([spanOf(0, more)]));

  t.test('tells invalid JSON from JSON of another shape', async (t) => {
    const invalidJson = ['', '{', 'nul', '{}{}', '{"resourceSpans":[}', '\ufeff{}', '{"a":01}'];
    for (const text of invalidJson)
      t.equal(
        codeOf(() => scanJson(text)),
        'invalid_json',
        text,
      );
    t.equal(
      codeOf(() => scanJson(Buffer.from('{"\xff":1}', 'latin1'))),
      'invalid_json',
    );
    const wrong = [
      '[]',
      'null',
      '{"resourceSpans":{}}',
      '{"resourceSpans":[1]}',
      '{"resourceSpans":[null]}',
      '{"resourceSpans":[{"scopeSpans":[{"spans":"x"}]}]}',
      span({ traceId: 5 }),
      span({ attributes: {} }),
      span({ attributes: [{ key: 1 }] }),
      span({ attributes: [{ key: 'a', value: 'text' }] }),
      span({ attributes: [{ key: 'a', value: { intValue: 1.5 } }] }),
      span({ attributes: [{ key: 'a', value: { intValue: '9223372036854775808' } }] }),
      span({ attributes: [{ key: 'a', value: { doubleValue: 'much' } }] }),
      span({ attributes: [{ key: 'a', value: { boolValue: 1 } }] }),
      ...['!!', 'A', 'AAAAA', 'AA=', 'AAA==', 'AA AA', '=', 'A=A=', 'AAAA====', 'é', '"'].map(
        (bytesValue) => span({ attributes: [{ key: 'a', value: { bytesValue } }] }),
      ),
      span({ attributes: [{ key: 'a', value: { bytesValue: 1 } }] }),
      span({ startTimeUnixNano: 'abc' }),
      span({ startTimeUnixNano: '-1' }),
      span({ kind: 1.5 }),
      span({ status: [] }),
    ];
    for (const text of wrong)
      t.equal(
        codeOf(() => scanJson(text)),
        'invalid_request',
        text,
      );
    t.equal(
      codeOf(() => scanJson('{"resourceSpans":{}} x')),
      'invalid_json',
      'an error of the grammar takes precedence',
    );
  });

  t.test('accepts every spelling of protobuf’s JSON form', async (t) => {
    const right = [
      '{}',
      ' {"resourceSpans" : null } ',
      '{"resourceSpans":[{},{"scopeSpans":[{}]}]}',
      span({ unknown: { deeply: ['nested'] } }),
      span({ attributes: null, events: null, status: null }),
      span({ attributes: [{ key: 'a' }, {}, { key: 'b', value: null }] }),
      span({ attributes: [{ key: 'a', value: { intValue: '-9223372036854775808' } }] }),
      span({ attributes: [{ key: 'a', value: { doubleValue: 'NaN' } }] }),
      span({ attributes: [{ key: 'a', value: { doubleValue: '-Infinity' } }] }),
      ...['', 'AA', 'AA==', 'AAA', 'AAA=', 'AAAA', '-_+/'].map((bytesValue) =>
        span({ attributes: [{ key: 'a', value: { bytesValue } }] }),
      ),
      span({ attributes: [{ key: 'a', value: { bytesValue: 'AA//' } }] }).replace(
        '//',
        '\\/\\u002f',
      ),
      span({ kind: 'SPAN_KIND_SERVER', status: { code: 'STATUS_CODE_OK' } }),
      span({ kind: 99, status: { code: 99 } }),
      span({ startTimeUnixNano: 1704067200000000000 }),
    ];
    for (const text of right)
      t.equal(
        codeOf(() => scanJson(text)),
        'accepted',
        text,
      );
  });

  t.test('limits nesting and spans', async (t) => {
    const deep = (levels: number) => `{"x":${'['.repeat(levels)}${']'.repeat(levels)}}`;
    t.equal(
      codeOf(() => scanJson(deep(511))),
      'accepted',
    );
    t.equal(
      codeOf(() => scanJson(deep(512))),
      'invalid_json',
    );
    t.equal(
      codeOf(() => scanJson(deep(1_000_000))),
      'invalid_json',
    );
    const wrappers = [
      (value: object) => ({ arrayValue: { values: [value] } }),
      (value: object) => ({ kvlistValue: { values: [{ key: 'k', value }] } }),
    ];
    for (const wrap of wrappers) {
      let value: object = { intValue: 1 };
      for (let i = 0; i < 100; i++) value = wrap(value);
      const within = span({ attributes: [{ key: 'a', value }] });
      t.equal(
        codeOf(() => scanJson(within)),
        'accepted',
      );
      const beyond = span({ attributes: [{ key: 'a', value: wrap(value) }] });
      t.equal(
        codeOf(() => scanJson(beyond)),
        'invalid_request',
      );
    }
    const spans = Array.from({ length: 1001 }, (_, i) => spanOf(i));
    t.equal(scanJson(json(requestOf(spans.slice(1)))).count, 1000);
    t.equal(
      codeOf(() => scanJson(json(requestOf(spans)))),
      'too_many_events',
    );
  });

  t.test('makes no text of unknown keys', async (t) => {
    const names = Array.from({ length: 100 }, (_, i) => `"n${i}":{"a":[]},"\\u00e9${i}":1`);
    const body = Buffer.from(
      `{${names.join()},"resourceSpans":[{"scopeSpans":[{"spans":[{${names.join()},"name":"n"}]}]}]}`,
    );
    let texts = 0;
    body.toString = () => {
      texts++;
      return '';
    };
    t.equal(otlpJson.scan(body, LIMITS).count, 1);
    t.equal(texts, 0);
  });

  t.test('takes the last value of a repeated key', async (t) => {
    const [a, b, c] = [0, 1, 2].map((i) => JSON.stringify(spanOf(i)));
    const twice = `{"resourceSpans":[{"scopeSpans":[{"spans":[${a},${b}],"spans":[${c}]}]}]}`;
    const index = scanJson(twice);
    t.equal(index.count, 1);
    t.match(otlpJson.observe(index, 0, 0).name, 'span 2');
    const whole = `{"resourceSpans":[{"scopeSpans":[{"spans":[${a}]}]}],"resourceSpans":[]}`;
    t.equal(scanJson(whole).count, 0);
    const id = `{"traceId":"${'1'.repeat(32)}","traceId":null,"spanId":"0000000000000001"}`;
    const spanless = scanJson(`{"resourceSpans":[{"scopeSpans":[{"spans":[${id}]}]}]}`);
    t.equal(otlpJson.itemId(spanless, 0), undefined);
  });
});

type Mutation = readonly [kind: string, at: number, byte: number];

function mutate(bytes: Buffer, [kind, where, byte]: Mutation): Buffer {
  const at = where % Math.max(1, bytes.length);
  const before = bytes.subarray(0, at);
  switch (kind) {
    case 'set':
      return Buffer.concat([before, Buffer.from([byte]), bytes.subarray(at + 1)]);
    case 'insert':
      return Buffer.concat([before, Buffer.from([byte]), bytes.subarray(at)]);
    case 'remove':
      return Buffer.concat([before, bytes.subarray(at + 1 + (byte & 3))]);
    default:
      return before;
  }
}

function spansFound(bytes: Buffer): number | 'broken' {
  try {
    return scanProto(bytes).count;
  } catch {
    return 'broken';
  }
}

/** Protobufjs refuses invalid UTF-8, which the scan accepts, and reads groups in another way. */
function spansByProtobufjs(bytes: Buffer): number | 'broken' | 'not comparable' {
  try {
    const { resourceSpans } = decodeRequest(bytes);
    const scopes = resourceSpans.flatMap((resource) => resource.scopeSpans);
    return scopes.reduce((count, scope) => count + scope.spans.length, 0);
  } catch (error) {
    return /not valid for encoding/.test(String(error)) ? 'not comparable' : 'broken';
  }
}

/** A span with an attribute of so many nested values. */
function nested(levels: number, kind: 'array' | 'kvlist'): Buffer {
  const chunks: Buffer[] = [];
  let length = 0;
  const wrap = (tag: number) => {
    const head = Buffer.from([tag, ...varint(length)]);
    chunks.push(head);
    length += head.length;
  };
  for (let level = 0; level < levels; level++) {
    if (kind === 'kvlist') wrap(0x12);
    wrap(0x0a);
    wrap(kind === 'kvlist' ? 0x32 : 0x2a);
  }
  // Value, attribute, span, scope spans, resource spans.
  for (const tag of [0x12, 0x4a, 0x12, 0x12, 0x0a]) wrap(tag);
  return Buffer.concat(chunks.reverse());
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value & 127) | 128, ...varint(value >>> 7)];
}
