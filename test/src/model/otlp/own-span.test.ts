import fc from 'fast-check';
import t from 'tap';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import type { OtlpIndex } from '../../../../src/model/batch-index.ts';
import { observe, payload, STORED_LIMITS, scan } from '../../../../src/model/formats.ts';
import type { Instant } from '../../../../src/model/observation.ts';
import {
  OBSERVATION_KINDS,
  OBSERVATION_OPERATIONS,
  OBSERVATION_STATUSES,
} from '../../../../src/model/observation.ts';
import { decodeSpansAt, encodeOtlp, type OtlpRequest } from '../../../../src/model/otlp/encode.ts';
import {
  OBSERVATION_ORIGIN,
  spanOfObservation,
} from '../../../../src/model/otlp/encode-observation.ts';
import { encodeOwnSpans, type OwnSpan } from '../../../../src/model/otlp/own-span.ts';
import { rawBatch } from '../../../helper/batches.ts';
import { decodeRequest } from '../../../helper/otlp-proto.ts';

const ENCODINGS = ['proto', 'json'] as const;
type Encoding = (typeof ENCODINGS)[number];

/** Scans a request as it would arrive, and decodes its spans. */
function decoded(body: Buffer, encoding: Encoding): OtlpRequest {
  const index = scan(`otlp_${encoding}`, body, STORED_LIMITS) as OtlpIndex;
  return decodeSpansAt(
    index,
    Array.from({ length: index.count }, (_, position) => position),
  );
}

/** Without the members at their defaults, which each encoder may write or leave out. */
function withoutDefaults(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDefaults);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).flatMap(([key, member]) => {
    // Every member of a value counts, because the type is the member that is set.
    if (key === 'value') return [[key, plainValue(member)]];
    const plain = withoutDefaults(member);
    return isDefault(plain) ? [] : [[key, plain]];
  });
  return Object.fromEntries(members);
}

function plainValue(value: { intValue?: unknown }): unknown {
  return value.intValue === undefined ? value : { intValue: String(value.intValue) };
}

function isDefault(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return value === undefined || value === null || value === '' || value === 0 || value === '0';
}

const SPAN: OwnSpan = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  name: 'größer '.repeat(40),
  kind: 'client',
  start: { ms: 1_768_478_398_000, ns: 1 },
  end: { ms: 1_768_478_399_500, ns: 999_999 },
  attributes: { text: 'a\n\u2028☃', empty: '', count: 2 ** 53 - 1, negative: -1, zero: 0 },
  events: [],
  status: { code: 1 },
};

const FAILED: OwnSpan = {
  ...SPAN,
  spanId: 'b7ad6b7169203332',
  parentSpanId: SPAN.spanId,
  kind: 'internal',
  end: undefined,
  events: [{ name: 'exception', time: SPAN.start, attributes: { 'exception.message': 'm' } }],
  status: { code: 2, message: 'm' },
};

const ORIGIN = { service: 'service', scope: 'scope' };

t.test(
  'writes the same spans in both encodings, and as the encoder of arrived spans',
  async (t) => {
    const [proto, json] = await Promise.all(
      ENCODINGS.map(async (encoding) => {
        const body = await encodeOwnSpans(ORIGIN, [SPAN, FAILED], encoding);
        return decoded(body, encoding);
      }),
    );
    t.same(withoutDefaults(proto), withoutDefaults(json));
    t.match(withoutDefaults(proto), {
      resourceSpans: [
        {
          resource: { attributes: [{ key: 'service.name', value: { stringValue: 'service' } }] },
          scopeSpans: [
            {
              scope: { name: 'scope' },
              spans: [
                {
                  traceId: SPAN.traceId,
                  spanId: SPAN.spanId,
                  name: SPAN.name,
                  kind: 3,
                  startTimeUnixNano: '1768478398000000001',
                  endTimeUnixNano: '1768478399500999999',
                  attributes: [
                    { key: 'text', value: { stringValue: 'a\n\u2028☃' } },
                    { key: 'empty', value: { stringValue: '' } },
                    { key: 'count', value: { intValue: '9007199254740991' } },
                    { key: 'negative', value: { intValue: '-1' } },
                    { key: 'zero', value: { intValue: '0' } },
                  ],
                  status: { code: 1 },
                },
                { parentSpanId: SPAN.spanId, kind: 1, status: { code: 2, message: 'm' } },
              ],
            },
          ],
        },
      ],
    });
    for (const encoding of ENCODINGS) {
      const again = decoded(encodeOtlp(proto as OtlpRequest, encoding), encoding);
      t.same(withoutDefaults(again), withoutDefaults(proto), encoding);
    }
  },
);

