import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { config } from '../../../processors/redaction/config.ts';
import { CHUNK_BYTES } from '../../../processors/redaction/prefilter.ts';
import { createProcessor } from '../../../processors/redaction/processor.ts';
import { Redactor } from '../../../processors/redaction/redactor.ts';
import { RULE_NAMES } from '../../../processors/redaction/rules.ts';
import { findOffer } from '../../../src/component/capability.ts';
import type { Format } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { requestContext } from '../../../src/model/request-context.ts';
import { seal } from '../../../src/model/seal.ts';
import { MEMBERS_PER_STEP } from '../../../src/model/texts.ts';
import { takeEdited } from '../../../src/model/verbs.ts';
import { SCORE_EDITOR } from '../../../src/store/scores.ts';
import { nativeBatch, nativeEvent, otlpBatch, rawBatch, received } from '../../helper/batches.ts';
import { applyEdits } from '../../helper/edits.ts';
import { attributesOf, decodeRequest, encodeRequest, requestOf } from '../../helper/otlp-proto.ts';
import { recordingMetrics, testSettings } from '../../helper/settings.ts';
import { type Fill, FORMATS, filledBody } from './formats.ts';
import { redacted, redactedBatch, redactedText } from './redacting.ts';
import { SECRETS } from './secrets.ts';

const HASH_KEY = '0123456789abcdef';

/** A different text for each place. */
function numbered(secret: (n: number) => string): { fill: Fill; all: Map<string, string> } {
  const all = new Map<string, string>();
  return {
    all,
    fill: (place) => {
      const text = secret(all.size);
      all.set(text, place);
      return `<${text}>`;
    },
  };
}

/** Where a text is still found, as it is. */
function left(body: Buffer, all: ReadonlyMap<string, string>): string[] {
  return [...all].filter(([text]) => body.includes(text)).map(([, place]) => place);
}

for (const format of FORMATS) {
  t.test(`${format}: a secret is redacted in every text and name, by every action`, async (t) => {
    for (const action of ['mask', 'hash', 'remove']) {
      const { fill, all } = numbered((n) => `jane${n}@example.com`);
      const body = filledBody(format, fill);
      t.same(left(body, new Map([...all].slice(0, 5))), [...all.values()].slice(0, 5));
      const result = redacted(format, body, { rules: { email: action }, hash_key: HASH_KEY });
      t.same(left(result, all), [], action);
      t.equal(result.length === body.length, action === 'mask', 'only a mask keeps the length');
    }
  });

  t.test(`${format}: every rule is searched in it`, async () => {
    for (const rule of RULE_NAMES) {
      const rules = { phone: 'mask' };
      fc.assert(
        fc.property(SECRETS[rule], (secret) => {
          const json = JSON.stringify(secret).slice(1, -1);
          const result = redacted(
            format,
            filledBody(format, () => ` ${secret} `),
            { rules },
          );
          return !result.includes(secret) && !result.includes(json);
        }),
        { numRuns: 10 },
      );
    }
  });

  t.test(`${format}: a body without a match stays as it was sent`, async (t) => {
    const body = filledBody(format, (place) => `nothing in ${place.replace('token', '')}`);
    const batch = redactedBatch(format, body);
    t.ok(batch.body.equals(body));
    t.equal(batch.changes, undefined, 'no verb was called');
  });
}

t.test('a compressed body stays compressed unless something is redacted', async (t) => {
  const settings = testSettings('processor', 'redaction');
  const processor = createProcessor(settings, config.parse({}));
  for (const [name, isRedacted] of [
    ['chat', false],
    ['jane@example.com', true],
  ] as const) {
    const batch = received(nativeBatch([nativeEvent({ name })], { encoding: 'gzip' }));
    const before = batch.body;
    await processor.process?.(batch, requestContext());
    applyEdits(batch);
    const sealed = seal(batch, requestContext());
    t.equal(sealed.encoding, isRedacted ? 'identity' : 'gzip');
    t.equal(sealed.body === before, !isRedacted);
    t.equal(sealed.body.includes(name), false);
  }
});

t.test('fields selects what is searched', async (t) => {
  const { fill, all } = numbered((n) => `jane${n}@example.com`);
  const body = filledBody('native', fill);
  const result = redacted('native', body, { fields: ['outputs', 'error'] });
  const redactedPlaces = [...all]
    .filter(([text]) => !result.includes(text))
    .map(([, place]) => place);
  const names = redactedPlaces.filter((place) => place.endsWith(' name'));
  const texts = redactedPlaces.filter((place) => !place.endsWith(' name'));
  t.ok(texts.length >= 8 && texts.every((place) => /^(outputs|error)/.test(place)), texts.join());
  t.ok(names.length > 0, 'names belong to no field');
});

