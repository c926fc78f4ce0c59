import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync, zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { runCli } from '../../../src/cli/program.ts';
import { linesOf } from '../../../src/cli/send/lines.ts';
import {
  type Progress,
  renderBar,
  renderLine,
  size,
  span,
} from '../../../src/cli/send/progress.ts';
import { newTally } from '../../../src/cli/send/tally.ts';
import type { Terminal } from '../../../src/cli/terminal.ts';
import { scan } from '../../../src/model/formats.ts';
import { otlpJsonBody } from '../../helper/batches.ts';
import {
  ACCEPTED,
  type OtlpServer,
  partialSuccess,
  type Received,
  startOtlpServer,
} from '../../helper/otlp-server.ts';

t.setTimeout(60_000);

function directoryOf(t: Test): string {
  const directory = mkdtempSync(join(tmpdir(), 'tracectl-send-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

type Run = {
  readonly status: number;
  readonly out: string;
  readonly err: string;
};

/** Carries out `tracectl send …` in this process. */
async function send(cwd: string, argv: readonly string[], more: Partial<Terminal> = {}) {
  const out: string[] = [];
  const err: string[] = [];
  const status = await runCli(['send', ...argv], {
    cwd,
    env: {},
    out: (text) => out.push(text),
    err: (text) => err.push(text),
    ...more,
  });
  return { status, out: out.join('\n'), err: err.join('\n') } satisfies Run;
}

function summaryIn({ out }: Run): Record<string, unknown> {
  return JSON.parse(out) as Record<string, unknown>;
}

/** The span that has this number everywhere. */
function idsOf(n: number) {
  return { traceId: n.toString(16).padStart(32, '0'), spanId: n.toString(16).padStart(16, '0') };
}

/** One request with the spans from one number on, up to and with another. */
function lineOf(from: number, to = from): string {
  const spans = Array.from({ length: to - from + 1 }, (_, i) => idsOf(from + i));
  return otlpJsonBody(spans).toString();
}

function write(directory: string, lines: readonly string[], name = 'spans.jsonl'): string {
  writeFileSync(join(directory, name), lines.map((line) => `${line}\n`).join(''));
  return name;
}

function numbersIn(requests: readonly Received[]): number[][] {
  return requests.map(({ spans }) => spans.map(({ spanId }) => Number.parseInt(spanId ?? '', 16)));
}

function allIn(server: OtlpServer): number[] {
  return numbersIn(server.requests)
    .flat()
    .sort((a, b) => a - b);
}

async function room(t: Test) {
  return { cwd: directoryOf(t), server: await startOtlpServer(t) };
}

t.test(
  'each line is a request, in protobuf and gzip, with the key as a bearer token',
  async (t) => {
    const { cwd, server } = await room(t);
    const file = write(cwd, [lineOf(1, 2), lineOf(3)]);
    const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--key', 'k-1']);
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

t.test('what is sent is what stands in the file', async (t) => {
  const { cwd, server } = await room(t);
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
  const sent = await send(cwd, ['otlp', '-f', file, '--endpoint', server.url]);
  t.equal(sent.status, 0);
  const [got] = server.requests[0]?.spans ?? [];
  t.match(got, {
    ...spanLine,
    events: [{ timeUnixNano: '1768478399000000000', name: 'token' }],
    startTimeUnixNano: /^1768478398000000001$/,
  });
});

t.test('JSON leaves as the bytes of the line, unknown fields too', async (t) => {
  const { cwd, server } = await room(t);
  const line = lineOf(1).replace('"name":"chat"', '"name":"chat", "later":{"a":[1]}');
  const file = write(cwd, [line]);
  const json = ['--encoding', 'json', '--compression', 'none'];
  const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, ...json]);
  t.equal(run.status, 0);
  const [request] = server.requests;
  t.equal(request?.body.toString(), line);
  t.equal(request?.headers['content-type'], 'application/json');
  t.notOk(request?.headers['content-encoding']);
});

t.test('zstd compresses requests', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [lineOf(4)]);
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--compression', 'zstd'],
  ]);
  t.equal(run.status, 0);
  t.equal(server.requests[0]?.headers['content-encoding'], 'zstd');
  t.same(allIn(server), [4]);
});

