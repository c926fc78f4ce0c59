import t from 'tap';
import { serving } from './serving.ts';

t.test('audits every change with its actor and address', async (t) => {
  const { ask } = await serving(t);
  const made = await ask('POST', '/api/v1/projects', { body: { name: 'a' } });
  const { id } = made.json as { id: string };
  await ask('PATCH', `/api/v1/projects/${id}`, { body: { name: 'b', retention: { days: 2 } } });
  const key = (await ask('POST', `/api/v1/projects/${id}/keys`, { body: { name: 'k' } })).json;
  await ask('DELETE', `/api/v1/keys/${key.id}`);
  await ask('DELETE', `/api/v1/projects/${id}`);
  await ask('PATCH', '/api/v1/organization', { body: { plan: 'pro' } });
  await ask('PATCH', '/api/v1/organization', { body: { plan: 'none' } });
  const by = {
    at: '2026-11-20T00:00:00.000Z',
    actor: 'admin-token',
    address: '127.0.0.1',
  };
  const permissions = 'ingest:write,traces:read';
  t.same((await ask('GET', '/api/v1/audit')).json, {
    audit: [
      { ...by, action: 'organization.update', subject: 'org_1', details: { plan: 'pro' } },
      { ...by, action: 'project.delete', subject: id, details: { name: 'b' } },
      { ...by, action: 'key.revoke', subject: key.id, details: { project_id: id, name: 'k' } },
      {
        ...by,
        action: 'key.create',
        subject: key.id,
        details: { project_id: id, name: 'k', permissions },
      },
      { ...by, action: 'project.update', subject: id, details: { name: 'b', retention_days: 2 } },
      { ...by, action: 'project.create', subject: id, details: { name: 'a' } },
    ],
    next_cursor: null,
  });
});

t.test('filters the audit log, and refuses a malformed filter', async (t) => {
  const { ask } = await serving(t);
  const made = await ask('POST', '/api/v1/projects', { body: { name: 'a' } });
  const { id } = made.json as { id: string };
  const key = (await ask('POST', `/api/v1/projects/${id}/keys`, { body: { name: 'k' } })).json;
  await ask('PATCH', '/api/v1/organization', { body: { plan: 'pro' } });
  const actions = async (query: string) => {
    const { json } = await ask('GET', `/api/v1/audit?${query}`);
    return json.audit.map(({ action }: { action: string }) => action);
  };
  t.same(await actions(`project=${id}`), ['key.create', 'project.create']);
  t.same(await actions(`project=${key.id}&action=project.create`), []);
  t.same(await actions('action=organization.update'), ['organization.update']);
  t.same(await actions('actor=cli'), []);
  t.equal((await actions('actor=admin-token&from=2026-11-20&to=2026-11-21')).length, 3);
  t.same(await actions('to=2026-11-20T00:00:00Z'), [], 'the end is exclusive');
  t.same(await actions('from=2026-11-20T00:00:00.001Z'), []);
  for (const query of ['from=yesterday', 'to=1', 'action=', 'actor=', 'project=', 'subject=x']) {
    const refused = await ask('GET', `/api/v1/audit?${query}`);
    t.match(refused, { status: 400, json: { code: 'invalid_request' } }, query);
  }
});
