import t from 'tap';
import { fakeClock } from '../../../helper/clock.ts';
import { ACCEPTED, partialSuccess } from '../../../helper/otlp-server.ts';
import {
  allIn,
  directoryOf,
  lineOf,
  numbersIn,
  rigOf,
  sendCommand,
  sendTimed,
  summaryIn,
  write,
} from './rig.ts';

t.test('retries failures that may pass, with a wait', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1)]);
  const argv = ['otlp', '--file', file, '--endpoint', server.url, '--json'];
  for (const reaction of [{ status: 502 }, { status: 503 }, { status: 504 }, 'reset' as const]) {
    const before = server.requests.length;
    server.next(reaction);
    const run = await sendTimed(cwd, argv);
    const name = JSON.stringify(reaction);
    t.equal(run.status, 0, name);
    t.match(summaryIn(run), { accepted: 1, requests: 1, retries: 1 }, name);
    t.equal(server.requests.length - before, 2, name);
    if (reaction !== 'reset') t.ok(run.elapsed >= 250, `${name} waited ${run.elapsed} ms`);
  }
});

t.test('counts no span as accepted whose answer is a page of HTML', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1)]);
  const headers = { 'content-type': 'text/html' };
  server.next({ status: 200, headers, body: '<title>Sign in</title>' });
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--json'],
  ]);
  t.equal(run.status, 1);
  t.match(summaryIn(run), { accepted: 0, refused: 1 });
  t.match(run.err, /answered 200 with a page of HTML/);
});

t.test('waits for Retry-After before the next attempt', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1)]);
  const clock = fakeClock();
  const times: number[] = [];
  server.always(() => {
    times.push(clock.now());
    const headers = { 'retry-after': '2' };
    return times.length === 1 ? { status: 429, headers } : ACCEPTED;
  });
  const run = await sendTimed(cwd, ['otlp', '--file', file, '--endpoint', server.url], clock);
  t.equal(run.status, 0);
  t.equal(times.length, 2);
  const [first = 0, second = 0] = times;
  t.ok(second - first >= 2000, `${second - first} ms`);
});

t.test(
  'retries an unreachable server for --retry-for, then exits with 69 and the options to resume',
  async (t) => {
    const { cwd, server } = await rigOf(t);
    await server.close();
    const file = write(cwd, [lineOf(1), lineOf(2)], "it's");
    const endpoint = server.url.replace('//', '//user:secret@');
    const run = await sendTimed(cwd, [
      ...['otlp', '--file', file, '--endpoint', endpoint, '--retry-for', '2s', '--json'],
    ]);
    t.ok(run.elapsed > 500 && run.elapsed <= 2100, `${run.elapsed} ms`);
    t.equal(run.status, 69);
    t.match(run.err, /^error: http:\/\/127.0.0.1:\d+\/v1\/traces: connect ECONNREFUSED/);
    t.match(run.err, "To resume: --file 'it'\\''s' --from-line 1");
    t.notMatch(run.err, 'secret');
    t.match(summaryIn(run), {
      accepted: 0,
      stopped: { reason: 'unreachable' },
      resume: { file: "it's", line: 1 },
    });
  },
);

t.test('exits with 69 if Retry-After is longer than --retry-for', async (t) => {
  const { cwd, server } = await rigOf(t);
  server.next(ACCEPTED, { status: 503, headers: { 'retry-after': '3600' } });
  const file = write(cwd, [lineOf(1), lineOf(2), lineOf(3)]);
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '1'],
  ]);
  t.match(run, { status: 69, err: /the server asks to wait 3600 s, longer than --retry-for/ });
  t.match(run.err, 'To resume: --file spans.jsonl --from-line 2');
});

t.test('reports any other error status with its line, and continues', async (t) => {
  const { cwd, server } = await rigOf(t);
  const message = JSON.stringify({ code: 3, message: 'these ids\u0007are wrong' });
  const headers = { 'content-type': 'application/json' };
  server.next(
    { status: 400, headers, body: message },
    { status: 404 },
    { status: 500 },
    { status: 415 },
  );
  const file = write(cwd, [lineOf(1, 2), lineOf(3), lineOf(4), lineOf(6), lineOf(5)]);
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--json', '--concurrency', '1'],
  ]);
  t.equal(run.status, 1);
  t.same(run.err.split('\n'), [
    'spans.jsonl:1: answered 400: these ids are wrong',
    'spans.jsonl:2: answered 404',
    'spans.jsonl:3: answered 500',
    'spans.jsonl:4: answered 415',
  ]);
  t.match(summaryIn(run), { accepted: 1, refused: 5, rejected: 0, requests: 5, stopped: null });
});