t.test('files are plain, gzip or zstd by their first bytes, of several parts too', async (t) => {
  const { cwd, server } = await room(t);
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
  const run = await send(cwd, [
    'otlp',
    ...files.flatMap((name) => ['--file', name]),
    ...['--endpoint', server.url, '--json'],
  ]);
  t.equal(run.status, 0);
  t.same(allIn(server), [1, 2, 3, 4, 5, 6, 7]);
  t.match(summaryIn(run), { lines: 7, spans: 7, accepted: 7, left_out: 0, stopped: null });
});

t.test('- is stdin, however its bytes are cut', async (t) => {
  const { cwd, server } = await room(t);
  for (const bytes of [Buffer.from(`${lineOf(1)}\n${lineOf(2)}\n`), gzipSync(lineOf(3))]) {
    const input = async function* () {
      for (let at = 0; at < bytes.length; at += 3) yield bytes.subarray(at, at + 3);
    };
    const run = await send(cwd, ['otlp', '--file', '-', '--endpoint', server.url], { input });
    t.equal(run.status, 0);
  }
  t.same(allIn(server), [1, 2, 3]);
  const twice = await send(cwd, ['otlp', '--file', '-', '--file', '-']);
  t.match(twice, { status: 64, err: /can be read once only/ });
});

t.test('a line that cannot be read is named and left out, the rest goes on', async (t) => {
  const { cwd, server } = await room(t);
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
  const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--json']);
  t.equal(run.status, 1);
  t.same(allIn(server), [1, 2]);
  t.match(summaryIn(run), { accepted: 2, left_out: 5, refused: 0, requests: 2 });
  const named = run.err.split('\n').map((line) => line.split(': left out: ')[0]);
  t.same(
    named,
    ['2', '3', '5', '6', '9'].map((line) => `spans.jsonl:${line}`),
  );
  t.match(run.err, 'spans.jsonl:6: left out: the line has no resourceSpans');
});

t.test('a file that ends in the middle gives what is before that', async (t) => {
  const { cwd, server } = await room(t);
  // Random ids do not compress, so that the first line is whole well before the cut.
  const lines = Array.from({ length: 2000 }, (_, i) => lineOf(i + 1)).join('\n');
  const packed = gzipSync(lines);
  writeFileSync(join(cwd, 'cut.gz'), packed.subarray(0, packed.length >> 1));
  writeFileSync(join(cwd, 'next'), lineOf(9999));
  const run = await send(cwd, [
    ...['otlp', '--file', 'cut.gz', '--file', 'next', '--endpoint', server.url, '--json'],
    ...['--max-spans', '500'],
  ]);
  t.equal(run.status, 1);
  t.match(run.err, /^cut\.gz:\d+: left out: the file cannot be read on: unexpected end of file$/);
  const { accepted, left_out } = summaryIn(run);
  t.equal(left_out, 1);
  t.ok(Number(accepted) > 100, String(accepted));
  t.equal(allIn(server).at(-1), 9999);
});

t.test('a line above the bound is read over without holding it', async (t) => {
  const chunk = Buffer.from('aaaaaaa\nbbbb\ncc');
  const chunks = async function* () {
    for (let at = 0; at < chunk.length; at += 2) yield chunk.subarray(at, at + 2);
  };
  const lines: [number, string | undefined][] = [];
  for await (const { number, bytes } of linesOf(chunks(), 4)) {
    lines.push([number, bytes?.toString()]);
  }
  t.same(lines, [
    [1, undefined],
    [2, 'bbbb'],
    [3, 'cc'],
  ]);
});

