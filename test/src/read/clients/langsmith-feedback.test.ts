import { Client } from 'langsmith/client';
import type { Test } from 'tap';
import t from 'tap';
import { uuidOfRun, uuidOfTrace } from '../../../../src/read/clients/uuid.ts';
import { aTenant, nativeBatch, observationBatch } from '../../../helper/batches.ts';
import { clientListener } from '../../../helper/client-listener.ts';

const ROOT = '11111111-1111-4111-8111-111111111111';
const CHILD = '22222222-2222-4222-8222-222222222222';
const FEEDBACK = '33333333-3333-4333-8333-333333333333';

/** A listener whose store has a trace of two runs. */
async function withRuns(t: Test, options: Parameters<typeof clientListener>[1] = {}) {
  const listener = await clientListener(t, options);
  const [project] = await listener.store.projects.list();
  const projectId = project?.id ?? '';
  const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
  await listener.store.traces.write(observationBatch(source, { id: ROOT, traceId: ROOT }));
  const child = nativeBatch(1, { tenant: aTenant({ projectId }) });
  await listener.store.traces.write(
    observationBatch(child, { id: CHILD, traceId: ROOT, parentId: ROOT }),
  );
  return { ...listener, projectId, scores: () => listener.store.scores.list(projectId, ROOT) };
}

for (const prefix of ['/api/v1', '']) {
  t.test(`the SDK writes, reads, changes and removes feedback under "${prefix}"`, async (t) => {
    const { url, scores } = await withRuns(t);
    const client = new Client({ apiUrl: url + prefix, apiKey: 'k', autoBatchTracing: false });
    const about = { sourceInfo: { by: 'me' }, sessionId: FEEDBACK };
    await client.createFeedback(ROOT, 'quality', { score: 0.5, comment: 'fine', ...about });
    await client.createFeedback(CHILD, 'label', { value: 'good', feedbackId: FEEDBACK, ...about });
    t.match(await scores(), [
      { name: 'quality', value: 0.5, comment: 'fine', source: 'api', observationId: null },
      { id: FEEDBACK, name: 'label', value: 'good', observationId: CHILD },
    ]);
    t.match(await client.readFeedback(FEEDBACK), {
      ...{ id: FEEDBACK, run_id: CHILD, trace_id: ROOT, key: 'label', value: 'good', score: null },
    });
    await client.updateFeedback(FEEDBACK, { score: 1, comment: 'better' });
    const listed = [];
    for await (const one of client.listFeedback({ runIds: [ROOT, CHILD] })) listed.push(one);
    t.match(listed, [
      { run_id: ROOT, key: 'quality', score: 0.5, feedback_source: { type: 'api' } },
      { run_id: CHILD, key: 'label', score: 1, comment: 'better' },
    ]);
    const ofKey = [];
    for await (const one of client.listFeedback({ runIds: [ROOT, CHILD], feedbackKeys: ['label'] }))
      ofKey.push(one.key);
    t.same(ofKey, ['label']);
    await client.deleteFeedback(FEEDBACK);
    t.match(await scores(), [{ name: 'quality' }]);
    await t.rejects(client.readFeedback(FEEDBACK), /404/);
  });
}

t.test('keeps values of every form, and the members that an update does not give', async (t) => {
  const { call, scores } = await withRuns(t);
  const base = { id: FEEDBACK, run_id: ROOT, key: 'k', comment: 'c' };
  for (const [given, value] of [
    [{ score: 0 }, 0],
    [{ score: true, value: 'ignored' }, true],
    [{ score: null, value: 'text' }, 'text'],
    [{ value: 7 }, 7],
    [{ value: { a: [1] } }, '{"a":[1]}'],
    [{}, ''],
  ] as const) {
    t.equal((await call('POST', '/feedback', { ...base, ...given })).status, 200);
    t.match(await scores(), [{ value, comment: 'c' }]);
  }
  await call('PATCH', `/feedback/${FEEDBACK}`, { comment: null });
  t.match(await scores(), [{ value: '', comment: null }]);
  await call('PATCH', `/feedback/${FEEDBACK}`, { score: 0.25 });
  t.match(await scores(), [{ value: 0.25, name: 'k' }]);
});

