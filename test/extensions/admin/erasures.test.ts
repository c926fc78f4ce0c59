import t from 'tap';
import { serving } from './serving.ts';

t.test('a request to erase is answered 202 with its query and its state', async (t) => {
  const { ask } = await serving(t);
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  const project = `/api/v1/projects/${projects[0].id}`;
  const asked = await ask('POST', `${project}/erasures`, { body: { q: 'user:"Jane Doe"' } });
  t.equal(asked.status, 202);
  t.match(asked.json, {
    ...{ q: 'user:"Jane Doe"', state: 'running', dry_run: false, block_until: null },
    ...{ traces: 0, bytes: 0, requested_by: 'admin-token', finished_at: null, receipt: null },
  });
  const one = await ask('DELETE', `${project}/traces/${encodeURIComponent('a "b" *')}`);
  t.equal(one.status, 202);
  t.equal(one.json.q, 'id:"a \\"b\\" *"', 'the id is taken as it is');
  const listed = (await ask('GET', `${project}/erasures?limit=1`)).json;
  t.same(listed.erasures, [one.json]);
  const next = await ask('GET', `${project}/erasures?cursor=${listed.next_cursor}`);
  t.same(next.json, { erasures: [asked.json], next_cursor: null });
  const shown = await ask('GET', `${project}/erasures/${asked.json.id}`);
  t.same(shown.json, asked.json);
  t.equal((await ask('GET', `${project}/erasures/era_none`)).json.code, 'not_found');
});

t.test('a query with a mistake is 400 with its position', async (t) => {
  const { ask } = await serving(t);
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  const path = `/api/v1/projects/${projects[0].id}/erasures`;
  for (const [q, position] of [
    ['', 0],
    ['   ', 0],
    ['user:a modle:x', 7],
  ] as const) {
    const answer = await ask('POST', path, { body: { q } });
    t.equal(answer.status, 400);
    t.match(answer.json, { code: 'invalid_query', position }, q);
  }
});

t.test('a block needs a time to come, and a query of ids or users alone', async (t) => {
  const { ask } = await serving(t);
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  const path = `/api/v1/projects/${projects[0].id}/erasures`;
  const send = (q: string, block_until: string) => ask('POST', path, { body: { q, block_until } });
  const now = '2026-11-20T21:30:00.000Z';
  const later = '2026-11-20T21:30:00.001Z';
  t.equal((await send('user:u', now)).json.code, 'invalid_request', 'exactly now is over');
  t.match((await send('user:u', later)).json, { block_until: later });
  t.match((await send('id:a,b', later)).json, { block_until: later });
  for (const q of ['user:u name:x', 'user:u*', '-user:u', 'name:x']) {
    t.equal((await send(q, later)).json.code, 'invalid_request', q);
  }
  const date = await send('user:u', '2026-11-21');
  t.equal(date.json.block_until, '2026-11-21T00:00:00.000Z', 'a date is its start');
  for (const wrong of ['tomorrow', '2026-11-21T08:00:00']) {
    t.match((await send('user:u', wrong)).json, {
      code: 'invalid_request',
      message: /^body.block_until must be an ISO 8601 date, or date and time with offset, such as /,
    });
  }
});