t.test('lines are the same however the chunks are cut', async (t) => {
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
      for await (const { number, bytes } of linesOf(chunks(), 1000)) {
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

t.test('a mark of UTF-8 at the beginning is not part of the first line', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [`\ufeff${lineOf(1)}`]);
  t.equal((await send(cwd, ['otlp', '--file', file, '--endpoint', server.url])).status, 0);
  t.same(allIn(server), [1]);
});

for (const encoding of ['protobuf', 'json']) {
  t.test(`--max-spans cuts lines and joins them, in ${encoding}`, async (t) => {
    const { cwd, server } = await room(t);
    const lines = [lineOf(1, 7), lineOf(8), lineOf(9), lineOf(10, 11), lineOf(12, 13)];
    const one = write(cwd, lines.slice(0, 3), 'one');
    const two = write(cwd, lines.slice(3), 'two');
    server.always({ status: 400 });
    const run = await send(cwd, [
      ...['otlp', '--file', one, '--file', two, '--endpoint', server.url, '--encoding', encoding],
      ...['--max-spans', '3', '--concurrency', '1'],
    ]);
    t.equal(run.status, 1);
    t.same(numbersIn(server.requests), [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13]]);
    const names = run.err.split('\n').map((line) => line.split(': ')[0]);
    t.same(names, ['one:1', 'one:1', 'one:1-3', 'two:1-2', 'two:2']);
  });
}

t.test('lines are joined up to 8 MiB, however many spans are wanted', async (t) => {
  const { cwd, server } = await room(t);
  const large = (n: number) =>
    otlpJsonBody([{ ...idsOf(n), attributes: { text: 'x'.repeat(3 * 1024 * 1024) } }]).toString();
  const file = write(cwd, [large(1), large(2), large(3)]);
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--max-spans', '1000'],
    ...['--concurrency', '1', '--compression', 'none'],
  ]);
  t.equal(run.status, 0);
  t.same(numbersIn(server.requests), [[1, 2], [3]]);
});

t.test('--from-line begins there, in the first file alone', async (t) => {
  const { cwd, server } = await room(t);
  const one = write(cwd, [lineOf(1), 'bad', lineOf(3)], 'one');
  const two = write(cwd, [lineOf(4)], 'two');
  const files = ['--file', one, '--file', two, '--from-line', '3'];
  const run = await send(cwd, ['otlp', ...files, '--endpoint', server.url]);
  t.match(run, { status: 0, err: '' });
  t.same(allIn(server), [3, 4]);
});

t.test('--dry-run counts, and asks nobody', async (t) => {
  const cwd = directoryOf(t);
  const file = write(cwd, [lineOf(1, 5), 'bad', lineOf(6)]);
  const run = await send(cwd, ['otlp', '--file', file, '--dry-run', '--rate', '1']);
  t.equal(run.status, 1);
  t.equal(run.out, '6 spans in 2 lines; nothing was sent.\n  left out 1 line that cannot be read');
});

t.test('what may pass is tried again, and what is answered with Retry-After waits', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [lineOf(1)]);
  for (const reaction of [
    { status: 429, headers: { 'retry-after': '1' } },
    { status: 502 },
    { status: 503 },
    { status: 504 },
    'reset' as const,
  ]) {
    const before = server.requests.length;
    server.next(reaction);
    const startedAt = Date.now();
    const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--json']);
    const name = JSON.stringify(reaction);
    t.equal(run.status, 0, name);
    t.match(summaryIn(run), { accepted: 1, requests: 1, retries: 1 }, name);
    t.equal(server.requests.length - before, 2, name);
    if (name.includes('retry-after')) t.ok(Date.now() - startedAt >= 1000, 'a second has passed');
  }
});

