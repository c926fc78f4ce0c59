import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import t from 'tap';
import { createProcessor as createCustomFields } from '../../../processors/custom_fields/processor.ts';
import { NATIVE_RULES } from '../../../processors/validation/native.ts';
import { isPlainEvent, isPlainRun } from '../../../processors/validation/plain.ts';
import { createProcessor } from '../../../processors/validation/processor.ts';
import { RUN_RULES } from '../../../processors/validation/runs.ts';
import type { Format, ReceivedBatch, SealedBatch } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { indexOf, observe, scan } from '../../../src/model/formats.ts';
import type { Rejection } from '../../../src/model/rejection.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { wrapRun } from '../../../src/model/runs/wrap.ts';
import { seal } from '../../../src/model/seal.ts';
import { generate } from '../../fixtures/bad-inputs/generators.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch, received } from '../../helper/batches.ts';
import { testSettings } from '../../helper/settings.ts';

const FIELD_LIMIT = 4_194_304;

async function processed(batch: SealedBatch): Promise<ReceivedBatch> {
  const request = received(batch);
  await createProcessor(testSettings('processor', 'validation')).process?.(
    request,
    requestContext(),
  );
  return request;
}

/** The first problem of one event, or undefined. */
async function verdict(more: Record<string, unknown>): Promise<string> {
  return told((await processed(nativeBatch([nativeEvent(more)]))).rejections);
}

async function runVerdict(run: unknown, of: 'post' | 'patch' = 'post'): Promise<string> {
  const body = Buffer.from(JSON.stringify({ [of]: [run] }));
  return told((await processed(rawBatch('runs', body, 1))).rejections);
}

function told(rejections: readonly Rejection[]): string {
  return rejections.map(({ code, reason }) => `${code}: ${reason}`).join('\n');
}

t.test('accepts a valid event with all optional fields, or with none', async (t) => {
  t.equal(await verdict({}), '');
  const minimal = { id: 'a', trace_id: 't', operation: 'start', kind: 'llm', status: 'pending' };
  t.equal(told((await processed(nativeBatch([minimal]))).rejections), '');
  const nulls = ['name', 'start_time', 'end_time', 'event_version', 'usage', 'inputs', 'parent_id'];
  t.equal(await verdict(Object.fromEntries(nulls.map((field) => [field, null]))), '');
  t.equal(await verdict({ usage: { input_tokens: null, output_tokens: 0, other: 'x' } }), '');
  t.equal(await verdict({ name: '', parent_id: '', unknown: [] }), '');
});

t.test('rejects an event without a required field', async (t) => {
  for (const field of ['id', 'trace_id', 'operation', 'kind', 'status']) {
    for (const value of [undefined, null]) {
      t.equal(await verdict({ [field]: value }), `missing_field: events[0].${field} is required`);
    }
    for (const value of ['', 7, {}, ['x'], true]) {
      t.match(await verdict({ [field]: value }), `invalid_field: events[0].${field} must be`);
    }
  }
});

t.test('checks the effective one of two field names', async (t) => {
  t.equal(await verdict({ id: '', observation_id: 'o' }), '', 'observation_id wins');
  t.match(await verdict({ observation_id: 7 }), 'invalid_field: events[0].observation_id');
  t.equal(await verdict({ kind: null, run_type: 'tool' }), '');
  t.match(await verdict({ kind: 'nope', run_type: 'tool' }), 'invalid_field: events[0].kind');
  t.match(await verdict({ kind: null, run_type: 'nope' }), 'invalid_field: events[0].run_type');
  t.match(await verdict({ parent_observation_id: 7 }), 'events[0].parent_observation_id must be');
});

t.test('rejects values outside an enumeration', async (t) => {
  const wrong = ['OK', 'toString', '__proto__', 'llm\0', ' llm', 'constructor', 'x'.repeat(1000)];
  for (const value of wrong) {
    t.match(await verdict({ status: value }), /^invalid_field: .*status must be one of pending, /);
    t.match(await verdict({ kind: value }), /^invalid_field: .*kind must be one of event, /);
  }
  const escaped = JSON.stringify({ events: [nativeEvent()] }).replace('"finish"', '"\\u0066inish"');
  const batch = await processed(rawBatch('native', Buffer.from(escaped), 1));
  t.same(batch.rejections, [], 'however a member is spelled');
});