t.test('only a key that may read gets stored feedback in the answer to a change', async (t) => {
  const { call, scores } = await withRuns(t, { permissions: ['ingest:write'] });
  const base = { id: FEEDBACK, run_id: ROOT, key: 'k', score: 1, comment: 'secret' };
  t.equal((await call('POST', '/feedback', base)).status, 200);
  const changed = await call('PATCH', `/feedback/${FEEDBACK}`, { score: 0 });
  t.same(changed, { status: 200, json: { id: FEEDBACK } });
  t.match(await scores(), [{ name: 'k', value: 0, comment: 'secret' }]);
});

t.test('feedback about a run that is not stored belongs to the trace with its id', async (t) => {
  const { call, store, projectId } = await withRuns(t);
  t.match(await call('POST', '/feedback', { run_id: CHILD, key: 'k', score: 1 }), {
    ...{ status: 200, json: { trace_id: ROOT, run_id: CHILD } },
  });
  t.equal((await call('POST', '/feedback', { run_id: 'new', key: 'k', score: 1 })).status, 200);
  t.match(await store.scores.list(projectId, 'new'), [{ observationId: null }]);
  await call('POST', '/feedback', { run_id: 'c', trace_id: 'new', key: 'k', score: 1 });
  t.match(await store.scores.list(projectId, 'new'), [{}, { observationId: 'c' }]);
  t.match(await call('GET', '/feedback?run=new'), {
    ...{ status: 200, json: [{ trace_id: /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab]/ }] },
  });
});

t.test('refuses other feedback at once, and never by 404', async (t) => {
  const { call } = await withRuns(t, { scoresPerTrace: 1 });
  for (const [body, status] of [
    [{ key: 'k', score: 1 }, 400],
    [{ run_id: ROOT, score: 1 }, 400],
    [{ run_id: ROOT, key: 'k', score: [1] }, 400],
    ['[]', 400],
    ['{', 400],
    [{ run_id: ROOT, key: 'k', score: 1 }, 200],
    [{ run_id: ROOT, key: 'l', score: 1 }, 409],
  ] as const) {
    t.equal((await call('POST', '/api/v1/feedback', body)).status, status, JSON.stringify(body));
  }
  t.equal((await call('GET', '/feedback')).status, 400);
  t.equal((await call('GET', `/feedback?${'run=a&'.repeat(100)}`)).status, 200);
  t.equal((await call('GET', `/feedback?${'run=a&'.repeat(101)}`)).status, 400);
  for (const [method, body] of [
    ['GET', undefined],
    ['PATCH', {}],
    ['DELETE', undefined],
  ] as const) {
    t.equal((await call(method, '/feedback/none', body)).status, 404, method);
  }
  const bare = await clientListener(t, { hasStore: false });
  t.match(await bare.call('POST', '/feedback', { run_id: ROOT, key: 'k' }), {
    ...{ status: 405, json: { message: /no store is named/ } },
  });
});

t.test('writing feedback needs ingest:write, reading it traces:read', async (t) => {
  const writer = await withRuns(t, { permissions: ['ingest:write'] });
  const reader = await withRuns(t, { permissions: ['traces:read'] });
  for (const [method, path] of [
    ['POST', '/feedback'],
    ['PATCH', '/feedback/x'],
    ['DELETE', '/feedback/x'],
  ] as const) {
    t.equal((await reader.call(method, path, '{}')).status, 403, method);
  }
  t.equal((await writer.call('GET', '/feedback?run=a')).status, 403);
  t.equal((await writer.call('GET', '/feedback/x')).status, 403);
});