t.test(
  'who is not there is tried until --retry-for; then it ends with 69 and where to go on',
  async (t) => {
    const { cwd, server } = await room(t);
    await server.close();
    const file = write(cwd, [lineOf(1), lineOf(2)], "it's");
    const endpoint = server.url.replace('//', '//user:secret@');
    const run = await send(cwd, [
      ...['otlp', '--file', file, '--endpoint', endpoint, '--retry-for', '200ms', '--json'],
    ]);
    t.equal(run.status, 69);
    t.match(run.err, /^error: http:\/\/127.0.0.1:\d+\/v1\/traces: connect ECONNREFUSED/);
    t.match(run.err, "To go on: --file 'it'\\''s' --from-line 1");
    t.notMatch(run.err, 'secret');
    t.match(summaryIn(run), {
      accepted: 0,
      stopped: { reason: 'unreachable' },
      resume: { file: "it's", line: 1 },
    });
  },
);

t.test('who asks for a longer wait than --retry-for is not waited for', async (t) => {
  const { cwd, server } = await room(t);
  server.next(ACCEPTED, { status: 503, headers: { 'retry-after': '3600' } });
  const file = write(cwd, [lineOf(1), lineOf(2), lineOf(3)]);
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '1'],
  ]);
  t.match(run, { status: 69, err: /it asks to wait for 3600 s, longer than --retry-for/ });
  t.match(run.err, 'To go on: --file spans.jsonl --from-line 2');
});

t.test('any other answer is told with its line, and the rest goes on', async (t) => {
  const { cwd, server } = await room(t);
  const message = JSON.stringify({ code: 3, message: 'these ids\u0007are wrong' });
  const headers = { 'content-type': 'application/json' };
  server.next({ status: 400, headers, body: message }, { status: 404 }, { status: 500 });
  const file = write(cwd, [lineOf(1, 2), lineOf(3), lineOf(4), lineOf(5)]);
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--json', '--concurrency', '1'],
  ]);
  t.equal(run.status, 1);
  t.same(run.err.split('\n'), [
    'spans.jsonl:1: answered 400: these ids are wrong',
    'spans.jsonl:2: answered 404',
    'spans.jsonl:3: answered 500',
  ]);
  t.match(summaryIn(run), { accepted: 1, refused: 4, rejected: 0, requests: 4, stopped: null });
});

for (const status of [401, 403]) {
  t.test(`${status} ends it at once, with the sentence`, async (t) => {
    const { cwd, server } = await room(t);
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ code: 16, message: 'The key is wrong.' });
    server.always({ status, headers, body });
    const file = write(cwd, [lineOf(1), lineOf(2), lineOf(3)]);
    const run = await send(cwd, [
      ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '1', '--quiet'],
    ]);
    t.match(run, { status: 1, out: '', err: `answered ${status}: The key is wrong. (the key is` });
    t.match(run.err, '--from-line 1');
    t.equal(server.requests.length, 1);
  });
}

t.test('what a partial success leaves out is counted and told', async (t) => {
  const { cwd, server } = await room(t);
  server.next(partialSuccess(2, 'two were bad'), partialSuccess(0, 'a remark'));
  const file = write(cwd, [lineOf(1, 5), lineOf(6)]);
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--json', '--concurrency', '1'],
  ]);
  t.equal(run.status, 1);
  t.match(summaryIn(run), { accepted: 4, rejected: 2, refused: 0 });
  t.same(run.err.split('\n'), [
    'spans.jsonl:1: 2 rejected: two were bad',
    'spans.jsonl:2: taken, with: a remark',
  ]);
});

t.test('what is too large is halved until it fits', async (t) => {
  const { cwd, server } = await room(t);
  server.always(({ spans }) => (spans.length > 2 ? { status: 413 } : ACCEPTED));
  const file = write(cwd, [lineOf(1, 7), lineOf(8)]);
  for (const encoding of ['protobuf', 'json']) {
    const before = server.requests.length;
    const run = await send(cwd, [
      ...['otlp', '--file', file, '--endpoint', server.url, '--encoding', encoding, '--json'],
      ...['--max-spans', '8'],
    ]);
    t.equal(run.status, 0);
    t.match(summaryIn(run), { accepted: 8, requests: 5 });
    const taken = server.requests.slice(before).filter(({ spans }) => spans.length <= 2);
    t.same(numbersIn(taken).flat(), [1, 2, 3, 4, 5, 6, 7, 8]);
  }
  server.always({ status: 413 });
  const alone = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--json']);
  t.match(summaryIn(alone), { accepted: 0, refused: 8 });
});