t.test('accepts ids of 1 to 4,096 bytes, well-formed and without NUL', async (t) => {
  for (const field of ['id', 'trace_id', 'parent_id']) {
    t.equal(await verdict({ [field]: 'x'.repeat(4096) }), '');
    t.equal(await verdict({ [field]: 'é'.repeat(2048) }), '');
    t.equal(
      await verdict({ [field]: '"'.repeat(4096) }),
      '',
      'bytes of the id, not of its spelling',
    );
    for (const id of [
      'x'.repeat(4097),
      `x${'é'.repeat(2048)}`,
      '"'.repeat(4097),
      'a\0b',
      '\ud800',
    ]) {
      t.match(await verdict({ [field]: id }), `invalid_field: events[0].${field} must be`);
    }
  }
});

t.test('checks times, versions, names and usage', async (t) => {
  for (const field of ['start_time', 'end_time']) {
    t.equal(await verdict({ [field]: '2024-02-29T00:00:00.123456789+01:00' }), '');
    for (const value of [
      '2023-02-29T00:00:00Z',
      '',
      5,
      [],
      '2024-01-01T00:00:00é',
      'x'.repeat(1e5),
    ]) {
      t.match(
        await verdict({ [field]: value }),
        `invalid_field: events[0].${field} must be an ISO`,
      );
    }
  }
  const escaped = JSON.stringify({ events: [nativeEvent()] }).replace('T11:', '\\u005411:');
  t.same((await processed(rawBatch('native', Buffer.from(escaped), 1))).rejections, []);

  t.equal(await verdict({ event_version: '18446744073709551615' }), '');
  t.match(await verdict({ event_version: -1 }), 'invalid_field: events[0].event_version must be');
  t.match(await verdict({ name: 5 }), 'invalid_field: events[0].name must be a string');
  t.match(await verdict({ usage: [] }), 'invalid_field: events[0].usage must be an object');
  for (const value of [1.5, '5', true, {}, 2 ** 53]) {
    const expected = 'invalid_field: events[0].usage.input_tokens must be an integer';
    t.equal(await verdict({ usage: { input_tokens: value } }), expected);
  }
  t.match(await verdict({ usage: { output_tokens: 1.5 } }), 'usage.output_tokens');
});

t.test('accepts a field of exactly 4 MiB, and rejects one byte more', async (t) => {
  const fields = ['inputs', 'outputs', 'events', 'metadata', 'context_metadata'];
  for (const field of fields) {
    const exact = 'x'.repeat(FIELD_LIMIT - 2);
    t.equal(await verdict({ [field]: exact }), '', `${field} of exactly 4 MiB`);
    const expected = `payload_too_large: events[0].${field} is larger than 4 MiB as compact JSON`;
    t.equal(await verdict({ [field]: `${exact}x` }), expected);
  }
  const extra = { metadata: 'x'.repeat(FIELD_LIMIT) };
  t.match(await runVerdict({ id: 'a', extra }), 'payload_too_large: post[0].extra.metadata');
  t.equal(await runVerdict({ id: 'a', extra: { metadata: extra.metadata.slice(2) } }), '');
  const replaced = Buffer.from(`{"post":[{"id":"a","extra":${JSON.stringify(extra)},"extra":{}}]}`);
  t.same((await processed(rawBatch('runs', replaced, 1))).rejections, [], 'one that was replaced');
});

t.test('reports the first broken rule', async (t) => {
  const order = [
    ...['id', 'trace_id', 'operation', 'kind', 'status', 'start_time', 'end_time', 'event_version'],
    ...['name', 'parent_id', 'usage'],
  ];
  const broken: Record<string, unknown> = Object.fromEntries(order.map((field) => [field, [true]]));
  broken.inputs = 'x'.repeat(FIELD_LIMIT);
  for (const field of order) {
    t.match(await verdict(broken), `invalid_field: events[0].${field} must be`);
    broken[field] = nativeEvent()[field];
  }
  t.match(await verdict(broken), 'payload_too_large');
});

