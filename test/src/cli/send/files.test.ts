import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { splitLines } from '../../../../src/cli/send/lines.ts';
import { otlpJsonBody } from '../../../helper/batches.ts';
import {
  allIn,
  directoryOf,
  idsOf,
  lineOf,
  numbersIn,
  rigOf,
  sendCommand,
  summaryIn,
  write,
} from './rig.ts';

t.test(
  'sends each line as a request, in protobuf and gzip, with the key as a bearer token',
  async (t) => {
    const { cwd, server } = await rigOf(t);
    const file = write(cwd, [lineOf(1, 2), lineOf(3)]);
    const run = await sendCommand(cwd, [
      'otlp',
      '--file',
      file,
      '--endpoint',
      server.url,
      '--key',
      'k-1',
    ]);
    t.equal(run.status, 0);
    t.match(run.out, /^3 spans accepted, in .*: 2 requests, /);
    t.equal(run.err, '');
    t.same(allIn(server), [1, 2, 3]);
    t.same(
      numbersIn(server.requests)
        .map(({ length }) => length)
        .sort(),
      [1, 2],
    );
    for (const { path, headers } of server.requests) {
      t.equal(path, '/v1/traces');
      t.match(headers, {
        'content-type': 'application/x-protobuf',
        'content-encoding': 'gzip',
        authorization: 'Bearer k-1',
      });
    }
  },
);

t.test('sends every field of a line', async (t) => {
  const { cwd, server } = await rigOf(t);
  const spanLine = {
    ...idsOf(7),
    parentSpanId: idsOf(8).spanId,
    name: 'chat',
    kind: 3,
    startTimeUnixNano: '1768478398000000001',
    endTimeUnixNano: '1768478399500000002',
    attributes: [
      { key: 'text', value: { stringValue: 'größer\n' } },
      { key: 'large', value: { intValue: '9007199254740993' } },
      {
        key: 'list',
        value: { arrayValue: { values: [{ doubleValue: 0.5 }, { boolValue: true }] } },
      },
    ],
    events: [{ timeUnixNano: '1768478399000000000', name: 'token', attributes: [] }],
    links: [{ traceId: idsOf(9).traceId, spanId: idsOf(9).spanId }],
    status: { code: 2, message: 'no' },
  };
  const request = { resourceSpans: [{ resource: {}, scopeSpans: [{ spans: [spanLine] }] }] };
  const file = write(cwd, [JSON.stringify(request)]);
  const sent = await sendCommand(cwd, ['otlp', '-f', file, '--endpoint', server.url]);
  t.equal(sent.status, 0);
  const [got] = server.requests[0]?.spans ?? [];
  t.match(got, {
    ...spanLine,
    events: [{ timeUnixNano: '1768478399000000000', name: 'token' }],
    startTimeUnixNano: /^1768478398000000001$/,
  });
});

t.test('sends JSON as the bytes of the line, with unknown fields', async (t) => {
  const { cwd, server } = await rigOf(t);
  const line = lineOf(1).replace('"name":"chat"', '"name":"chat", "later":{"a":[1]}');
  const file = write(cwd, [line]);
  const json = ['--encoding', 'json', '--compression', 'none'];
  const run = await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url, ...json]);
  t.equal(run.status, 0);
  const [request] = server.requests;
  t.equal(request?.body.toString(), line);
  t.equal(request?.headers['content-type'], 'application/json');
  t.notOk(request?.headers['content-encoding']);
});

t.test('compresses requests with zstd', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(4)]);
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--compression', 'zstd'],
  ]);
  t.equal(run.status, 0);
  t.equal(server.requests[0]?.headers['content-encoding'], 'zstd');
  t.same(allIn(server), [4]);
});