t.test('ids, times and enumerations stay, and the events can still be read', async (t) => {
  const ids = {
    id: 'jane@example.com',
    trace_id: '4111111111111111',
    parent_id: 'bob@example.com',
  };
  const batch = redactedBatch('native', {
    events: [nativeEvent({ ...ids, name: 'x@example.com' })],
  });
  const [observation] = observe(seal(batch, requestContext()));
  t.match(observation, { id: ids.id, traceId: ids.trace_id, parentId: ids.parent_id });
  t.equal(observation?.name, '*************');
});

t.test('names of members that a format reads are not redacted', (t) => {
  const patterns = [{ name: 'words', pattern: '[a-z]{4,}[0-9_a-z]*' }];
  const fields = ['inputs', 'metadata', 'attributes'];
  const left = (format: Format, body: object) => {
    return redacted(format, body, { fields, patterns }).toString();
  };
  const native = { events: [{ trace_id: 'ab', inputs: { events: 'cdef' } }], more: 1 };
  t.equal(
    left('native', native),
    '{"events":[{"trace_id":"ab","inputs":{"******":"****"}}],"****":1}',
  );
  const note = { mime_type: 'a/b', bytes: 1, sha256: 'f'.repeat(64) };
  const runs = { post: [{ id: 'a', inputs: {}, attachments: { 'x.png': note } }], patch: [] };
  t.equal(left('runs', runs), JSON.stringify(runs));
  const keys = redacted('native', native, { keys: ['inputs'] }).toString();
  t.match(keys, '{"events":"****"}', 'they are names of keys all the same');
  t.end();
});

t.test('attachments stay with their run, whatever their names are', async (t) => {
  const note = (digit: string) => ({ mime_type: 'a/b', bytes: 1, sha256: digit.repeat(64) });
  const names = ['token', 'jane1@example.com', 'jane2@example.com', 'x.png'];
  const attachments = Object.fromEntries(names.map((name, i) => [name, note(`${i}`)]));
  const patterns = [{ name: 'hex', pattern: '[0-9a-f]{32,}' }];
  const body = { post: [{ id: 'a', attachments }], patch: [] };
  const batch = redactedBatch('runs', body, { patterns });
  const masked = '*'.repeat('jane1@example.com'.length);
  t.same(
    observe(rawBatch('runs', batch.body, 1))[0]?.details?.attachments,
    ['token', masked, masked, 'x.png'].map((name, i) => {
      return { name, contentType: 'a/b', bytes: 1, sha256: `${i}`.repeat(64) };
    }),
  );
});

t.test('members beside those of a note of an attachment are redacted', async (t) => {
  const note = { mime_type: 'a/b', bytes: 1, sha256: 'f'.repeat(64) };
  const attachments = {
    ...{ more: { ...note, note: 'jane@example.com' }, text: 'jane@example.com' },
    twice: { mime_type: 'a/b', bytes: 1, sha256: { deep: 'jane@example.com' } },
    token: { mime_type: 'a/b', sha256: 'f'.repeat(64), secret: 'a1' },
    type: { ...note, mime_type: 'jane@example.com' },
    both: { ...note, sha256: 'jane@example.com', left_out: 'too_large' },
  };
  const body = { post: [{ id: 'a', attachments }], patch: [] };
  t.notMatch(redacted('runs', body).toString(), /jane|a1/);
});

t.test('everything below a secret name is redacted, at any depth', async (t) => {
  const inputs = {
    password: 'a1',
    Secret: { list: ['b2', { x: 'c3' }], n: 4 },
    'x-api-key': ['d5'],
    tokens: 'keep',
    token: 12345,
    time_to_first_token: 0.25,
  };
  const result = JSON.parse(redacted('native', { events: [{ inputs }] }).toString());
  t.same(result.events[0].inputs, {
    password: '**',
    Secret: { list: ['**', { x: '**' }], n: 0 },
    'x-api-key': ['**'],
    tokens: 'keep',
    token: 0,
    time_to_first_token: 0.25,
  });
});