for (const status of [401, 403]) {
  t.test(`stops at ${status} with the message of the server`, async (t) => {
    const { cwd, server } = await rigOf(t);
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ code: 16, message: 'The key is wrong.' });
    server.always({ status, headers, body });
    const file = write(cwd, [lineOf(1), lineOf(2), lineOf(3)]);
    const run = await sendCommand(cwd, [
      ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '1', '--quiet'],
    ]);
    t.match(run, {
      status: 1,
      out: '',
      err: `answered ${status}: The key is wrong. (pass the key with`,
    });
    t.match(run.err, '--from-line 1');
    t.equal(server.requests.length, 1);
  });
}

t.test('counts and reports the rejected spans of a partial success', async (t) => {
  const { cwd, server } = await rigOf(t);
  server.next(partialSuccess(2, 'two were bad'), partialSuccess(0, 'a remark'));
  const file = write(cwd, [lineOf(1, 5), lineOf(6)]);
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--json', '--concurrency', '1'],
  ]);
  t.equal(run.status, 1);
  t.match(summaryIn(run), { accepted: 4, rejected: 2, refused: 0 });
  t.same(run.err.split('\n'), [
    'spans.jsonl:1: 2 rejected: two were bad',
    'spans.jsonl:2: accepted with a warning: a remark',
  ]);
});

t.test('halves a request that is too large until it fits', async (t) => {
  const { cwd, server } = await rigOf(t);
  server.always(({ spans }) => (spans.length > 2 ? { status: 413 } : ACCEPTED));
  const file = write(cwd, [lineOf(1, 7), lineOf(8)]);
  for (const encoding of ['protobuf', 'json']) {
    const before = server.requests.length;
    const run = await sendCommand(cwd, [
      ...['otlp', '--file', file, '--endpoint', server.url, '--encoding', encoding, '--json'],
      ...['--max-spans', '8'],
    ]);
    t.equal(run.status, 0);
    t.match(summaryIn(run), { accepted: 8, requests: 5 });
    const accepted = server.requests.slice(before).filter(({ spans }) => spans.length <= 2);
    t.same(numbersIn(accepted).flat(), [1, 2, 3, 4, 5, 6, 7, 8]);
  }
  server.always({ status: 413 });
  const alone = await sendCommand(cwd, [
    'otlp',
    '--file',
    file,
    '--endpoint',
    server.url,
    '--json',
  ]);
  t.match(summaryIn(alone), { accepted: 0, refused: 8 });
});

t.test('--concurrency limits the requests in flight', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(
    cwd,
    Array.from({ length: 30 }, (_, i) => lineOf(i + 1)),
  );
  const run = await sendCommand(cwd, [
    ...['otlp', '--file', file, '--endpoint', server.url, '--concurrency', '3'],
  ]);
  t.equal(run.status, 0);
  // Each connection serves one request at a time.
  const ports = new Set(server.requests.map(({ port }) => port));
  t.ok(ports.size <= 3, String(ports.size));
  t.equal(allIn(server).length, 30);
});

t.test('--rate spaces the requests by their spans', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1, 10), lineOf(11, 20), lineOf(21, 30)]);
  const clock = fakeClock();
  const startedAt = clock.now();
  const times: number[] = [];
  server.always(() => {
    times.push(clock.now() - startedAt);
    return ACCEPTED;
  });
  const argv = ['otlp', '--file', file, '--endpoint', server.url, '--rate', '40'];
  t.equal((await sendTimed(cwd, argv, clock)).status, 0);
  const [, second = 0, third = 0] = times;
  t.ok(second >= 250 && third >= 500, times.join());
  t.same(numbersIn(server.requests).flat(), allIn(server));
});

t.test('keeps the path of an endpoint, and sends the headers of --header', async (t) => {
  const { cwd, server } = await rigOf(t);
  const file = write(cwd, [lineOf(1)]);
  const options = ['--header', 'X-Api-Key=a=b', '--header', 'Authorization=Basic x'];
  const env = { TRACECTL_KEY: 'from the environment' };
  for (const path of ['', '/', '/own/path?x=1']) {
    const endpoint = `${server.url}${path}`;
    const run = await sendCommand(
      cwd,
      ['otlp', '--file', file, '--endpoint', endpoint, ...options],
      {
        env,
      },
    );
    t.equal(run.status, 0);
  }
  await sendCommand(cwd, ['otlp', '--file', file, '--endpoint', server.url], { env });
  t.same(
    server.requests.map(({ path }) => path),
    ['/v1/traces', '/v1/traces', '/own/path?x=1', '/v1/traces'],
  );
  t.match(server.requests[0]?.headers, { 'x-api-key': 'a=b', authorization: 'Basic x' });
  t.equal(server.requests[3]?.headers.authorization, 'Bearer from the environment');
});

t.test('exits with 64 and names an option that is not valid', async (t) => {
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
    const run = await sendCommand(cwd, ['otlp', ...options]);
    t.equal(run.status, 64, options.join(' '));
    t.match(run.err, named);
    t.notMatch(run.err, 'secret-without-a-name');
  }
  t.match(await sendCommand(cwd, ['native', '--file', file]), { status: 64 });
  t.match(await sendCommand(cwd, ['bogus']), { status: 64 });
});