t.test('detects plain, gzip and zstd by the first bytes, also with several frames', async (t) => {
  const { cwd, server } = await rigOf(t);
  const plain = write(cwd, [lineOf(1)]);
  const packed: [string, Buffer][] = [
    ['a.gz', gzipSync(`${lineOf(2)}\n`)],
    ['named-otherwise.txt', Buffer.concat([gzipSync(`${lineOf(3)}\n`), gzipSync(lineOf(4))])],
    ['b.zst', zstdCompressSync(`${lineOf(5)}\n`)],
    ['c.zst', Buffer.concat([zstdCompressSync(`${lineOf(6)}\n`), zstdCompressSync(lineOf(7))])],
  ];
  for (const [name, bytes] of packed) writeFileSync(join(cwd, name), bytes);
  writeFileSync(join(cwd, 'empty'), '');
  const files = [plain, 'empty', ...packed.map(([name]) => name)];
  const run = await sendCommand(cwd, [
    'otlp',
    ...files.flatMap((name) => ['--file', name]),
    ...['--endpoint', server.url, '--json'],
  ]);
  t.equal(run.status, 0);
  t.same(allIn(server), [1, 2, 3, 4, 5, 6, 7]);
  t.match(summaryIn(run), { lines: 7, spans: 7, accepted: 7, left_out: 0, stopped: null });
});

t.test('reads stdin for -, in chunks of any size', async (t) => {
  const { cwd, server } = await rigOf(t);
  for (const bytes of [Buffer.from(`${lineOf(1)}\n${lineOf(2)}\n`), gzipSync(lineOf(3))]) {
    const input = async function* () {
      for (let at = 0; at < bytes.length; at += 3) yield bytes.subarray(at, at + 3);
    };
    const run = await sendCommand(cwd, ['otlp', '--file', '-', '--endpoint', server.url], {
      input,
    });
    t.equal(run.status, 0);
  }
  t.same(allIn(server), [1, 2, 3]);
  const twice = await sendCommand(cwd, ['otlp', '--file', '-', '--file', '-']);
  t.match(twice, { status: 64, err: /can be read only once/ });
});

t.test('names and skips a line that cannot be read', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [
    lineOf(1),
    '{"resourceSpans":[',
    'no JSON',
    '',
    '{"resourceSpans":{}}',
    '{"resourceLogs":[]}',
    '{"resourceSpans":[]}',
    `  ${lineOf(2)}\r`,
    '[]',
  ]);
  const run = await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--json']);
  t.equal(run.status, 1);
  t.same(allIn(server), [1, 2]);
  t.match(summaryIn(run), { accepted: 2, left_out: 5, refused: 0, requests: 2 });
  const named = run.err.split('\n').map((line) => line.split(': skipped: ')[0]);
  t.same(
    named,
    ['2', '3', '5', '6', '9'].map((line) => `spans.jsonl:${line}`),
  );
  t.match(run.err, 'spans.jsonl:6: skipped: the line has no resourceSpans');
});

t.test('sends the lines before the end of a truncated file', async (t) => {
  const { cwd, server } = await rigOf(t);
  // The ids compress badly, so the cut file still has many complete lines.
  const lines = Array.from({ length: 2000 }, (_, i) => lineOf(i + 1)).join('\n');
  const packed = gzipSync(lines);
  writeFileSync(join(cwd, 'cut.gz'), packed.subarray(0, packed.length >> 1));
  writeFileSync(join(cwd, 'next'), lineOf(9999));
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', 'cut.gz', '--file', 'next', '--endpoint', server.url, '--json'],
    ...['--max-spans', '500'],
  ]);
  t.equal(run.status, 1);
  t.match(
    run.err,
    /^cut\.gz:\d+: skipped: the rest of the file cannot be read: unexpected end of file$/,
  );
  const { accepted, left_out } = summaryIn(run);
  t.equal(left_out, 1);
  t.ok(Number(accepted) > 100, String(accepted));
  t.equal(allIn(server).at(-1), 9999);
});

t.test('skips a line above the limit, and takes one exactly at it', async (t) => {
  const chunk = Buffer.from('aaaaaaa\nbbbb\ncc');
  const chunks = async function* () {
    for (let at = 0; at < chunk.length; at += 2) yield chunk.subarray(at, at + 2);
  };
  const lines: [number, string | undefined][] = [];
  for await (const { number, bytes } of splitLines(chunks(), 4)) {
    lines.push([number, bytes?.toString()]);
  }
  t.same(lines, [
    [1, undefined],
    [2, 'bbbb'],
    [3, 'cc'],
  ]);
});

