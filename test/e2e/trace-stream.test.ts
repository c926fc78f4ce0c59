import t from 'tap';
import { eventually, json, record, send } from './client.ts';
import { type Daemon, startDaemon } from './daemon.ts';
import { follow } from './follow.ts';

t.setTimeout(300_000);

const event = (traceId: string, name: string, more: object = {}) => ({
  ...{ id: `o-${traceId}-${name}`, trace_id: traceId, operation: 'finish', kind: 'llm' },
  ...{ status: 'success', name },
  ...more,
});

async function post(daemon: Daemon, ...events: object[]): Promise<void> {
  const { status } = await send(daemon.base, {
    method: 'POST',
    path: '/api/v1/observations/batch',
    headers: { authorization: `Bearer ${daemon.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events }),
  });
  if (status !== 202) throw new Error(`the events were answered with ${status}`);
}

t.test('a stream has each trace that is new or changes, and matches', async (t) => {
  const daemon = await startDaemon(t, { config: { service: { limits: { streams_per_key: 3 } } } });
  const all = await follow(t, daemon, '');
  t.equal(all.status, 200);
  const some = await follow(t, daemon, '?q=name:wanted');
  await post(daemon, event('t1', 'wanted', { start_time: '2026-01-02T03:04:05Z' }));
  await eventually(
    async () => all.ids(),
    (ids) => ids.includes('t1'),
    'the new trace',
  );
  await post(daemon, event('t2', 'other'));
  await eventually(
    async () => all.ids(),
    (ids) => ids.includes('t2'),
    'another trace',
  );
  await post(daemon, event('t1', 'later', { start_time: '2026-01-02T03:04:06Z' }));
  await eventually(
    async () => some.events.at(-1)?.data,
    (data) => data?.observation_count === 2,
    'the changed trace',
  );
  t.same(new Set(some.ids()), new Set(['t1']), 'the other trace does not match');
  t.match(some.events[0], { type: 'trace', data: { id: 't1', name: 'wanted', status: 'success' } });
  const { body } = await send(daemon.base, {
    path: '/api/v1/traces?q=id:t1',
    headers: { authorization: `Bearer ${daemon.key}` },
  });
  t.same([some.events.at(-1)?.data], record(JSON.parse(body.toString())).traces, 'a list item');

  const third = await follow(t, daemon, '');
  t.equal((await follow(t, daemon, '')).status, 429, 'one more than the streams of a key');
  third.close();
  await eventually(
    async () => (await follow(t, daemon, '')).status,
    (status) => status === 200,
    'the place of a client that has gone',
  );
  t.equal((await follow(t, daemon, '?q=nonsense:x')).status, 400);
  t.equal((await follow(t, daemon, '?limit=5')).status, 400);
  const refused = await send(daemon.base, { path: '/api/v1/traces/stream' });
  t.equal(refused.status, 401);
  t.ok(record(json(refused)).code);

  await daemon.end('SIGTERM');
  t.ok(all.hasEnded(), 'a stop ends the streams');
});
