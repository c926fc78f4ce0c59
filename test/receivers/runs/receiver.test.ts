import { gzipSync, zstdCompressSync } from 'node:zlib';
import type { Test } from 'tap';
import t from 'tap';
import { config as runsConfig } from '../../../receivers/runs/config.ts';
import { createReceiver as createRunsReceiver } from '../../../receivers/runs/receiver.ts';
import { offer } from '../../../src/component/capability.ts';
import { LISTENERS } from '../../../src/http/listener.ts';
import type { SealedBatch } from '../../../src/model/batch.ts';
import { rawOf } from '../../../src/model/batch.ts';
import { observe } from '../../../src/model/formats.ts';
import { NO_DEADLINE, testListeners } from '../../helper/http.ts';
import { fakeHost, testSettings } from '../../helper/settings.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

async function receiving(t: Test, config: object = {}) {
  const listeners = testListeners();
  const host = fakeHost({ services: [offer(LISTENERS, listeners)] });
  const sink = createSink();
  const settings = testSettings('receiver', 'runs', { host, logger: listeners.logger });
  const receiver = createRunsReceiver(
    settings,
    runsConfig.parse({ endpoint: '127.0.0.1:0', ...config }),
    sinkPipeline(sink),
  );
  await receiver.start();
  t.teardown(async () => {
    await receiver.shutdown(AbortSignal.abort());
    await listeners.close();
  });
  const url = `${listeners.served()[0]?.url}/api/v1`;
  const send = async (method: string, path: string, body: unknown) => {
    const answered = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    return {
      status: answered.status,
      json: (await answered.json()) as Record<string, unknown>,
    };
  };
  const last = (): SealedBatch => {
    const batch = sink.batches.at(-1);
    if (batch === undefined) throw new Error('nothing arrived');
    return rawOf(batch);
  };
  return { url, send, sink, last, receiver, settings };
}

t.test('accepts creations, updates and batches of runs', async (t) => {
  const { send, last } = await receiving(t);
  const created = await send('POST', '/runs', { id: 'r1', name: 'chat', run_type: 'llm' });
  t.equal(created.status, 202);
  t.match(created.json, { status: 'queued', accepted: 1, results: [{ index: 0, id: 'r1' }] });
  t.match(last(), { format: 'runs', requestItems: 1, encoding: 'identity' });
  t.match(observe(last()), [{ id: 'r1', name: 'chat', operation: 'start' }]);

  const updated = await send('PATCH', '/runs/r1', { end_time: '2026-01-15T12:00:00Z' });
  t.equal(updated.status, 202);
  t.match(updated.json, { results: [{ id: 'r1' }] });
  t.match(observe(last()), [{ id: 'r1', operation: 'finish' }]);

  const batch = await send('POST', '/runs/batch', { patch: [{ id: 'b' }], post: [{ id: 'a' }] });
  t.equal(batch.status, 202);
  t.match(batch.json, {
    results: [
      { index: 0, id: 'a' },
      { index: 1, id: 'b' },
    ],
  });
});

t.test('takes the id from the path, with any character', async (t) => {
  const { send, last } = await receiving(t);
  t.match((await send('PATCH', '/runs/r1', { id: 'r2' })).json, { results: [{ id: 'r1' }] });
  t.match((await send('PATCH', '/runs/a%20%22%C3%A9%2Fb', {})).json, {
    results: [{ id: 'a "\u00e9/b' }],
  });
  t.match(observe(last()), [{ id: 'a "\u00e9/b' }]);
  t.equal((await send('PATCH', '/runs/%ff', {})).status, 400);
  t.equal((await send('PATCH', '/runs/', {})).status, 404);
});

t.test('refuses a body of another shape as a whole', async (t) => {
  const { send, sink } = await receiving(t);
  for (const [method, path, body, status, code] of [
    ['POST', '/runs', '{', 400, 'invalid_json'],
    ['POST', '/runs', '{"id":"a"}],"patch":[{"id":"b"}', 400, 'invalid_json'],
    ['PATCH', '/runs/r1', '', 400, 'invalid_json'],
    ['POST', '/runs/batch', { post: {}, patch: [] }, 400, 'invalid_request'],
    ['POST', '/runs/batch', { post: [], patch: [] }, 400, 'no_event_accepted'],
    ['POST', '/runs/batch', {}, 400, 'no_event_accepted'],
    ['POST', '/runs/batch', { post: runs(500), patch: runs(501) }, 413, 'too_many_events'],
  ] as const) {
    const got = await send(method, path, body);
    t.equal(got.status, status, JSON.stringify(body).slice(0, 60));
    t.equal(got.json.code, code);
  }
  t.equal(sink.batches.length, 0);
  t.equal((await send('POST', '/runs/batch', { post: runs(500), patch: runs(500) })).status, 202);
});