t.test('splits lines the same way for chunks of any size', async (t) => {
  const text = fc.array(fc.constantFrom('a', 'ß', '', '\r', '{}'), { maxLength: 5 });
  const arbitrary = fc.record({
    lines: fc.array(text.map((parts) => parts.join('x'))),
    cuts: fc.array(fc.nat(40), { maxLength: 6 }),
  });
  await fc.assert(
    fc.asyncProperty(arbitrary, async ({ lines, cuts }) => {
      const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
      const at = [
        0,
        ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b),
        bytes.length,
      ];
      const chunks = async function* () {
        for (const [i, end] of at.entries()) yield bytes.subarray(at[i - 1] ?? 0, end);
      };
      const found: string[] = [];
      for await (const { number, bytes } of splitLines(chunks(), 1000)) {
        found[number - 1] = bytes?.toString() ?? 'none';
      }
      t.strictSame(
        found,
        lines.map((line) => line.replace(/\r$/, '')),
      );
    }),
    { numRuns: 50 },
  );
});

t.test('ignores a byte order mark', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [`\ufeff${lineOf(1)}`]);
  t.equal((await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url])).status, 0);
  t.same(allIn(server), [1]);
});

for (const encoding of ['protobuf', 'json']) {
  t.test(`--max-spans cuts lines and joins them, in ${encoding}`, async (t) => {
    const { cwd, server } = await rigOf(t);
    const lines = [lineOf(1, 7), lineOf(8), lineOf(9), lineOf(10, 11), lineOf(12, 13)];
    const one = write(cwd, lines.slice(0, 3), 'one');
    const two = write(cwd, lines.slice(3), 'two');
    server.always({ status: 400 });
    const run = await sendCommand(cwd, [
      ...['otlp', '--file', one, '--file', two, '--endpoint', server.url, '--encoding', encoding],
      ...['--max-spans', '3', '--concurrency', '1'],
    ]);
    t.equal(run.status, 1);
    t.same(numbersIn(server.requests), [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13]]);
    const names = run.err.split('\n').map((line) => line.split(': ')[0]);
    t.same(names, ['one:1', 'one:1', 'one:1-3', 'two:1-2', 'two:2']);
  });
}

t.test('--max-spans joins lines up to 8 MiB', async (t) => {
  const { cwd, server } = await rigOf(t);
  const large = (n: number) =>
    otlpJsonBody([{ ...idsOf(n), attributes: { text: 'x'.repeat(3 * 1024 * 1024) } }]).toString();
  const file = write(cwd, [large(1), large(2), large(3)]);
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--max-spans', '1000'],
    ...['--concurrency', '1', '--compression', 'none'],
  ]);
  t.equal(run.status, 0);
  t.same(numbersIn(server.requests), [[1, 2], [3]]);
});

t.test('--from-line skips lines of the first file only', async (t) => {
  const { cwd, server } = await rigOf(t);
  const one = write(cwd, [lineOf(1), 'bad', lineOf(3)], 'one');
  const two = write(cwd, [lineOf(4)], 'two');
  const files = ['--file', one, '--file', two, '--from-line', '3'];
  const run = await sendCommand(cwd, ['otlp', ...files, '--endpoint', server.url]);
  t.match(run, { status: 0, err: '' });
  t.same(allIn(server), [3, 4]);
});

t.test('--dry-run counts without sending', async (t) => {
  const cwd = directoryOf(t);
  const file = write(cwd, [lineOf(1, 5), 'bad', lineOf(6)]);
  const run = await sendCommand(cwd, ['otlp', '--file', file, '--dry-run', '--rate', '1']);
  t.equal(run.status, 1);
  t.equal(
    run.out,
    '6 spans in 2 lines; dry run, nothing was sent.\n  skipped 1 line that cannot be read',
  );
});

t.test('reports a file that cannot be read before the first request', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1)]);
  mkdirSync(join(cwd, 'folder'));
  for (const [name, reason] of [
    ['none', 'none cannot be read: it does not exist'],
    ['folder', 'folder is a directory'],
  ] as const) {
    const run = await sendCommand(cwd, [
      ...['otlp', '--file', file, '--file', name, '--endpoint', server.url],
    ]);
    t.match(run, { status: 1, err: reason });
  }
  t.equal(server.requests.length, 0);
});