t.test('decides on each event separately', async (t) => {
  const events = [
    nativeEvent({ id: 'a' }),
    nativeEvent({ id: 'b', status: 'nope' }),
    nativeEvent({ id: '' }),
    nativeEvent({ id: 'd' }),
  ];
  const batch = await processed(nativeBatch(events));
  t.same(
    batch.rejections.map(({ index, id }) => [index, id]),
    [
      [1, 'b'],
      [2, undefined],
    ],
    'an id is given where it is known',
  );
  const sealed = seal(batch, requestContext());
  t.equal(indexOf(sealed).count, 2);
  t.equal(sealed.body.includes('"nope"'), false, 'rejected events are cut out');

  const odd = await processed(rawBatch('native', Buffer.from('{"events":["x",null,[{}],5]}'), 4));
  t.equal(odd.rejections.length, 4);
  t.match(odd.rejections[3], { code: 'invalid_event', reason: 'events[3] must be an object' });
});

t.test('names the field of a run that breaks a rule, and takes malformed times', async (t) => {
  t.equal(await runVerdict({ id: 'a' }), '');
  t.equal(await runVerdict({ observation_id: 'a', trace_id: null, parent_run_id: '' }), '');
  t.equal(await runVerdict({ id: 'a', start_time: 1795209809380, end_time: 5.5 }), '');
  t.equal(await runVerdict({ id: 'a', run_type: 'prompt', status: 7, error: [] }), '');
  t.equal(await runVerdict({ name: 'x' }), 'missing_field: post[0].id is required');
  t.equal(await runVerdict({}, 'patch'), 'missing_field: patch[0].id is required');
  t.match(await runVerdict({ id: 'a', run_type: 5 }), 'post[0].run_type must be a string');
  t.match(await runVerdict({ id: 'a', name: {} }), 'post[0].name must be a string');
  t.match(await runVerdict({ id: 'a', trace_id: 'a\0' }), 'post[0].trace_id must be');
  t.match(await runVerdict({ id: 'a', parent_run_id: 5 }), 'post[0].parent_run_id must be');
  t.equal(await runVerdict({ id: 'a', start_time: '5', end_time: 1e300 }), '', 'bad times');
  t.match(await runVerdict({ id: 'a', event_version: 1.5 }), 'post[0].event_version must be');
  t.match(await runVerdict([{ id: 'a' }]), 'invalid_event: post[0] must be an object');
  const both = rawBatch('runs', Buffer.from('{"post":[{"id":"a"}],"patch":[{"id":"a"},{}]}'), 3);
  t.match((await processed(both)).rejections, [{ index: 2, reason: 'patch[1].id is required' }]);
});

t.test('checks spans by the rules of OTLP', async (t) => {
  for (const format of ['otlp_proto', 'otlp_json'] as const) {
    const spans = [{}, { traceId: '0'.repeat(32) }];
    const batch = await processed(otlpBatch(spans, { format }));
    t.match(batch.rejections, [{ index: 1, code: 'invalid_field' }], format);
  }
});

type Case = {
  readonly id: string;
  readonly area: string;
  readonly description: string;
  readonly request: {
    readonly method: string;
    readonly path: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly bodyText?: string;
    readonly bodyBase64?: string;
    readonly generator?: { readonly name: string; readonly args?: Record<string, unknown> };
  };
  readonly expect: { readonly status: readonly number[]; readonly holds: readonly string[] };
};

const CASES = new URL('../../fixtures/bad-inputs/cases.json', import.meta.url);
const AREAS = new Set(['shape', 'count', 'size', 'field', 'version', 'date', 'custom', 'runs']);
/** Its 500,000 keys make a metadata of 5.9 MB, which is refused for its size whatever the keys are. */
const TOO_LARGE = 'shape-047';
const FORMATS: Readonly<Record<string, Format>> = {
  'POST /api/v1/observations/batch': 'native',
  'POST /api/v1/runs/batch': 'runs',
  'POST /api/v1/runs': 'runs',
};

