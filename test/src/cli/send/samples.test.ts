import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import { scan } from '../../../../src/model/formats.ts';
import { directoryOf, rigOf, sendCommand, sendTimed, summaryIn } from './rig.ts';

t.test('OTLP samples are traces of an agent, a tool and a model', async (t) => {
  const { cwd, server } = await rigOf(t);
  const run = await sendCommand(cwd, ['otlp', '--count', '40', '--endpoint', server.url, '--json']);
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

/** A server for the native and run endpoints. It accepts every item unless a test sets the next answer. */
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
  t.test(`sends samples of ${kind}, and reads the counts of the response`, async (t) => {
    const cwd = directoryOf(t);
    const server = await startEnvelopeServer(t);
    const run = await sendCommand(cwd, [kind, '--count', '5', '--endpoint', server.url, '--json']);
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
    const partly = await sendCommand(cwd, [
      kind,
      '--count',
      '1',
      '--endpoint',
      server.url,
      '--json',
    ]);
    t.match(partly, { status: 1, err: 'trace 1: 1 rejected: invalid_field: id' });
    t.match(summaryIn(partly), { accepted: 2, rejected: 1 });
    server.answer(402, { status: 'rejected', code: 'monthly_limit', message: 'It is used up.' });
    const refused = await sendCommand(cwd, [
      kind,
      '--count',
      '1',
      '--endpoint',
      server.url,
      '--json',
    ]);
    t.match(refused, { status: 1, err: 'trace 1: answered 402: It is used up.' });
  });
}

t.test('makes smaller requests for a low --rate', async (t) => {
  const { cwd, server } = await rigOf(t);
  const run = await sendCommand(cwd, [
    ...['otlp', '--count', '3', '--rate', '15', '--endpoint', server.url, '--json'],
  ]);
  t.match(summaryIn(run), { accepted: 9, requests: 1 });
  const slow = await sendTimed(cwd, [
    ...['otlp', '--count', '2', '--rate', '5', '--max-spans', '1', '--endpoint', server.url],
  ]);
  t.match(slow.out, '2 requests');
});
