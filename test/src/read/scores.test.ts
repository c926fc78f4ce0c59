import type { Test } from 'tap';
import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { Permission } from '../../../src/model/batch.ts';
import { Refusal } from '../../../src/model/errors.ts';
import { SCORE_BYTES } from '../../../src/read/new-score.ts';
import { SCORES_AT_ONCE } from '../../../src/read/score-bytes.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant, observationBatch } from '../../helper/batches.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';
import { until } from '../../helper/until.ts';

/** A listener with a store, whose clients have the permissions. */
async function scoring(
  t: Test,
  permissions: readonly Permission[] = ['ingest:write', 'traces:read'],
  hasStore = true,
) {
  const { store, close } = await sqlitePlace(t).open();
  const listeners = testListeners(undefined, undefined, { scores_per_trace: 3 });
  const tenant = aTenant();
  const pipeline = sinkPipeline(createSink(), {
    offers: hasStore ? [offer(STORE, store)] : [],
    admitRead(_head, _fallback, permission = 'traces:read') {
      if (!permissions.includes(permission)) throw new Refusal('forbidden', `No ${permission}.`);
      return { tenant, release() {} };
    },
  });
  const listener = await listeners.bind('127.0.0.1:0', USUAL_LIMITS, {
    ...{ pipeline, fallback: undefined },
  });
  await listener.open();
  t.teardown(async () => {
    await listener.close(AbortSignal.abort());
    await listeners.close();
    await close();
  });
  const call = async (path: string, init: RequestInit = {}) => {
    const answer = await fetch(`${urlOf(listener)}/api/v1${path}`, init);
    const json = (await answer.json()) as Record<string, unknown>;
    return { status: answer.status, json, encodings: answer.headers.get('accept-encoding') };
  };
  const headers = { 'content-type': 'application/json' };
  return {
    store,
    listeners,
    call,
    post: (body: unknown, trace = 'trace-1', more: Readonly<Record<string, string>> = {}) =>
      call(`/traces/${trace}/scores`, {
        method: 'POST',
        headers: { ...headers, ...more },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
  };
}

t.test('stores a score, shows it in its trace, and finds the trace by it', async (t) => {
  const { store, call, post } = await scoring(t);
  const created = await post({
    ...{ id: 'mine', name: 'quality', value: 0.75, comment: 'fine', source: 'human' },
    observation_id: null,
  });
  t.equal(created.status, 201);
  t.match(created.json, {
    ...{ id: 'mine', trace_id: 'trace-1', observation_id: null, name: 'quality', value: 0.75 },
    ...{ comment: 'fine', source: 'human', created_at: /^\d{4}-.*Z$/ },
  });
  t.match((await post({ name: 'ok', value: true })).json, { id: /^[0-9A-Z]{26}$/, comment: null });
  await store.traces.write(observationBatch());
  t.match((await call('/traces/trace-1')).json, {
    trace: { scores: { quality: 0.75, ok: true } },
  });
  const { traces } = (await call('/traces?q=score.quality:>0.7')).json;
  t.match(traces, [{ id: 'trace-1', scores: { quality: 0.75 } }]);
  t.match((await post({ id: 'mine', name: 'quality', value: 0.1 })).json, { comment: null });
  const { scores } = (await call('/traces/trace-1/scores')).json;
  t.match(scores, [{ id: 'mine', value: 0.1 }, { name: 'ok' }]);
});

t.test('refuses a score that is none, and names the field', async (t) => {
  const { post, call } = await scoring(t);
  const valid = { name: 'n', value: 1 };
  for (const [body, named] of [
    [[], 'object'],
    ['null', 'object'],
    [{ value: 1 }, 'body.name is required'],
    [{ name: 'n' }, 'body.value'],
    [{ name: 'n', value: null }, 'body.value'],
    [{ name: 'n', value: [1] }, 'body.value'],
    ['{"name":"n","value":1e999}', 'body.value'],
    [{ ...valid, name: '' }, 'body.name'],
    [{ ...valid, name: 'a\nb' }, 'body.name'],
    [{ ...valid, id: '' }, 'body.id'],
    [{ ...valid, id: 7 }, 'body.id must be a text'],
    [{ ...valid, coment: 'x' }, 'did you mean "comment"'],
    ['{"name":"n","value":1,"__proto__":1}', '__proto__'],
  ] as const) {
    const { status, json } = await post(body);
    t.equal(status, 400, JSON.stringify(body));
    t.equal(json.code, 'invalid_request');
    t.match(String(json.message), named);
  }
  t.match(await post('{'), { status: 400, json: { code: 'invalid_json' } });
  t.match(await post('"\xff'), { status: 400, json: { code: 'invalid_json' } });
  t.match(await post(valid, 'trace-1', { 'content-type': 'text/plain' }), {
    ...{ status: 400, json: { code: 'unsupported_content_type' } },
  });
  t.match(await post(valid, 'trace-1', { 'content-encoding': 'gzip' }), {
    ...{ status: 415, json: { code: 'unsupported_encoding' }, encodings: 'identity' },
  });
  t.match(await call('/traces/t/scores?x=1', { method: 'POST' }), { status: 400 });
  t.match(await call('/traces/t/scores?x=1'), { status: 400 });
  t.match(await call('/traces/t/scores'), { status: 404, json: { code: 'not_found' } });
});

t.test('texts and bodies are accepted up to their limits', async (t) => {
  const { post, listeners } = await scoring(t);
  for (const [field, bytes] of Object.entries(SCORE_BYTES)) {
    const body = (length: number) => ({
      id: 'a',
      name: 'n',
      value: 1,
      [field]: 'x'.repeat(length),
    });
    t.equal((await post(body(bytes), field)).status, 201, field);
    t.match(await post(body(bytes + 1), field), { status: 400, json: { code: 'invalid_request' } });
  }
  t.equal((await post({ name: 'ü'.repeat(SCORE_BYTES.name / 2), value: 1 })).status, 201, 'bytes');
  const padded = (length: number) => '{"name":"n","value":1}'.padEnd(length);
  t.equal((await post(padded(65_536))).status, 201);
  t.match(await post(padded(65_537)), {
    status: 413,
    json: { code: 'body_too_large', message: 'The body exceeds 64 KiB (65536 bytes).' },
  });
  await until(() => listeners.reads.heldBytes === 0);
});

t.test('a trace has at most service.limits.scores_per_trace scores', async (t) => {
  const { post } = await scoring(t);
  for (const id of ['a', 'b', 'c']) t.equal((await post({ id, name: 'n', value: 1 })).status, 201);
  t.match(await post({ id: 'd', name: 'n', value: 1 }), {
    ...{ status: 409, json: { code: 'too_many_scores' } },
  });
  t.equal((await post({ id: 'c', name: 'n', value: 2 })).status, 201, 'a replacement');
  t.equal((await post({ id: 'd', name: 'n', value: 1 }, 'other')).status, 201);
});

t.test('a project that stores scores too fast is refused for a while', async (t) => {
  const { listeners, post } = await scoring(t);
  const large = { id: 'a', observationId: null, name: 'n', comment: null, source: null, at: 0 };
  const { projectId } = aTenant();
  listeners.reads.scores.admit(projectId, { ...large, value: 'x'.repeat(2 * SCORES_AT_ONCE) });
  const refused = await post({ id: 'b', name: 'n', value: 1 });
  t.match(refused, { status: 429, json: { code: 'rate_limited', message: /scores too fast/ } });
});

t.test('storing a score needs ingest:write, reading scores traces:read', async (t) => {
  const reader = await scoring(t, ['traces:read']);
  t.match(await reader.post({ name: 'n', value: 1 }), { status: 403, json: { code: 'forbidden' } });
  const writer = await scoring(t, ['ingest:write']);
  t.equal((await writer.post({ name: 'n', value: 1 })).status, 201);
  t.equal((await writer.call('/traces/trace-1/scores')).status, 403);
});

t.test('a listener without a store says so', async (t) => {
  const { post } = await scoring(t, ['ingest:write'], false);
  const refused = await post({ name: 'n', value: 1 });
  t.match(refused, { status: 404, json: { code: 'not_found', message: /no store is named/ } });
});
