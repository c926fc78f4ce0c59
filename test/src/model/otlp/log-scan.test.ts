import fc from 'fast-check';
import t from 'tap';
import { Refusal } from '../../../../src/model/errors.ts';
import { decodeResource } from '../../../../src/model/otlp/decode.ts';
import { RESOURCE_STRIDE } from '../../../../src/model/otlp/fields.ts';
import type { ConvertedLogs } from '../../../../src/model/otlp/log-request.ts';
import { convertLogs } from '../../../../src/model/otlp/log-request.ts';
import { lengthDelimited } from '../../../../src/model/otlp/wire.ts';
import { attributesOf, encodeLogs, logsOf } from '../../../helper/otlp-proto.ts';

const LIMITS = { maxItems: 1000 };
const proto = (bytes: Uint8Array, limits = LIMITS) =>
  convertLogs('otlp_proto', Buffer.from(bytes), limits);
const json = (text: string | Buffer, limits = LIMITS) =>
  convertLogs('otlp_json', Buffer.from(text), limits);

function codeOf(run: () => ConvertedLogs): string {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
  return 'accepted';
}

const EVENTS = [
  'claude_code.user_prompt',
  'claude_code.api_request',
  'claude_code.tool_decision',
  'claude_code.unknown',
  'codex.sse_event',
  'codex.user_prompt',
  'gen_ai.user.message',
  'gen_ai.choice',
  'gen_ai.client.inference.operation.details',
  'gen_ai.evaluation.result',
  'other.event',
];
const KEYS = [
  ...['event.name', 'event.timestamp', 'session.id', 'prompt.id', 'conversation.id', 'request_id'],
  ...['model', 'input_tokens', 'cache_read_tokens', 'cost_usd', 'duration_ms', 'success', 'error'],
  ...[
    'prompt',
    'prompt_length',
    'tool_name',
    'tool_use_id',
    'decision',
    'event.kind',
    'user.email',
  ],
  ...['gen_ai.usage.input_tokens', 'gen_ai.input.messages', 'gen_ai.evaluation.score.value'],
  ...['tracectl.observation', 'tracectl.ignored', 'custom_fields', '__proto__', ''],
];
const scalar = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('12', '-1', 'true', 'false', '<REDACTED>', 'response.completed', 'reject', '{}'),
  fc.integer(),
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.boolean(),
  fc.constantFrom(1.5, -0.25),
  fc.constant(null),
);
const value = fc.oneof(
  { weight: 4, arbitrary: scalar },
  { weight: 1, arbitrary: fc.array(scalar, { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.dictionary(fc.constantFrom('content', 'role', 'index'), scalar) },
);
const attributes = fc
  .array(fc.tuple(fc.constantFrom(...KEYS), value), { maxLength: 12 })
  .map((entries) => entries.flatMap(([key, each]) => attributesOf({ [key]: each })));
const id = (digits: number) =>
  fc.constantFrom('', '0'.repeat(digits), 'ab'.repeat(digits / 2), 'abcd');
const nanos = fc.constantFrom('0', '1', '1790000000000000000', '18446744073709551615');
const record = fc.record(
  {
    eventName: fc.constantFrom(...EVENTS),
    timeUnixNano: nanos,
    observedTimeUnixNano: nanos,
    body: value.map((each) => attributesOf({ x: each })[0]).map((each) => valueIn(each)),
    attributes,
    traceId: id(32),
    spanId: id(16),
    droppedAttributesCount: fc.nat(),
  },
  { requiredKeys: ['eventName'] },
);

function valueIn(each: object | undefined): object {
  return (each as { value?: object } | undefined)?.value ?? {};
}

t.test('both encodings of a request become the same spans', async () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 8 }), (records) => {
      const form = logsOf(records, { scope: { name: 'com.anthropic.claude_code.events' } });
      const first = proto(encodeLogs(form));
      const second = json(JSON.stringify(form));
      return first.body.equals(second.body) && sameCounts(first, second);
    }),
    { numRuns: 400 },
  );
});

function sameCounts(first: ConvertedLogs, second: ConvertedLogs): boolean {
  return JSON.stringify(first.logs) === JSON.stringify(second.logs);
}

t.test('every record is in an item or counted, and no other is', async () => {
  fc.assert(
    fc.property(fc.array(record, { maxLength: 8 }), (records) => {
      const { index, logs } = proto(encodeLogs(logsOf(records)));
      const inItems = logs.recordsOf.reduce((sum, count) => sum + count, 0);
      const isBounded = inItems + logs.unsupported + logs.detached <= records.length;
      return isBounded && index.count === logs.recordsOf.length;
    }),
    { numRuns: 200 },
  );
});