function runs(count: number): object[] {
  return Array.from({ length: count }, (_, i) => ({ id: `r-${i}` }));
}

t.test('allows a single run the same nesting as a run in a batch', async (t) => {
  const { send } = await receiving(t);
  // The run itself and `inputs` are two levels.
  const nested = (depth: number): string =>
    `{"id":"deep","inputs":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  t.equal((await send('POST', '/runs', nested(511))).status, 202);
  t.equal((await send('POST', '/runs', nested(512))).status, 400);
});

t.test('answers GET /info without a key', async (t) => {
  const { url, receiver } = await receiving(t);
  const info = (await (await fetch(`${url}/info`)).json()) as Record<string, unknown>;
  t.match(info, {
    // Python's client sends feedback with its runs from this version on; from 0.16.0 on it would use another API.
    version: '0.16.0',
    batch_ingest_config: { use_multipart_endpoint: true, size_limit: 100 },
    instance_flags: { gzip_body_enabled: true, zstd_compression_enabled: true },
  });
  const short = await fetch(`${url.replace('/api/v1', '')}/info`);
  t.same(await short.json(), info, 'also for an endpoint without /api/v1');
  await receiver.shutdown(NO_DEADLINE);
  await t.rejects(fetch(url), { message: 'fetch failed' });
});

t.test('needs no key if the receiver has a project', async (t) => {
  const { send, last } = await receiving(t, { project: 'proj_local' });
  t.equal((await send('POST', '/runs', { id: 'r1' })).status, 202);
  t.match(last().tenant, { projectId: 'proj_local' });
});

type PartGiven = { name: string; content: string | Buffer };

function multipartBody(parts: readonly PartGiven[], boundary = 'b'): Buffer {
  const pieces = parts.flatMap(({ name, content }) => [
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]);
}

type MultipartOptions = { path?: string; headers?: Record<string, string> };

async function sendMultipart(
  url: string,
  body: Buffer | ReadableStream,
  { path = '/runs/multipart', headers = {} }: MultipartOptions = {},
) {
  const answered = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b', ...headers },
    body,
    duplex: 'half',
  });
  return {
    status: answered.status,
    json: (await answered.json()) as Record<string, unknown>,
  };
}

t.test('accepts runs in parts, with every encoding of the clients', async (t) => {
  const { url, last } = await receiving(t);
  const body = multipartBody([
    { name: 'post.a', content: '{"id":"a","name":"chat","run_type":"llm"}' },
    { name: 'post.a.inputs', content: '{"x":1}' },
    { name: 'patch.b', content: '{"id":"b","end_time":"2026-01-15T12:00:00Z"}' },
  ]);
  for (const [encoding, sent] of [
    ['identity', body],
    ['gzip', gzipSync(body)],
    ['zstd', zstdCompressSync(body)],
  ] as const) {
    const got = await sendMultipart(url, sent, { headers: { 'content-encoding': encoding } });
    t.match(got, {
      status: 202,
      json: {
        ...{ status: 'queued', accepted: 2, rejected: 0 },
        results: [
          { index: 0, id: 'a', status: 'queued' },
          { index: 1, id: 'b', status: 'queued' },
        ],
      },
    });
    t.match(last(), { format: 'runs', requestItems: 2, encoding: 'identity' });
    t.match(observe(last()), [
      { id: 'a', name: 'chat' },
      { id: 'b', operation: 'finish' },
    ]);
  }
  const short = await sendMultipart(url.replace('/api/v1', ''), body);
  t.equal(short.status, 202, 'also for an endpoint without /api/v1');
});

t.test('reads a multipart body from chunks of any size', async (t) => {
  const { url, last } = await receiving(t);
  const body = multipartBody([
    { name: 'post.a', content: '{"id":"a","name":"\u00fc\u{1f600}"}' },
    { name: 'post.a.inputs', content: '{"x":"--b"}' },
  ]);
  for (const size of [1, 2, 3, 7, 64, body.length]) {
    const chunks = Array.from({ length: Math.ceil(body.length / size) }, (_, i) =>
      body.subarray(i * size, (i + 1) * size),
    );
    const sent = await sendMultipart(url, ReadableStream.from(chunks));
    t.equal(sent.status, 202, `chunks of ${size}`);
    t.match(observe(last()), [{ id: 'a', name: '\u00fc\u{1f600}' }]);
  }
});

t.test('a bad part costs its run, and a large body is read in a thread', async (t) => {
  const { url, last } = await receiving(t);
  for (const length of [1, 600_000]) {
    const got = await sendMultipart(
      url,
      multipartBody([
        { name: 'post.a', content: '{"id":"a"}' },
        { name: 'post.a.inputs', content: JSON.stringify({ x: 'y'.repeat(length) }) },
        { name: 'post.b', content: '{"id":"b"}' },
        { name: 'post.b.outputs', content: '{' },
      ]),
    );
    t.match(got, {
      status: 202,
      json: {
        ...{ accepted: 1, rejected: 1 },
        results: [
          { id: 'a', status: 'queued' },
          { id: 'b', status: 'rejected', code: 'invalid_field', reason: /^outputs is not/ },
        ],
      },
    });
    t.match(last(), { items: 1, requestItems: 2 });
    t.match(observe(last()), [{ id: 'a' }]);
  }
});

t.test('refuses a multipart request that has no runs, or is none', async (t) => {
  const { url, sink } = await receiving(t);
  const run = (i: number) => ({ name: `post.r${i}`, content: `{"id":"r${i}"}` });
  const many = (count: number) => multipartBody(Array.from({ length: count }, (_, i) => run(i)));
  for (const [body, headers, status, code] of [
    [multipartBody([]), {}, 400, 'no_event_accepted'],
    [multipartBody([{ name: 'feedback.f', content: '{}' }]), {}, 400, 'no_event_accepted'],
    [multipartBody([{ name: 'post.a', content: '' }]), {}, 400, 'no_event_accepted'],
    [many(1).subarray(0, -6), {}, 400, 'invalid_request'],
    [many(1), { 'content-type': 'application/json' }, 400, 'unsupported_content_type'],
    [many(1), { 'content-type': 'multipart/form-data' }, 400, 'unsupported_content_type'],
    [many(1), { 'content-encoding': 'br' }, 415, 'unsupported_encoding'],
    [many(1001), {}, 413, 'too_many_events'],
  ] as const) {
    const got = await sendMultipart(url, body, { headers });
    t.match(got, { status, json: { code } });
  }
  t.ok(sink.batches.every((batch) => rawOf(batch).items === 0));
  t.equal((await sendMultipart(url, many(1000))).status, 202);
});

t.test('counts attachments and feedback that arrive where no store is', async (t) => {
  const { url, settings } = await receiving(t);
  const body = multipartBody([
    { name: 'post.a', content: '{"id":"a"}' },
    { name: 'attachment.a.one', content: Buffer.from([0, 255]) },
    { name: 'attachment.a.two', content: '' },
    { name: 'feedback.f', content: '{}' },
    { name: 'unknown', content: '{}' },
  ]);
  t.equal((await sendMultipart(url, body)).status, 202);
  await sendMultipart(url, Buffer.concat([body, Buffer.from(' ')]));
  const name = 'tracectl_runs_left_out_parts_total';
  t.equal(settings.metrics.value(name, { kind: 'attachment' }), 4);
  t.equal(settings.metrics.value(name, { kind: 'feedback' }), 2);
  t.equal(settings.metrics.value(name, { kind: 'other' }), 2);
  const lines = settings.logger.lines.filter(({ message }) => /Parts of multipart/.test(message));
  t.equal(lines.length, 1, 'one line an hour');

  // As LangSmith's clients send the feedback about a run that has ended.
  const alone = multipartBody([{ name: 'feedback.f', content: '{"run_id":"a","key":"k"}' }]);
  const got = await sendMultipart(url, alone);
  t.match(got, { status: 400, json: { message: /Send feedback to the daemon that stores/ } });
  t.equal(settings.metrics.value(name, { kind: 'feedback' }), 3);
});