t.test('--concurrency is how many requests are under way', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(
    cwd,
    Array.from({ length: 30 }, (_, i) => lineOf(i + 1)),
  );
  const run = await send(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '3'],
  ]);
  t.equal(run.status, 0);
  // Each connection serves one request at a time.
  const ports = new Set(server.requests.map(({ port }) => port));
  t.ok(ports.size <= 3, String(ports.size));
  t.equal(allIn(server).length, 30);
});

t.test('--rate is held', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [lineOf(1, 10), lineOf(11, 20), lineOf(21, 30)]);
  const startedAt = Date.now();
  const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '--rate', '40']);
  t.equal(run.status, 0);
  // The first goes at once, each of the others after the ten before it.
  t.ok(Date.now() - startedAt >= 490, 'half a second has passed');
  t.same(numbersIn(server.requests).flat(), allIn(server));
});

t.test('an endpoint with a path stays as it is; headers are given by name', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [lineOf(1)]);
  const options = ['--header', 'X-Api-Key=a=b', '--header', 'Authorization=Basic x'];
  const env = { TRACECTL_KEY: 'from the environment' };
  for (const path of ['', '/', '/own/path?x=1']) {
    const endpoint = `${server.url}${path}`;
    const run = await send(cwd, ['otlp', '--file', file, '--endpoint', endpoint, ...options], {
      env,
    });
    t.equal(run.status, 0);
  }
  await send(cwd, ['otlp', '--file', file, '--endpoint', server.url], { env });
  t.same(
    server.requests.map(({ path }) => path),
    ['/v1/traces', '/v1/traces', '/own/path?x=1', '/v1/traces'],
  );
  t.match(server.requests[0]?.headers, { 'x-api-key': 'a=b', authorization: 'Basic x' });
  t.equal(server.requests[3]?.headers.authorization, 'Bearer from the environment');
});

t.test('an option that is wrong ends with 64 and is named', async (t) => {
  const cwd = directoryOf(t);
  const file = write(cwd, [lineOf(1)]);
  const from = ['--file', file];
  const cases: [string, readonly string[]][] = [
    ['--count', ['--count', '0']],
    ['--count', [...from, '--count', '1']],
    ['--file', []],
    ['--from-line', [...from, '--from-line', '0']],
    ['--from-line', ['--count', '1', '--from-line', '2']],
    ['--endpoint', [...from, '--endpoint', 'localhost:4318']],
    ['--header', [...from, '--header', 'secret-without-a-name']],
    ['x-a', [...from, '--header', 'x-a=a\nb']],
    ['--max-spans', [...from, '--max-spans', '1.5']],
    ['--rate', [...from, '--rate', '0']],
    ['--rate', [...from, '--rate', '-1']],
    ['--concurrency', [...from, '--concurrency', '257']],
    ['--retry-for', [...from, '--retry-for', '5']],
    ['--compression', [...from, '--compression', 'brotli']],
    ['--encoding', [...from, '--encoding', 'proto']],
  ];
  for (const [named, options] of cases) {
    const run = await send(cwd, ['otlp', ...options]);
    t.equal(run.status, 64, options.join(' '));
    t.match(run.err, named);
    t.notMatch(run.err, 'secret-without-a-name');
  }
  t.match(await send(cwd, ['native', '--file', file]), { status: 64 });
  t.match(await send(cwd, ['bogus']), { status: 64 });
});

t.test('a file that cannot be read is told before anything is sent', async (t) => {
  const { cwd, server } = await room(t);
  const file = write(cwd, [lineOf(1)]);
  mkdirSync(join(cwd, 'folder'));
  for (const [name, reason] of [
    ['none', 'none cannot be read: there is no such file'],
    ['folder', 'folder is a directory'],
  ] as const) {
    const run = await send(cwd, [
      ...['otlp', '--file', file, '--file', name, '--endpoint', server.url],
    ]);
    t.match(run, { status: 1, err: reason });
  }
  t.equal(server.requests.length, 0);
});