t.test('arbitrary bytes are refused or read, never a fault', async () => {
  const seed = encodeLogs(
    logsOf([
      {
        eventName: 'claude_code.api_request',
        attributes: attributesOf({ model: 'm', input_tokens: 5, list: [1, { a: 'b' }] }),
        traceId: 'ab'.repeat(16),
        spanId: 'cd'.repeat(8),
      },
    ]),
  );
  const isRead = (run: () => ConvertedLogs) =>
    ['accepted', 'invalid_request', 'invalid_json'].includes(codeOf(run));
  const bytes = fc.uint8Array({ maxLength: 200 });
  fc.assert(
    fc.property(bytes, (some) => isRead(() => proto(some))),
    { numRuns: 2000 },
  );
  fc.assert(fc.property(bytes, (some) => isRead(() => json(Buffer.from(some)))));
  const change = fc.tuple(fc.nat(seed.length - 1), fc.nat(255));
  fc.assert(
    fc.property(fc.array(change, { maxLength: 4 }), (changes) => {
      const changed = Buffer.from(seed);
      for (const [at, byte] of changes) changed[at] = byte;
      return isRead(() => proto(changed));
    }),
    { numRuns: 2000 },
  );
  fc.assert(
    fc.property(fc.nat(seed.length), (length) => isRead(() => proto(seed.subarray(0, length)))),
  );
});

t.test('bounds the records of a request, whatever they are', async (t) => {
  const records = (count: number) => logsOf(Array.from({ length: count }, () => ({})));
  t.equal(proto(encodeLogs(records(20)), { maxItems: 20 }).logs.unsupported, 20);
  t.equal(json(JSON.stringify(records(20)), { maxItems: 20 }).logs.unsupported, 20);
  for (const run of [
    () => proto(encodeLogs(records(21)), { maxItems: 20 }),
    () => json(JSON.stringify(records(21)), { maxItems: 20 }),
  ]) {
    t.equal(codeOf(run), 'too_many_events');
    t.throws(run, { message: 'The request holds 21 log records; at most 20 are accepted.' });
  }
  t.equal(proto(encodeLogs(records(100_000)), { maxItems: 100_000 }).logs.unsupported, 100_000);
});

t.test('an event that makes two spans does not count twice against the limit', async (t) => {
  const prompt = {
    eventName: 'codex.user_prompt',
    attributes: attributesOf({ 'conversation.id': 'c' }),
  };
  const { index } = proto(encodeLogs(logsOf([prompt, prompt])), { maxItems: 2 });
  t.equal(index.count, 4);
});

t.test('refuses values of a wrong type or too deep, and text that is no UTF-8', async (t) => {
  const body = (record: object) => JSON.stringify(logsOf([record]));
  t.equal(
    codeOf(() => json(body({ timeUnixNano: true }))),
    'invalid_request',
  );
  t.equal(
    codeOf(() => json(body({ attributes: {} }))),
    'invalid_request',
  );
  t.equal(
    codeOf(() => json(body({ body: { intValue: 'x' } }))),
    'invalid_request',
  );
  t.equal(
    codeOf(() => json('{"resourceLogs":[{}]')),
    'invalid_json',
  );
  t.equal(
    codeOf(() => json('{"resourceLogs":null}')),
    'accepted',
  );
  const text = Buffer.from(body({ eventName: 'codex.é' }), 'latin1');
  t.equal(
    codeOf(() => json(text)),
    'invalid_json',
  );
  const nested = (depth: number): unknown => (depth === 0 ? 'x' : [nested(depth - 1)]);
  const deep = (depth: number) =>
    logsOf([{ eventName: 'codex.x', body: valueIn(attributesOf({ x: nested(depth) })[0]) }]);
  for (const [depth, code] of [
    [100, 'accepted'],
    [101, 'invalid_request'],
  ] as const) {
    t.equal(
      codeOf(() => json(JSON.stringify(deep(depth)))),
      code,
      `JSON ${depth}`,
    );
    t.equal(
      codeOf(() => proto(deepProto(depth))),
      code,
      `protobuf ${depth}`,
    );
  }
});

t.test('leaves out resources and scopes whose records make no spans', async (t) => {
  const named = (service: string, records: object[]) => ({
    resource: { attributes: attributesOf({ 'service.name': service }) },
    scopeLogs: [{ logRecords: records }],
  });
  const { index } = proto(
    encodeLogs({
      resourceLogs: [
        named('web', [{}]),
        named('agent', [{ eventName: 'codex.x' }]),
        named('web', []),
      ],
    }),
  );
  t.equal(index.count, 1);
  t.equal(index.resources.length / RESOURCE_STRIDE, 1);
  const [, , start = 0, end = 0] = index.resources;
  t.match(decodeResource(index.bytes, start, end).attributes, [
    { key: 'service.name', value: { stringValue: 'agent' } },
  ]);
});

/** A record whose body has so many nested arrays. */
function deepProto(depth: number): Buffer {
  let inner: Buffer = Buffer.alloc(0);
  for (let i = 0; i < depth; i++) inner = lengthDelimited(42, lengthDelimited(10, inner));
  for (const tag of [42, 18, 18, 10]) inner = lengthDelimited(tag, inner);
  return inner;
}

t.test('a log record has at most 32,768 keys, and a request 327,680', async (t) => {
  const record = (keys: number) => ({
    attributes: Array(keys).fill({ key: 'a' }),
    eventName: 'gen_ai.evaluation.result',
  });
  const heavy = (records: object[]) => {
    const request = logsOf(records);
    const counts = proto(encodeLogs(request)).logs;
    t.same(json(JSON.stringify(request)).logs, counts);
    return counts.heavy;
  };
  t.equal(heavy([record(32_768), record(1)]), 0);
  t.equal(heavy([record(32_769), record(1)]), 1);
  t.equal(heavy([...Array(10).fill(record(32_768)), record(0)]), 0);
  t.equal(heavy([...Array(10).fill(record(32_768)), record(1)]), 1);
});
