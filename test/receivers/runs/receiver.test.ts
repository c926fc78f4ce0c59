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
  const receiver = createRunsReceiver(
    testSettings('receiver', 'runs', { host, logger: listeners.logger }),
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
  return { url, send, sink, last, receiver };
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
    batch_ingest_config: { use_multipart_endpoint: false, size_limit: 100 },
    instance_flags: {},
  });
  const multipart = await fetch(`${url}/runs/multipart`, { method: 'POST', body: 'x' });
  t.equal(multipart.status, 404, 'so that clients fall back to /runs/batch');
  await receiver.shutdown(NO_DEADLINE);
  await t.rejects(fetch(url), { message: 'fetch failed' });
});

t.test('needs no key if the receiver has a project', async (t) => {
  const { send, last } = await receiving(t, { project: 'proj_local' });
  t.equal((await send('POST', '/runs', { id: 'r1' })).status, 202);
  t.match(last().tenant, { projectId: 'proj_local' });
});