t.test(
  'feedback on the run of a span is about the span, and on a root about its trace',
  async (t) => {
    const { url, store, projectId, call } = await withRuns(t);
    const traceId = '0123456789abcdef0011223344556677';
    const [root, child] = [`${traceId}:aaaaaaaaaaaaaaaa`, `${traceId}:bbbbbbbbbbbbbbbb`];
    const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
    await store.traces.write(observationBatch(source, { id: root, traceId }));
    const second = nativeBatch(1, { tenant: aTenant({ projectId }) });
    await store.traces.write(observationBatch(second, { id: child, traceId, parentId: root }));
    const scores = async () =>
      (await store.scores.list(projectId, traceId)).map((one) => [one.name, one.observationId]);
    const client = new Client({ apiUrl: url, apiKey: 'k', autoBatchTracing: false });
    const runs = [];
    for await (const run of client.listRuns({ traceId: uuidOfTrace(traceId) })) runs.push(run.id);
    const about = { score: 1, sessionId: FEEDBACK };
    await client.createFeedback(runs[0] ?? '', 'root', about);
    await client.createFeedback(runs[1] ?? '', 'child', about);
    const trace = uuidOfTrace(traceId);
    await client.createFeedback(runs[1] ?? '', 'in', { ...about, traceId: trace });
    const listed = [];
    for await (const one of client.listFeedback({ runIds: runs }))
      listed.push([one.run_id, one.key]);
    t.same(listed, [
      [runs[0], 'root'],
      [runs[1], 'child'],
      [runs[1], 'in'],
    ]);
    // LangSmith makes the id of a run from its span id alone: it names a span only within a trace.
    const alone = { run_id: '00000000-0000-0000-bbbb-bbbbbbbbbbbb', score: 1 };
    t.equal(
      (await call('POST', '/feedback', { ...alone, key: 'by', trace_id: trace })).status,
      200,
    );
    t.equal(
      (await call('POST', '/feedback', { ...alone, key: 'hex', trace_id: traceId })).status,
      200,
    );
    t.match(await call('POST', '/feedback', { ...alone, key: 'k' }), {
      ...{ status: 400, json: { message: /give trace_id too/ } },
    });
    t.same(await scores(), [
      ['root', null],
      ['child', child],
      ['in', child],
      ['by', child],
      ['hex', child],
    ]);
    const later = { ...alone, key: 'later', trace_id: uuidOfTrace('f'.repeat(32)) };
    t.equal((await call('POST', '/feedback', later)).status, 200, 'before the span');
    t.match(await store.scores.list(projectId, 'f'.repeat(32)), [
      { observationId: `${'f'.repeat(32)}:bbbbbbbbbbbbbbbb` },
    ]);
  },
);

t.test('the SDK reads a correction back, which the score has in its comment', async (t) => {
  const { url, call, scores } = await withRuns(t);
  const client = new Client({ apiUrl: url, apiKey: 'k', autoBatchTracing: false });
  const about = { sessionId: FEEDBACK, feedbackId: FEEDBACK };
  const correction = { answer: 'four\ndegrees' };
  await client.createFeedback(ROOT, 'k', { ...about, score: 0, comment: 'no\nway', correction });
  t.match(await scores(), [
    { comment: 'no\nway\nCorrection: {"answer":"four\\ndegrees"}', value: 0 },
  ]);
  const read = () => client.readFeedback(FEEDBACK);
  t.match(await read(), { comment: 'no\nway', correction });
  await client.updateFeedback(FEEDBACK, { comment: 'yes' });
  t.match(await read(), { comment: 'yes', correction });
  await client.updateFeedback(FEEDBACK, { correction: { answer: '5' } });
  t.match(await read(), { comment: 'yes', correction: { answer: '5' } });
  const path = `/feedback/${FEEDBACK}`;
  t.match(await call('PATCH', path, { comment: null, correction: 'six' }), {
    json: { comment: null, correction: 'six' },
  });
  t.match(await call('PATCH', path, { correction: null, comment: 'Correction: none' }), {
    json: { comment: 'Correction: none', correction: null },
  });
  const [fits, long] = [8192 - 'Correction: ""'.length, 8193 - 'Correction: ""'.length];
  const asked = { comment: null, correction: 'x'.repeat(fits) };
  t.equal((await call('PATCH', path, asked)).status, 200);
  t.match(await call('PATCH', path, { ...asked, correction: 'x'.repeat(long) }), {
    ...{ status: 400, json: { message: /comment and correction must have at most 8192 bytes/ } },
  });
  t.match(await call('PATCH', path, { comment: 5, correction: 'six' }), {
    ...{ status: 400, json: { message: /comment/ } },
  });
});

t.test('lists the scores that name the root of a trace as feedback on its run', async (t) => {
  const { store, projectId, call } = await withRuns(t);
  const traceId = '0123456789abcdef0011223344556677';
  const span = `${traceId}:aaaaaaaaaaaaaaaa`;
  const source = nativeBatch(1, { tenant: aTenant({ projectId }) });
  await store.traces.write(observationBatch(source, { id: span, traceId }));
  for (const [trace, root, run] of [
    [ROOT, ROOT, ROOT],
    [traceId, span, uuidOfRun(span)],
  ] as const) {
    for (const observation of [root, null]) {
      const score = { name: observation === null ? 'trace' : 'root', observation_id: observation };
      await call('POST', `/api/v1/traces/${trace}/scores`, { ...score, value: 1 });
    }
    t.match(await call('GET', `/feedback?run=${run}`), {
      ...{ status: 200, json: [{ key: 'root' }, { key: 'trace' }] },
    });
  }
});