t.test('samples of OTLP are traces of an agent, a tool and a model', async (t) => {
  const { cwd, server } = await room(t);
  const run = await send(cwd, ['otlp', '--count', '40', '--endpoint', server.url, '--json']);
  t.equal(run.status, 0);
  t.match(summaryIn(run), { spans: 120, accepted: 120, requests: 2, resume: null });
  const spans = server.requests.flatMap((request) => request.spans);
  t.equal(new Set(spans.map(({ traceId }) => traceId)).size, 40);
  t.equal(new Set(spans.map(({ spanId }) => spanId)).size, 120);
  const [root, tool, model] = spans;
  t.equal(root?.parentSpanId ?? '', '');
  for (const child of [tool, model]) t.equal(child?.parentSpanId, root?.spanId);
  const keys = model?.attributes?.map(({ key }) => key);
  for (const key of ['gen_ai.request.model', 'gen_ai.usage.input_tokens', 'input.value']) {
    t.ok(keys?.includes(key), key);
  }
});

/** The native and the run endpoints, as far as they answer. Takes everything unless told otherwise. */
async function startEnvelopeServer(t: Test) {
  const requests: { path: string | undefined; body: Buffer }[] = [];
  let next: { status: number; body: object } | undefined;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = await request.toArray();
    requests.push({ path: request.url, body: gunzipSync(Buffer.concat(chunks)) });
    const { status, body } = next ?? { status: 202, body: { rejected: 0, results: [] } };
    next = undefined;
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => new Promise((resolve) => server.close(resolve)));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    answer(status: number, body: object) {
      next = { status, body };
    },
  };
}

for (const [kind, path] of [
  ['native', '/api/v1/observations/batch'],
  ['runs', '/api/v1/runs/batch'],
] as const) {
  t.test(`samples of ${kind} are taken, or told of by the envelope`, async (t) => {
    const cwd = directoryOf(t);
    const server = await startEnvelopeServer(t);
    const run = await send(cwd, [kind, '--count', '5', '--endpoint', server.url, '--json']);
    t.equal(run.status, 0);
    t.match(summaryIn(run), { spans: 15, accepted: 15 });
    t.equal(server.requests[0]?.path, path);
    const index = scan(kind, server.requests[0]?.body ?? Buffer.alloc(0), { maxItems: 100 });
    t.equal(index.count, 15);
    const results = [
      { index: 0, status: 'queued' },
      { index: 1, status: 'rejected', code: 'invalid_field', reason: 'id' },
    ];
    server.answer(202, { status: 'queued', accepted: 2, rejected: 1, results });
    const partly = await send(cwd, [kind, '--count', '1', '--endpoint', server.url, '--json']);
    t.match(partly, { status: 1, err: 'trace 1: 1 rejected: invalid_field: id' });
    t.match(summaryIn(partly), { accepted: 2, rejected: 1 });
    server.answer(402, { status: 'rejected', code: 'monthly_limit', message: 'It is used up.' });
    const refused = await send(cwd, [kind, '--count', '1', '--endpoint', server.url, '--json']);
    t.match(refused, { status: 1, err: 'trace 1: answered 402: It is used up.' });
  });
}

t.test('samples come evenly where --rate is small', async (t) => {
  const { cwd, server } = await room(t);
  const run = await send(cwd, [
    ...['otlp', '--count', '3', '--rate', '15', '--endpoint', server.url, '--json'],
  ]);
  t.match(summaryIn(run), { accepted: 9, requests: 1 });
  const slow = await send(cwd, [
    ...['otlp', '--count', '2', '--rate', '5', '--max-spans', '1', '--endpoint', server.url],
  ]);
  t.match(slow.out, '2 requests');
});

