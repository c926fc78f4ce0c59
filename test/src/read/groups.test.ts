import type { Test } from 'tap';
import t from 'tap';
import type { Observation } from '../../../src/model/observation.ts';
import { anObservation, nativeBatch, nativeEvent } from '../../helper/batches.ts';
import { readingListener } from '../../helper/reading-listener.ts';

const T0 = Date.UTC(2026, 0, 15, 12);
const at = (ms: number) => ({ ms: T0 + ms, ns: 0 });

async function reading(t: Test) {
  const { store, get } = await readingListener(t);
  return {
    get,
    /** Writes root observations with inputs and outputs. */
    async write(roots: readonly Partial<Observation>[]) {
      const events = roots.map(({ traceId }) =>
        nativeEvent({ trace_id: traceId, inputs: `in ${traceId}`, outputs: { of: traceId } }),
      );
      const observations = roots.map((more, index) =>
        anObservation({ ...more, index, payloadMask: 3 }),
      );
      const source = nativeBatch(events, { receivedAt: T0 });
      await store.traces.write({ kind: 'observations', source, observations });
    },
  };
}

t.test('lists sessions and users with the sums of their traces', async (t) => {
  const { get, write } = await reading(t);
  await write([
    {
      ...{ traceId: 'a', sessionId: 's 1', userId: 'u', startTime: at(0), endTime: at(1500) },
      usage: { input_tokens: 2, output_tokens: 3 },
      details: { cost: { input: 1, output: 1, total: 2_500_000, source: 'sent' } },
    },
    {
      traceId: 'b',
      sessionId: 's 1',
      userId: 'u',
      startTime: at(900),
      status: 'error',
      endTime: null,
    },
    { traceId: 'c', sessionId: 's/2', userId: 'u', startTime: at(500), endTime: at(600) },
  ]);
  const first = {
    id: 's 1',
    user_id: 'u',
    first_time: '2026-01-15T12:00:00.000Z',
    last_time: '2026-01-15T12:00:01.500Z',
    traces: 2,
    observations: 2,
    errors: 1,
    usage: { input_tokens: 2, output_tokens: 3, total_tokens: 5 },
    cost: { input: null, output: null, total: 0.0025, currency: 'USD' },
    partial: false,
  };
  const sessions = await get('/sessions');
  t.equal(sessions.status, 200);
  t.match(sessions.json, {
    sessions: [first, { id: 's/2', traces: 1, usage: null, cost: null }],
    next_cursor: null,
    searched_to: null,
    partial: false,
  });
  t.match((await get('/users')).json, { users: [{ id: 'u', sessions: 2, traces: 3, errors: 1 }] });
  t.match((await get('/users/u')).json, { user: { id: 'u', sessions: 2, traces: 3 } });
  t.match((await get('/sessions/s%201?limit=1')).json, { session: first });
  t.match((await get('/sessions/s%2F2')).json, { session: { id: 's/2', traces: 1 } });
  t.match((await get('/sessions?q=-has:error')).json, {
    sessions: [{ id: 's/2' }, { id: 's 1', traces: 1, errors: 0 }],
  });
  t.match((await get('/sessions?from=2026-01-15T12:00:00.9Z')).json, {
    sessions: [{ id: 's 1', traces: 1, first_time: '2026-01-15T12:00:00.900Z' }],
  });
});

t.test('pages of sessions follow each other', async (t) => {
  const { get, write } = await reading(t);
  // The sessions alternate, so that each page comes across the sessions of earlier ones.
  await write(
    Array.from({ length: 40 }, (_, i) => ({
      ...{ traceId: `t${i}`, sessionId: `s${i % 10}`, startTime: at(i) },
    })),
  );
  const ids: unknown[] = [];
  let cursor: unknown = null;
  do {
    const more: string = cursor === null ? '' : `&cursor=${String(cursor)}`;
    const { json } = await get(`/sessions?limit=3${more}`);
    ids.push(...(json.sessions as { id: string }[]).map(({ id }) => id));
    cursor = json.next_cursor;
  } while (cursor !== null);
  t.same(ids, ['s9', 's8', 's7', 's6', 's5', 's4', 's3', 's2', 's1', 's0']);
  const { json } = await get('/sessions?limit=3');
  const foreign = await get(`/users?limit=3&cursor=${String(json.next_cursor)}`);
  t.match(foreign, { status: 400, json: { code: 'invalid_cursor' } });
});

t.test('a session has its traces, oldest first, with the payloads of their roots', async (t) => {
  const { get, write } = await reading(t);
  await write([
    { traceId: 'late', sessionId: 's', startTime: at(10) },
    { traceId: 'early', sessionId: 's', startTime: at(0) },
    { traceId: 'other', sessionId: 'x', startTime: at(0) },
  ]);
  const page = await get('/sessions/s?limit=1');
  t.match(page.json, {
    session: { id: 's', traces: 2 },
    traces: [{ id: 'early', input: 'in early', output: { of: 'early' } }],
  });
  const next = await get(`/sessions/s?limit=1&cursor=${String(page.json.next_cursor)}`);
  t.match(next.json, { traces: [{ id: 'late', input: 'in late' }], next_cursor: null });
});

t.test('a failed trace of a session has the error of its root', async (t) => {
  const { get, write } = await reading(t);
  const error = { type: 'ValueError', message: 'no such order', stacktrace: 'at line 1' };
  await write([
    { traceId: 'good', sessionId: 's', startTime: at(0) },
    { traceId: 'bad', sessionId: 's', startTime: at(1), status: 'error', error },
  ]);
  const { json } = await get('/sessions/s');
  t.strictSame(
    (json.traces as { error: unknown }[]).map((each) => each.error),
    [null, { type: 'ValueError', message: 'no such order' }],
  );
});

t.test('refuses unknown sessions and users, and unknown parameters', async (t) => {
  const { get } = await reading(t);
  t.match(await get('/sessions/s'), { status: 404, json: { code: 'not_found' } });
  t.match(await get('/users/u'), { status: 404, json: { message: 'There is no such user.' } });
  for (const path of [
    '/sessions?status=ok',
    '/users?status=ok',
    '/sessions/s?q=x',
    '/users/u?limit=1',
  ]) {
    t.match(await get(path), { status: 400, json: { code: 'invalid_request' } }, path);
  }
  t.match(await get('/sessions?q=modle:x'), { status: 400, json: { code: 'invalid_query' } });
  t.equal((await get('/sessions?limit=1000')).status, 200);
  t.equal((await get('/sessions?limit=1001')).status, 400);
});
