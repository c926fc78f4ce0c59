import fc from 'fast-check';
import t from 'tap';
import { observe } from '../../../../src/model/formats.ts';
import { assembleRuns } from '../../../../src/model/runs/assemble.ts';
import {
  boundaryOf,
  MAX_PART_HEADER_BYTES,
  MAX_PART_NAME,
  MAX_PARTS,
  partsOf,
} from '../../../../src/model/runs/multipart.ts';
import { rawBatch } from '../../../helper/batches.ts';

/** As for a request; the wrapper of the runs has two levels. */
const LIMITS = { maxItems: 1000, maxDepth: 514 };

const BOUNDARY = '----LangSmithFormBoundary';

type Given = { name: string; content: string | Buffer; headers?: string };

/** A body as LangSmith's clients make it. */
function bodyOf(parts: readonly Given[], boundary = BOUNDARY): Buffer {
  const pieces = parts.flatMap(({ name, content, headers = 'Content-Type: application/json' }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n${headers}\r\n\r\n`,
    ),
    typeof content === 'string' ? Buffer.from(content) : content,
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

function assembled(parts: readonly Given[]) {
  const { body, ...more } = assembleRuns(bodyOf(parts), BOUNDARY, LIMITS);
  return { json: JSON.parse(body.toString()) as unknown, ...more };
}

const refused = (message: RegExp, code = 'invalid_request') => ({ code, message });

t.test('reads the boundary of a content type', async (t) => {
  for (const [type, boundary] of [
    ['multipart/form-data; boundary=abc', 'abc'],
    ['multipart/form-data;boundary="a b;c"', 'a b;c'],
    ['multipart/form-data; charset=utf-8; BOUNDARY=----x ; y=1', '----x'],
    [`multipart/form-data; boundary=${'x'.repeat(200)}`, 'x'.repeat(200)],
    [`multipart/form-data; boundary=${'x'.repeat(201)}`, undefined],
    ['multipart/form-data', undefined],
    ['multipart/form-data; boundary=', undefined],
    ['multipart/form-data; boundary="', undefined],
  ] as const) {
    t.equal(boundaryOf(type), boundary, type.slice(0, 60));
  }
});

t.test('puts runs together from their parts, whatever their order', async (t) => {
  const { json, faults, leftOut } = assembled([
    { name: 'patch.b', content: '{"id":"b","end_time":"2026-01-15T12:00:01Z"}' },
    { name: 'post.a.inputs', content: '{"x":[1, 2]}' },
    { name: 'post.a', content: ' {"id":"a","name":"n"} \n' },
    { name: 'patch.b.outputs', content: '{"y":2}' },
    { name: 'post.a.error', content: '"boom"' },
    { name: 'post.a.extra', content: '{"metadata":{}}' },
    { name: 'post.a.events', content: '[]' },
    { name: 'post.a.serialized', content: 'null' },
    { name: 'post.dotted.id', content: '{}' },
    { name: 'post.dotted.id.inputs', content: '{}' },
  ]);
  t.same(json, {
    post: [
      {
        ...{ id: 'a', name: 'n', inputs: { x: [1, 2] }, error: 'boom' },
        ...{ extra: { metadata: {} }, events: [], serialized: null },
      },
      { inputs: {} },
    ],
    patch: [{ id: 'b', end_time: '2026-01-15T12:00:01Z', outputs: { y: 2 } }],
  });
  t.same(faults, []);
  t.same(leftOut, { attachments: 0, others: 0 });
});

t.test('a field in a part of its own comes before one in the run', async (t) => {
  const { json } = assembled([
    { name: 'post.a', content: '{"id":"a","inputs":null}' },
    { name: 'post.a.inputs', content: '{"x":1}' },
  ]);
  t.same(json, { post: [{ id: 'a', inputs: { x: 1 } }], patch: [] });
});

t.test('a second run with the same id is another item', async (t) => {
  const { json } = assembled([
    { name: 'post.a', content: '{"id":"a","name":"1"}' },
    { name: 'post.a', content: '{"id":"a","name":"2"}' },
    { name: 'post.a.inputs', content: '{}' },
  ]);
  t.same(json, {
    post: [
      { id: 'a', name: '1' },
      { id: 'a', name: '2', inputs: {} },
    ],
    patch: [],
  });
});

t.test('a part that is no JSON costs its run only', async (t) => {
  const good = { name: 'post.good', content: '{"id":"good"}' };
  const run = { name: 'patch.bad', content: '{"id":"bad"}' };
  for (const [parts, code, path] of [
    [[{ name: 'patch.bad', content: '{"id":' }], 'invalid_event', undefined],
    [[{ name: 'patch.bad', content: '[]' }], 'invalid_event', undefined],
    [[{ name: 'patch.bad', content: '' }], 'invalid_event', undefined],
    [[{ name: 'patch.bad', content: '{}{}' }], 'invalid_event', undefined],
    [[{ name: 'patch.bad', content: Buffer.from('{"a":"\xff"}', 'latin1') }], 'invalid_event'],
    [[run, { name: 'patch.bad.inputs', content: '1},{"id":"evil"' }], 'invalid_field', 'inputs'],
    [[run, { name: 'patch.bad.outputs', content: '' }], 'invalid_field', 'outputs'],
    [[run, { name: 'patch.bad.outputs', content: ' \n' }], 'invalid_field', 'outputs'],
    [[run, { name: 'patch.bad.inputs', content: '1,"name":"x"' }], 'invalid_field', 'inputs'],
    [
      [run, { name: 'patch.bad.serialized', content: '1,"name":"x"' }],
      'invalid_field',
      'serialized',
    ],
    [
      [
        { name: 'patch.bad', content: '{"id":"bad","x":{"y":1}' },
        { name: 'patch.bad.inputs', content: '{}}' },
      ],
      ...(['invalid_event', undefined] as const),
    ],
    [
      [
        { name: 'patch.bad', content: '{"id":"bad","x":[1}' },
        { name: 'patch.bad.inputs', content: '1],"inputs":{}' },
      ],
      ...(['invalid_event', undefined] as const),
    ],
    [[{ name: 'patch.bad', content: '{"id":"bad"},{"id":"evil"}' }], 'invalid_event'],
    [[run, { name: 'patch.bad.error', content: 'boom' }], 'invalid_field', 'error'],
    [[{ name: 'patch.bad', content: '\u0001{"id":"bad"}' }], 'invalid_event'],
    [[{ name: 'patch.bad', content: '{"id":"bad"}\u0000' }], 'invalid_event'],
    [[{ name: 'patch.bad.inputs', content: '{}' }], 'missing_field', undefined],
  ] as const) {
    const { json, faults } = assembled([good, ...parts]);
    t.same(json, { post: [{ id: 'good' }], patch: [{ id: 'bad' }] });
    t.match(faults, [{ item: 1, code, ...(path === undefined ? {} : { path }) }]);
    t.equal(faults.length, 1);
  }
});

t.test('the nesting of a run and of its fields is bounded as in a batch', async (t) => {
  const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  const faultsAt = (depth: number) =>
    assembled([
      { name: 'post.a', content: '{"id":"a"}' },
      { name: 'post.a.inputs', content: deep(depth) },
    ]).faults.length;
  t.equal(faultsAt(511), 0);
  t.equal(faultsAt(512), 1);
});

t.test('counts the parts that are neither runs nor their fields', async (t) => {
  const { json, leftOut, feedback } = assembled([
    { name: 'post.a', content: '{"id":"a"}' },
    { name: 'attachment.a.image', content: Buffer.from([0, 255, 13, 10]), headers: 'X: y' },
    { name: 'attachment.unknown.image', content: '' },
    { name: 'feedback.f', content: '{}' },
    { name: 'postx', content: '{}' },
    { name: '', content: '{}' },
  ]);
  const image = { mime_type: 'application/octet-stream', bytes: 4, left_out: 'no_store' };
  t.same(json, { post: [{ id: 'a', attachments: { image } }], patch: [] });
  t.same(leftOut, { attachments: 2, others: 2 });
  t.match(feedback, [{ id: 'f', json: Buffer.from('{}') }]);
});

t.test('parts keep their bytes, whatever they contain', async (t) => {
  const nasty = fc.constantFrom(
    ...['\r\n', '--', `--${BOUNDARY}`, `\r\n--${BOUNDARY}x`, `\r\n--${BOUNDARY.slice(0, -1)}`],
    ...['\r', '\n', '\r'.repeat(9), '\r\n\r\n', `\r\n--${BOUNDARY} x`, `\n--${BOUNDARY}--`],
  );
  const content = fc
    .array(fc.oneof(nasty, fc.string({ maxLength: 20 })), { maxLength: 8 })
    .map((pieces) => pieces.join(''))
    // A part that begins with a boundary begins behind the line break of its headers.
    .filter((text) => !`\r\n${text}\r\n`.includes(`\r\n--${BOUNDARY}--`))
    .filter((text) => !new RegExp(`\r\n--${BOUNDARY}[ \t]*\r\n`).test(`\r\n${text}\r\n`));
  const part = fc.record({
    name: fc.oneof(
      fc.string({ unit: fc.constantFrom('a', '.', '"', '\\', ' ', 'ü', ';'), maxLength: 12 }),
      fc.string({ unit: fc.constantFrom('a', '.'), maxLength: 12 }),
    ),
    content,
  });
  const headers = fc.constantFrom('Content-Type: application/json', 'X: y', 'x: name="b"');
  fc.assert(
    fc.property(
      fc.array(part, { maxLength: 5 }),
      fc.array(headers, { minLength: 5, maxLength: 5 }),
      fc.constantFrom('', 'preamble', 'pre\r\namble\r\n'),
      fc.constantFrom('', 'epilogue', '\r\n--'),
      (parts, headers, preamble, epilogue) => {
        const quoted = parts.map(({ name, content }, i) => ({
          name: name.replaceAll(/["\\]/g, '\\$&'),
          content,
          headers: headers[i] ?? '',
        }));
        const between = preamble === '' || preamble.endsWith('\r\n') ? '' : '\r\n';
        const whole = Buffer.concat([
          Buffer.from(preamble + between),
          bodyOf(quoted),
          Buffer.from(epilogue),
        ]);
        const found = partsOf(whole, BOUNDARY).map(({ name, start, end }) => ({
          name,
          content: whole.toString('utf8', start, end),
        }));
        t.same(found, parts);
      },
    ),
    { numRuns: 500 },
  );
});

t.test('the spelling of the headers makes no difference to the batch', async (t) => {
  const name = fc
    .tuple(
      fc.constantFrom('post', 'patch'),
      fc.constantFrom('.a', '.ab', '.a.b', '.inputs', '.', ''),
      fc.constantFrom('', '.inputs', '.outputs', '.serialized', '.input', '.x', '.'),
    )
    .map((pieces) => pieces.join(''));
  const content = fc.constantFrom('{"id":"a"}', '{}', ' {"x":[1]} ', '[]', '7', '{', '');
  const part = fc.record({ name, content });
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
      const usual = bodyOf(parts);
      // Headers in another form are read in another way.
      const other = Buffer.from(usual.toString().replaceAll('form-data; name', 'form-data;name'));
      const read = (body: Buffer) => {
        const { body: json, faults, leftOut } = assembleRuns(body, BOUNDARY, LIMITS);
        return { json: json.toString(), faults, leftOut };
      };
      t.same(read(usual), read(other));
    }),
    { numRuns: 1000 },
  );
});

t.test('any damage of a body is refused or read, and nothing else', async (t) => {
  const valid = bodyOf([
    { name: 'post.a', content: '{"id":"a"}' },
    { name: 'post.a.inputs', content: '{"x":"y"}' },
    { name: 'attachment.a.f', content: Buffer.alloc(40, 7) },
  ]);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 4 }),
      fc.nat(valid.length),
      (changes, length) => {
        const damaged = Buffer.from(valid.subarray(0, length));
        for (const [at, byte] of changes) if (at < length) damaged[at] = byte;
        try {
          JSON.parse(assembleRuns(damaged, BOUNDARY, LIMITS).body.toString());
        } catch (error) {
          t.match(error, { name: 'Refusal' });
        }
      },
    ),
    { numRuns: 1000 },
  );
});

t.test('refuses a body that is cut, at any byte', async (t) => {
  const valid = bodyOf([{ name: 'post.a', content: '{"id":"a"}' }]);
  const needed = valid.length - 2;
  for (let length = 0; length < needed; length++) {
    t.throws(() => partsOf(valid.subarray(0, length), BOUNDARY), { code: 'invalid_request' });
  }
  t.equal(
    partsOf(valid.subarray(0, needed), BOUNDARY).length,
    1,
    'the last line break is optional',
  );
  t.equal(partsOf(Buffer.from(`--${BOUNDARY}--`), BOUNDARY).length, 0);
  t.throws(() => partsOf(Buffer.alloc(0), BOUNDARY), refused(/cut/));
  t.throws(() => partsOf(valid, `${BOUNDARY}x`), refused(/cut/));
});

t.test('names and headers of parts are accepted up to their limits', async (t) => {
  const named = (length: number) => bodyOf([{ name: 'x'.repeat(length), content: '' }]);
  t.equal(partsOf(named(MAX_PART_NAME), BOUNDARY).length, 1);
  t.throws(() => partsOf(named(MAX_PART_NAME + 1), BOUNDARY), refused(/name of a part exceeds/));
  const rest = 'Content-Disposition: form-data; name="a"\r\nX: '.length;
  const headed = (bytes: number) =>
    bodyOf([{ name: 'a', content: '', headers: `X: ${'y'.repeat(bytes - rest)}` }]);
  t.equal(partsOf(headed(MAX_PART_HEADER_BYTES), BOUNDARY).length, 1);
  t.throws(
    () => partsOf(headed(MAX_PART_HEADER_BYTES + 1), BOUNDARY),
    refused(/headers of a part/),
  );
  for (const headers of ['', 'Content-Type: x\r\n', 'Content-Disposition: form-data\r\n']) {
    const body = Buffer.from(`--${BOUNDARY}\r\n${headers}\r\n{}\r\n--${BOUNDARY}--`);
    t.throws(() => partsOf(body, BOUNDARY), refused(/no name/));
  }
});

t.test('a body has a bounded number of parts', async (t) => {
  const parts = (count: number) =>
    bodyOf(Array.from({ length: count }, () => ({ name: 'a', content: '' })));
  t.equal(partsOf(parts(MAX_PARTS), BOUNDARY).length, MAX_PARTS);
  t.throws(() => partsOf(parts(MAX_PARTS + 1), BOUNDARY), refused(/parts/, 'too_many_events'));
});

t.test('an observation notes attachments that a client wrote into the run', async (t) => {
  const ignoredOf = (attachments: string) => {
    const body = Buffer.from(`{"post":[{"id":"a","attachments":${attachments}}],"patch":[]}`);
    return observe(rawBatch('runs', body, 1))[0]?.details?.ignored;
  };
  const noted = [{ path: 'attachments', reason: 'are not stored' }];
  t.same(ignoredOf('{"image":{"bytes":1}}'), noted);
  t.same(ignoredOf('{ \n"a":null}'), noted);
  for (const none of ['{}', '{ \n}', 'null', '[]', '"x"'])
    t.equal(ignoredOf(none), undefined, none);
});