/** The answer of a receiver, from the scan and the two processors. */
async function answer(format: Format, body: Buffer) {
  try {
    const index = scan(format, body, { maxItems: 1000 });
    const request = requestContext();
    const batch = { ...received(rawBatch(format, body, index.count)), index };
    await createProcessor(testSettings('processor', 'validation')).process?.(batch, request);
    await createCustomFields().process?.(batch, request);
    const { items: accepted, rejections } = batch;
    const [stored] = observe(seal(batch, request));
    return { status: accepted > 0 ? 202 : 400, accepted, rejections, stored };
  } catch (error) {
    if (error instanceof Refusal) return { status: error.status, accepted: 0, rejections: [] };
    throw error;
  }
}

t.test('answers every bad input of the corpus as specified', async (t) => {
  const { cases } = JSON.parse(readFileSync(CASES, 'utf8')) as { cases: Case[] };
  let checked = 0;
  for (const { id, area, description, request, expect } of cases) {
    const format = FORMATS[`${request.method} ${request.path}`];
    const isJson = request.headers['content-type'] === 'application/json';
    if (!AREAS.has(area) || format === undefined || !isJson || id === TOO_LARGE) continue;
    const body = bodyOf(request);
    // Bodies above 25 MiB are the receiver's to refuse.
    if (body.length > 26_214_400) continue;
    const sent = request.path.endsWith('/runs') ? wrapRun(body) : body;
    const { status, accepted, rejections, stored } = await answer(format, sent);
    const name = `${id}: ${description}`;
    t.ok(expect.status.includes(status), `${name}: ${status}`);
    for (const word of expect.holds) {
      const [shape = '', value = ''] = word.split(/=(.*)/s);
      if (shape === 'accepted') t.equal(accepted, Number(value), name);
      if (shape === 'rejected') t.equal(rejections.length, Number(value), name);
      if (shape === 'code')
        t.ok(
          rejections.some(({ code }) => code === value),
          name,
        );
      if (shape === 'reason-contains') t.match(rejections[0]?.reason, value, name);
      if (shape === 'stored.custom_fields')
        t.same({ ...stored?.customFields }, JSON.parse(value), name);
      if (shape === 'reason-excludes') {
        for (const secret of value.split(',')) t.notMatch(rejections[0]?.reason, secret, name);
      }
    }
    checked++;
  }
  t.ok(checked > 150, `${checked} cases`);
});

function bodyOf(request: Case['request']): Buffer {
  if (request.bodyText !== undefined) return Buffer.from(request.bodyText);
  if (request.bodyBase64 !== undefined) return Buffer.from(request.bodyBase64, 'base64');
  return request.generator === undefined ? Buffer.alloc(0) : generate(request.generator);
}

t.test('judges a large batch in turns, with the same result', async (t) => {
  const filler = 'x'.repeat(4000);
  const event = (i: number) =>
    nativeEvent({ id: `event-${i}`, inputs: filler, ...(i % 3 === 0 ? { kind: 'nope' } : {}) });
  const batch = await processed(nativeBatch(Array.from({ length: 600 }, (_, i) => event(i))));
  t.ok(batch.body.length > 2_000_000);
  t.same(
    batch.rejections.map(({ index, id }) => [index, id]),
    Array.from({ length: 200 }, (_, i) => [3 * i, `event-${3 * i}`]),
  );
});

t.test('the turns end with the request', async (t) => {
  const settings = testSettings('processor', 'validation');
  let now = 0;
  const slow = { ...settings.clock, now: () => (now += 20) };
  const wrong = nativeEvent({ inputs: 'x'.repeat(400_000), kind: 'nope' });
  const batch = received(nativeBatch([wrong, wrong, wrong]));
  const request = new AbortController();
  const work = createProcessor({ clock: slow }).process?.(
    batch,
    requestContext({ signal: request.signal }),
  );
  request.abort();
  await t.rejects(Promise.resolve(work), { code: 'too_late' });
  t.ok(batch.rejections.length < 3);
});