/** A person at a terminal, who sees the bar and presses Ctrl-C. */
function person(columns = 80) {
  const shown: string[] = [];
  let press = (): void => {};
  const terminal: Partial<Terminal> = {
    screen: { columns: () => columns, write: (text) => void shown.push(text) },
    onInterrupt(listener) {
      press = () => listener('SIGINT');
      return () => {
        press = () => {};
      };
    },
  };
  return { terminal, shown, press: () => press() };
}

t.test('Ctrl-C lets requests under way finish and says where to go on', async (t) => {
  const { cwd, server } = await room(t);
  const lines = Array.from({ length: 50 }, (_, i) => lineOf(i + 1));
  const [one, two] = [write(cwd, [lineOf(100)], 'one'), write(cwd, lines, 'two')];
  const { terminal, press } = person();
  server.always(({ spans }) => {
    if (spans[0]?.spanId === idsOf(3).spanId) press();
    return ACCEPTED;
  });
  const three = write(cwd, [lineOf(200)], 'three');
  const run = await send(
    cwd,
    [
      ...['otlp', '--file', one, '--file', two, '--file', three, '--endpoint', server.url],
      ...['--concurrency', '1', '--json'],
    ],
    terminal,
  );
  t.equal(run.status, 130);
  t.match(run.err, 'To go on: --file two --from-line 4 --file three');
  t.match(summaryIn(run), { accepted: 4, stopped: { reason: 'interrupted' } });
  t.same(allIn(server), [1, 2, 3, 100]);
  const rest = run.err.split('To go on: ')[1]?.split(' ') ?? [];
  server.always(ACCEPTED);
  t.equal((await send(cwd, ['otlp', ...rest, '--endpoint', server.url])).status, 0);
  t.equal(new Set(allIn(server)).size, 52, 'nothing is missing');
});

t.test('a second Ctrl-C breaks off what is under way', async (t) => {
  const { cwd, server } = await room(t);
  server.always('hang');
  const file = write(cwd, [lineOf(1), lineOf(2)]);
  const { terminal, press } = person();
  const running = send(cwd, ['otlp', '--file', file, '--endpoint', server.url], terminal);
  await server.received(2);
  press();
  // As when npm passes on what the terminal has sent already: that is one.
  press();
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  press();
  const run = await running;
  t.match(run, { status: 130, err: '--from-line 1' });
});

t.test('Ctrl-C ends a wait for stdin and for the next try', async (t) => {
  const { cwd, server } = await room(t);
  const { terminal, press } = person();
  const never = Promise.withResolvers<void>();
  t.teardown(() => never.resolve());
  const input = async function* () {
    yield Buffer.from(`${lineOf(1)}\n`);
    await never.promise;
  };
  const reading = send(cwd, ['otlp', '--file', '-', '--endpoint', server.url], {
    ...terminal,
    input,
  });
  await server.received(1);
  press();
  t.match(await reading, { status: 130, out: '1 span accepted', err: '--file - --from-line 2' });
  server.always({ status: 503, headers: { 'retry-after': '60' } });
  const file = write(cwd, [lineOf(2)]);
  const waiting = send(cwd, ['otlp', '--file', file, '--endpoint', server.url], terminal);
  await server.received(2);
  press();
  t.match(await waiting, { status: 130, err: '--from-line 1' });
});

t.test('a terminal shows a bar, and messages above it', async (t) => {
  const { cwd, server } = await room(t);
  const { terminal, shown } = person();
  const file = write(cwd, [lineOf(1), 'bad', lineOf(2)]);
  const run = await send(cwd, ['otlp', '--file', file, '--endpoint', server.url], terminal);
  t.equal(run.status, 1);
  t.match(shown.at(-2), '100%  2 spans');
  t.equal(shown.at(-1), '\n');
  t.ok(shown.includes('\r\u001b[K'), 'the bar makes room');
  const quiet = person();
  await send(cwd, ['otlp', '--file', file, '--endpoint', server.url, '-q'], quiet.terminal);
  t.same(quiet.shown, []);
});