t.test(
  'attributes and entries of lists with a secret key are redacted in both encodings',
  async (t) => {
    const secrets = [
      {
        key: 'http.request.header.authorization',
        value: { arrayValue: { values: [{ stringValue: 'Bearer a1' }] } },
      },
      {
        key: 'password',
        value: { kvlistValue: { values: [{ key: 'x', value: { stringValue: 'b2' } }] } },
      },
      {
        key: 'map',
        value: { kvlistValue: { values: [{ key: 'apiKey', value: { stringValue: 'c3' } }] } },
      },
      { key: 'token', value: { intValue: '12345' } },
      { key: 'gen_ai.usage.input_tokens', value: { intValue: '77' } },
    ];
    const request = requestOf([
      {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: 'b7ad6b7169203331',
        attributes: secrets,
      },
    ]);
    const json = redacted('otlp_json', request).toString();
    const proto = JSON.stringify(decodeRequest(redacted('otlp_proto', encodeRequest(request))));
    for (const result of [json, proto]) {
      t.notMatch(result, /Bearer a1|"b2"|"c3"|12345/);
      t.match(result, /77/);
    }
  },
);

t.test('a number is redacted below an entry itself, at any depth and in every format', (t) => {
  const values = {
    password: [{ x: 70_001 }, 70_002, [[{ y: { z: 70_003 } }], 70_004]],
    secret_of_token: [{ token: 70_005 }, 80_001, { x: 80_002 }],
    token: { secret_of_token: { x: 70_006 } },
    pin: [{ password: { x: 70_007 } }, 80_003],
  };
  const attributes = attributesOf(values);
  const span = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), name: 'x', attributes };
  const request = requestOf([{ ...span, events: [{ name: 'x', attributes }] }]);
  const native = { events: [{ inputs: values, events: [{ attributes: values }], more: values }] };
  const results = [
    redacted('native', native),
    redacted('native', JSON.stringify(native).replaceAll('password', 'pass\\u0077ord')),
    redacted('runs', { post: [{ id: 'a', extra: values }], patch: [{ id: 'a', more: values }] }),
    redacted('otlp_json', request),
    JSON.stringify(decodeRequest(redacted('otlp_proto', encodeRequest(request)))),
  ];
  for (const result of results) {
    t.notMatch(result.toString(), /7000\d/);
    for (const kept of [80_001, 80_002, 80_003]) t.match(result.toString(), `${kept}`);
  }
  t.end();
});

t.test('the name of many numbers is read a bounded number of times', (t) => {
  const numbers = Array.from({ length: 1_000 }, () => [1, { a: 2 }]).flat();
  const body = { events: [{ inputs: { token: { 'first token': numbers } } }] };
  const batch = received(rawBatch('native', Buffer.from(JSON.stringify(body)), 1));
  const { bytes } = batch.index;
  let reads = 0;
  bytes.toString = (...range: Parameters<Buffer['toString']>) => {
    reads++;
    return Buffer.prototype.toString.apply(bytes, range);
  };
  const work = new Redactor(config.parse({}), () => undefined).redact(batch);
  while (work.next().done !== true);
  t.ok(reads < 100, `${reads} reads`);
  t.end();
});