/** JSON texts of a field: usual ones, and ones at and beyond the limits of the rules. */
const FIELD_TEXTS = fc.constantFrom(
  ...[
    'null',
    '""',
    '"a"',
    '"\\u0061"',
    '"\\u0000"',
    '"\\ud800"',
    '7',
    '-7',
    '7.5',
    '1e3',
    '1234567890123456',
  ],
  ...['{}', '[]', 'true', '"llm"', '"l\\u006cm"', '"finish"', '"success"', '"Success"', '"ü"'],
  ...[255, 256, 257, 4096, 4097].map((length) => JSON.stringify('x'.repeat(length))),
  ...['{"input_tokens":1}', '{"input_tokens":"1"}', '{"output_tokens":-1}', '{"input_tokens":1.5}'],
);
const INSTANT_TEXTS = fc
  .tuple(
    fc.constantFrom('2026', '0000', '0100', '9999', '20x6', '26'),
    fc.constantFrom(
      '-01-15',
      '-02-28',
      '-02-29',
      '-02-30',
      '-13-01',
      '-00-01',
      '-12-31',
      '-1-1',
      '-01-00',
    ),
    fc.constantFrom('T', 't', ' '),
    fc.constantFrom(
      '00:00:00',
      '23:59:59',
      '24:00:00',
      '12:60:00',
      '12:00:60',
      '12-00-00',
      '1:2:3',
    ),
    fc.constantFrom('', '.1', '.123456', '.123456789', '.1234567890', ',5', '.', '.1a', '.-1'),
    fc.constantFrom('Z', '', '+01:00', '-01:00', 'z', 'ZZ'),
  )
  .map((pieces) => `"${pieces.join('')}"`);

const FIELDS = {
  ...{ id: FIELD_TEXTS, observation_id: FIELD_TEXTS, trace_id: FIELD_TEXTS, name: FIELD_TEXTS },
  ...{ operation: FIELD_TEXTS, kind: FIELD_TEXTS, run_type: FIELD_TEXTS, status: FIELD_TEXTS },
  ...{ start_time: INSTANT_TEXTS, end_time: INSTANT_TEXTS, event_version: FIELD_TEXTS },
  ...{ parent_id: FIELD_TEXTS, parent_observation_id: FIELD_TEXTS, parent_run_id: FIELD_TEXTS },
  usage: FIELD_TEXTS,
};
const VALID = {
  ...{ id: '"a"', trace_id: '"t"', operation: '"finish"', kind: '"llm"', status: '"success"' },
  ...{ start_time: '"2026-01-15T12:00:00.123456Z"', end_time: 'null', event_version: '1' },
};

t.test('a plain item breaks no rule', async (t) => {
  const changed = fc.record(FIELDS, { requiredKeys: [] });
  let plain = 0;
  fc.assert(
    fc.property(changed, fc.subarray(Object.keys(FIELDS), { maxLength: 3 }), (texts, names) => {
      const fields = new Map(Object.entries(VALID));
      for (const [name, text] of Object.entries(texts)) {
        if (names.includes(name) && text !== undefined) fields.set(name, text);
      }
      const item = `{${[...fields].map(([name, text]) => `"${name}":${text}`).join(',')}}`;
      const event = scan('native', Buffer.from(`{"events":[${item}]}`), { maxItems: 1 });
      const run = scan('runs', Buffer.from(`{"post":[${item}]}`), { maxItems: 1 });
      if (event.type !== 'native' || run.type !== 'runs') throw new Error('another format');
      if (isPlainEvent(event, 0)) {
        plain++;
        for (const rule of NATIVE_RULES) assert.equal(rule(event, 0), undefined, item);
      }
      if (!isPlainRun(run, 0)) return;
      for (const rule of RUN_RULES) assert.equal(rule(run, 0), undefined, item);
    }),
    { numRuns: 2000 },
  );
  t.ok(plain > 100, 'many are plain');
});

t.test(
  'an item as clients send it is plain, and one that is none or has odd fields is not',
  async (t) => {
    const plainOf = (item: string) => {
      const event = scan('native', Buffer.from(`{"events":[${item}]}`), { maxItems: 1 });
      return event.type === 'native' && isPlainEvent(event, 0);
    };
    t.ok(plainOf(JSON.stringify(nativeEvent({}))));
    t.ok(plainOf(JSON.stringify(nativeEvent({ id: 'x'.repeat(256) }))));
    t.notOk(plainOf(JSON.stringify(nativeEvent({ id: 'x'.repeat(257) }))));
    t.notOk(plainOf('7'));
    const large = 'x'.repeat(FIELD_LIMIT - 100);
    t.notOk(plainOf(JSON.stringify(nativeEvent({ inputs: large, outputs: large }))));
  },
);