function progress(more: Partial<Progress> = {}, tally: Partial<Progress['tally']> = {}): Progress {
  return {
    tally: { ...newTally(), bytesRead: 512 * 1024, ...tally },
    ...{ spans: 12_345, unit: 'bytes', total: 2 * 1024 * 1024, seconds: 62 },
    ...{ spansPerSecond: 1500.4, unitsPerSecond: 8192 },
    ...more,
  };
}

t.test('the bar shows share, spans, speed, what was refused, time left and bytes', async (t) => {
  const full = progress({}, { refused: 3, rejected: 1, leftOut: 2 });
  const line = renderBar(full, 120);
  t.equal(
    line,
    `${'█'.repeat(8)}${'░'.repeat(22)}  25%  12,345 spans  1,500/s  4 refused  2 left out  3m12s left  512.0 KiB/2.0 MiB`,
  );
  t.equal(renderBar(progress(), 30), ' 25%  12,345 spans  1,500/s');
  t.equal(renderBar(progress({ total: undefined }), 80), '12,345 spans  1,500/s  512.0 KiB');
  t.match(renderBar(progress({ unitsPerSecond: 0 }), 80), '3m06s left');
  t.match(renderBar(progress({ unitsPerSecond: 0 }, { bytesRead: 0 }), 80), '- left');
  t.match(
    renderBar(progress({ unit: 'spans', total: 12_345 }), 80),
    /100% {2}12,345 spans {2}1,500\/s$/,
  );
  const troubled = renderBar(progress({}, { trouble: 'answered 503: busy\u001b[2J' }), 80);
  t.match(troubled, '25%  12,345 spans  trying again: answered 503: busy\ufffd[2J');
});

t.test('the bar never fills the last column, whatever there is to show', async (t) => {
  const arbitrary = fc.record({
    columns: fc.integer({ min: 0, max: 200 }),
    total: fc.option(fc.nat(), { nil: undefined }),
    bytesRead: fc.nat(),
    spans: fc.nat(),
    refused: fc.nat(),
    trouble: fc.option(fc.string({ maxLength: 300 }), { nil: undefined }),
    speed: fc.double({ min: 0, max: 1e9, noNaN: true }),
  });
  fc.assert(
    fc.property(arbitrary, ({ columns, total, bytesRead, spans, refused, trouble, speed }) => {
      const shown = { total, spans, spansPerSecond: speed, unitsPerSecond: speed };
      const line = renderBar(progress(shown, { bytesRead, refused, trouble }), columns);
      t.ok(line.length <= Math.max(0, columns - 1), `${line.length} in ${columns}`);
    }),
    { numRuns: 200 },
  );
});

t.test('a log gets a line with the same', async (t) => {
  t.equal(
    renderLine(progress({}, { trouble: 'answered 503' })),
    '1m02s: 25%, 12,345 spans, 1,500/s, 3m12s left, 512.0 KiB/2.0 MiB (trying again: answered 503)',
  );
});

t.test('times and sizes are short', async (t) => {
  t.same([0, 0.94, 59.4, 60, 3599, 3600, 86_399, 90_000].map(span), [
    '0.0s',
    '0.9s',
    '59s',
    '1m00s',
    '59m59s',
    '1h00m',
    '23h59m',
    '1d01h',
  ]);
  t.same([0, 1023, 1024, 1.5 * 1024 ** 3].map(size), ['0 B', '1023 B', '1.0 KiB', '1.5 GiB']);
});

t.test('docs/send.md names every option', async (t) => {
  const page = readFileSync(new URL('../../../docs/send.md', import.meta.url), 'utf8');
  const { out } = await send(directoryOf(t), ['otlp', '--help']);
  const options = [...out.matchAll(/ (--[a-z-]+)/g)].map(([, name = '']) => name);
  t.ok(options.length > 10);
  for (const name of options) if (name !== '--help') t.match(page, `\`${name}`, name);
});