t.test('writes protobuf that another library reads alike', async (t) => {
  const body = await encodeOwnSpans(ORIGIN, [SPAN, FAILED], 'proto');
  const [resourceSpans] = decodeRequest(body).resourceSpans;
  t.match(resourceSpans?.scopeSpans[0]?.spans, [
    { name: SPAN.name, kind: 3, endTimeUnixNano: '1768478399500999999' },
    {
      kind: 1,
      endTimeUnixNano: undefined,
      events: [{ name: 'exception' }],
      status: { message: 'm' },
    },
  ]);
});

t.test('replaces an instant that OTLP cannot express by the nearest that it can', async (t) => {
  const last = { ms: 18_446_744_073_709, ns: 551_615 };
  for (const [instant, nanos] of [
    [{ ms: -1, ns: 999_999 }, undefined],
    [{ ms: -62_167_219_200_000, ns: 0 }, undefined],
    [{ ms: 0, ns: 0 }, undefined],
    [{ ms: 0, ns: 1 }, '1'],
    [last, '18446744073709551615'],
    [{ ...last, ns: last.ns + 1 }, '18446744073709551615'],
    [{ ms: 253_402_300_799_999, ns: 999_999 }, '18446744073709551615'],
  ] as [Instant, string | undefined][]) {
    for (const encoding of ENCODINGS) {
      const body = await encodeOwnSpans(ORIGIN, [{ ...SPAN, start: instant }], encoding);
      const [span] = decoded(body, encoding).resourceSpans[0]?.scopeSpans[0]?.spans ?? [];
      const { startTimeUnixNano } = withoutDefaults(span) as { startTimeUnixNano?: string };
      t.equal(startTimeUnixNano, nanos, `${JSON.stringify(instant)} in ${encoding}`);
    }
  }
});

/** Text that protobuf and JSON can both carry; ids have a grammar of their own. */
const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', 'ß', '☃', '🌍', '\0', ' ') });
const id = fc.oneof(
  fc.uuid(),
  fc.stringMatching(/^[0-9a-f]{16}$/),
  fc.stringMatching(/^[0-9a-f]{32}$/),
  fc.stringMatching(/^[\w:☃-]{1,20}$/u),
);
const time = fc
  .date({ min: new Date('0000-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
  .map((date) => date.toISOString());
const tokens = fc.dictionary(
  fc.constantFrom('input_tokens', 'total_tokens', 'odd', 'constructor', '__proto__'),
  fc.maxSafeInteger(),
);

const event = fc
  .record(
    {
      id,
      trace_id: id,
      parent_id: id,
      operation: fc.constantFrom(...OBSERVATION_OPERATIONS),
      status: fc.constantFrom(...OBSERVATION_STATUSES),
      kind: fc.constantFrom(...OBSERVATION_KINDS),
      event_version: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }).map(String),
      name: text,
      start_time: time,
      end_time: time,
      model: text,
      session_id: text,
      user_id: text,
      inputs: fc.jsonValue(),
      outputs: fc.oneof(text, fc.jsonValue()),
      events: fc.array(fc.jsonValue(), { maxLength: 2 }),
      metadata: fc.record({ custom_fields: fc.dictionary(text, text, { maxKeys: 3 }) }),
      context_metadata: fc.dictionary(text, fc.jsonValue(), { maxKeys: 2 }),
      usage: tokens,
      error: fc.oneof(text, fc.record({ message: text, type: text, stacktrace: text })),
    },
    { requiredKeys: ['id', 'trace_id', 'operation'] },
  )
  .map((fields) => JSON.stringify(fields));

function observed(batch: SealedBatch): unknown {
  return observe(batch).map((observation, position) => ({
    ...observation,
    payload: payload(batch, position),
  }));
}

t.test('an observation is the same after it left as a span and arrived again', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(event, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(...ENCODINGS),
      async (events, encoding) => {
        const body = Buffer.from(`{"events":[${events.join(',')}]}`);
        const sent = rawBatch('native', body, events.length);
        const spans = observe(sent).map((observation, position) =>
          spanOfObservation(observation, payload(sent, position), sent.receivedAt),
        );
        const bytes = await encodeOwnSpans(OBSERVATION_ORIGIN, spans, encoding);
        t.strictSame(observed(rawBatch(`otlp_${encoding}`, bytes, spans.length)), observed(sent));
      },
    ),
    { numRuns: 300 },
  );
});