t.test('an attribute whose value comes before its key is redacted in OTLP JSON', async (t) => {
  const request = JSON.stringify(
    requestOf([{ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' }]),
  ).replace('"spanId"', '"attributes":[{"value":{"stringValue":"a1"},"key":"password"}],"spanId"');
  t.equal(redacted('otlp_json', request).toString(), request.replace('a1', '**'));
});

t.test(
  'an attribute whose value is not directly behind its key is redacted in OTLP protobuf',
  async (t) => {
    const request = encodeRequest(
      requestOf([
        {
          ...{ traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' },
          attributes: [{ key: 'password', value: { stringValue: 'a1-of-four' } }],
        },
      ]),
    ).toString('latin1');
    const key = '\n\x08password';
    const value = '\x12\x0c\n\na1-of-four';
    const masked = value.replace('a1-of-four', '**********');
    for (const [sent, kept] of [
      [value + key, masked + key],
      [`${key}\x1a\x02ab\x12\x08\n\x06a1-of4`, `${key}\x1a\x02ab\x12\x08\n\x06******`],
    ] as const) {
      const body = Buffer.from(request.replace(key + value, sent), 'latin1');
      const result = redacted('otlp_proto', body).toString('latin1');
      t.equal(result, request.replace(key + value, kept));
    }
  },
);

t.test('a secret is found wherever chunks and windows of a long text begin and end', async () => {
  const filler = 'lorem ipsum dolor sit amet '.repeat(CHUNK_BYTES / 20);
  const at = fc.oneof(
    fc.integer({ min: -600, max: 600 }).map((distance) => CHUNK_BYTES + distance),
    fc.integer({ min: 0, max: filler.length }),
  );
  const secret = fc.oneof(...Object.values(SECRETS));
  fc.assert(
    fc.property(at, secret, secret, (position, first, second) => {
      const text = `${filler.slice(0, position)} ${first} x ${second} ${filler.slice(position)}`;
      const body = redacted('native', { events: [{ inputs: text }] }, { rules: { phone: 'mask' } });
      const result = JSON.parse(body.toString()).events[0].inputs as string;
      return !result.includes(first) && !result.includes(second);
    }),
    { numRuns: 200 },
  );
});

t.test('a secret is found behind and within a long value of another rule', async (t) => {
  const words = 'lorem ipsum '.repeat(200);
  for (const secret of ['jane@example.com', '4111 1111 1111 1111', 'sk-proj-abcdefghijklmnop']) {
    for (let distance = 0; distance < 6_000; distance += 400) {
      const filling = 'x '.repeat(distance / 2);
      for (const line of [
        `\nCookie: ${'a=b; '.repeat(300)}`,
        `"password": "${'a'.repeat(1500)}"`,
      ]) {
        const text = `${words}${line}\n${filling}${secret} ${words}`;
        t.notOk(redactedText(text).includes(secret), `${secret} ${distance} bytes behind a line`);
      }
      const address = `/p?token=a&${'b=c&'.repeat(distance / 4)}d=${secret}&${'e=f&'.repeat(1500)}`;
      const text = `${words}${address} ${words}`;
      t.notOk(redactedText(text).includes(secret), `${secret} ${distance} bytes behind a name`);
    }
  }
});

t.test('a key longer than any window is redacted as a whole', async (t) => {
  const block = `-----BEGIN PRIVATE KEY-----\n${`${'A'.repeat(64)}\n`.repeat(200)}-----END PRIVATE KEY-----`;
  const text = `${'x '.repeat(5_000)}${block}${' y'.repeat(5_000)}`;
  const result = JSON.parse(redacted('native', { events: [{ inputs: text }] }).toString());
  t.match(result.events[0].inputs, /^(x )+\*+( y)+$/);
});

t.test('counts edited items, and matches by rule', async (t) => {
  const metrics = recordingMetrics();
  const settings = { ...testSettings('processor', 'redaction'), metrics };
  const patterns = [{ name: 'ticket', pattern: 'TCK-[0-9]{6}' }];
  const processor = createProcessor(settings, config.parse({ patterns }));
  const inputs = { a: 'x@example.com', b: 'y@example.com and TCK-123456', token: 'z' };
  const batch = received(nativeBatch([nativeEvent({ inputs }), nativeEvent({})]));
  await processor.process?.(batch, requestContext());
  t.equal(takeEdited(batch), 1);
  const matches = (rule: string) => metrics.value('tracectl_redaction_matches_total', { rule });
  t.same([matches('email'), matches('ticket'), matches('keys'), matches('jwt')], [2, 1, 1, 0]);
});

t.test('a shared text that is redacted edits every item', async (t) => {
  const span = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
  const resource = { attributes: [{ key: 'owner', value: { stringValue: 'a@example.com' } }] };
  const batch = redactedBatch(
    'otlp_proto',
    encodeRequest(requestOf([span, span, span], { resource })),
  );
  t.equal(takeEdited(batch), 3);
});

t.test('rejected items are not searched', async (t) => {
  const batch = received(otlpBatch([{ name: 'a@example.com' }, { name: 'b@example.com' }]));
  const { drop } = await import('../../../src/model/verbs.ts');
  drop(batch, 0, 'test');
  const processor = createProcessor(testSettings('processor', 'redaction'), config.parse({}));
  await processor.process?.(batch, requestContext());
  t.equal(takeEdited(batch), 1);
});

t.test('a large body is searched in turns, and given up when its client has gone', async (t) => {
  const settings = testSettings('processor', 'redaction');
  const processor = createProcessor(
    { ...settings, clock: { ...settings.clock, now: () => performance.now() * 1000 } },
    config.parse({}),
  );
  const events = Array.from({ length: 200 }, (_, i) =>
    nativeEvent({ inputs: `x${i}@example.com ${'y '.repeat(2_000)}` }),
  );
  const batch = received(nativeBatch(events));
  let turns = 0;
  const ticker = setInterval(() => turns++, 0);
  const work = processor.process?.(batch, requestContext());
  t.ok(work instanceof Promise);
  await work;
  clearInterval(ticker);
  t.ok(turns > 0, 'timers ran in between');
  t.notMatch(batch.body.toString(), '@example.com');

  const aborted = new AbortController();
  const gone = processor.process?.(
    received(nativeBatch(events)),
    requestContext({ signal: aborted.signal }),
  );
  aborted.abort();
  await t.rejects(Promise.resolve(gone), { code: 'too_late' });
});

t.test('one item with many keys is redacted in turns', async (t) => {
  const keys = 50_000;
  const secrets = Object.fromEntries(Array.from({ length: keys }, (_, i) => [`k${i}`, i]));
  const body = { metadata: { ...secrets, password: 12_345, note: 'jane@example.com' } };
  const batch = received(nativeBatch([nativeEvent(body)]));
  const steps = new Redactor(config.parse({}), () => undefined).redact(batch);
  let yields = 0;
  while (steps.next().done !== true) yields++;
  t.ok(yields >= keys / MEMBERS_PER_STEP, `${yields} yields`);
  t.notMatch(batch.body.toString(), 'jane@example.com');
  t.match(batch.body.toString(), '"password":0');
});

t.test('many small items are redacted in turns', async (t) => {
  const items = 200;
  const text = 'jane@example.com';
  const batch = received(
    nativeBatch(Array.from({ length: items }, () => nativeEvent({ inputs: { text } }))),
  );
  const steps = new Redactor(config.parse({}), () => undefined).redact(batch);
  let yields = 0;
  while (steps.next().done !== true) yields++;
  t.ok(yields >= items, `${yields} yields`);
  t.notMatch(batch.body.toString(), text);
});

t.test('numbers below secret names are redacted in the configured fields only', async (t) => {
  const native = { events: [{ inputs: { password: 1234 }, metadata: { password: 5678 } }] };
  t.match(redacted('native', native, { fields: ['inputs'] }).toString(), '"password":5678');
  t.notMatch(redacted('native', native, { fields: ['inputs'] }).toString(), '1234');
  t.notMatch(redacted('native', native, { fields: ['inputs', 'metadata'] }).toString(), '5678');

  const attributes = attributesOf({ metadata: { password: 1234 }, app: { password: 5678 } });
  const span = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), name: 'x', attributes };
  const request = { resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] };
  const left = (fields: readonly string[]) => [
    redacted('otlp_json', request, { fields }).toString(),
    JSON.stringify(decodeRequest(redacted('otlp_proto', encodeRequest(request), { fields }))),
  ];
  for (const text of left(['metadata'])) {
    t.match(text, '5678');
    t.notMatch(text, '1234');
  }
  for (const text of left(['metadata', 'attributes'])) t.notMatch(text, /1234|5678/);
});

t.test('gzip of a redacted body is not kept', async (t) => {
  const body = gzipSync(JSON.stringify({ events: [nativeEvent({ name: 'jane@example.com' })] }));
  const batch = received(rawBatch('native', body, 1, { encoding: 'gzip' }));
  const processor = createProcessor(testSettings('processor', 'redaction'), config.parse({}));
  await processor.process?.(batch, requestContext());
  t.match(gunzipSync(body).toString(), 'jane@example.com');
  t.notMatch(batch.body.toString('latin1'), 'jane@example.com');
});

t.test('the texts of scores are redacted, and nothing else of them', async (t) => {
  const metrics = recordingMetrics();
  const settings = testSettings('processor', 'redaction', { metrics });
  const written = { fields: ['inputs'], rules: { email: 'hash' }, hash_key: HASH_KEY };
  const processor = createProcessor(settings, config.parse(written));
  const editor = findOffer(processor.offers ?? [], SCORE_EDITOR);
  const score = {
    ...{ id: 'jane@example.com', observationId: 'bob@example.com', name: 'password' },
    ...{ value: 'no', comment: null, source: null, at: 4_111_111_111_111_111 },
  };
  const other = {
    ...{ ...score, name: 'of jane@example.com', value: 'é {"password": "hunter2", "n": 1}' },
    ...{ comment: `${'x '.repeat(3000)}TOKEN=abc😀 4111111111111111`, source: 'a@b.org' },
  };
  const number = { ...score, value: 4_111_111_111_111_111 };
  const hash = /^\[HASH:[0-9a-f]{16}\]$/;
  const edited = await editor?.edit([score, other, number]);
  t.same([edited?.[0], edited?.[2]], [score, number]);
  t.match(edited?.[1], {
    ...{ id: score.id, observationId: score.observationId, at: score.at, source: hash },
    ...{ name: /^of \[HASH:[0-9a-f]{16}\]$/, value: 'é {"password": "*******", "n": 1}' },
  });
  t.equal(edited?.[1]?.comment, `${'x '.repeat(3000)}TOKEN=******* ****************`);
  t.equal(metrics.value('tracectl_redaction_matches_total', { rule: 'email' }), 2);
});
