import { createRequire } from 'node:module';
import t from 'tap';
import { guardAccess } from '../../../extensions/admin/access.ts';
import type { ApiError } from '../../../extensions/admin/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { fakeStore } from '../../helper/fake-store.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { dial } from '../../helper/wire.ts';
import { serving, TOKEN } from './serving.ts';

t.test('loads no compilers of schemas', async (t) => {
  await serving(t);
  const loaded = Object.keys(createRequire(import.meta.url).cache);
  t.ok(loaded.some((file) => file.endsWith('/fastify/fastify.js')));
  t.strictSame(
    loaded.filter((file) => /[/](?:fast-json-stringify|ajv)-compiler[/]/.test(file)),
    [],
  );
});

t.test('shows and changes the organization, with limits in force and usage', async (t) => {
  const { ask } = await serving(t);
  const shown = await ask('GET', '/api/v1/organization');
  t.equal(shown.status, 200);
  t.same(shown.json, {
    id: 'org_1',
    name: 'organization',
    plan: 'scale',
    limits: {
      projects: null,
      events_per_month: 50_000,
      bytes_per_hour: null,
      retention_days: 14,
    },
    usage: {
      month: { events: 7, resets_at: '2026-12-01T00:00:00.000Z' },
      hour: { bytes: 70, resets_at: '2026-11-20T01:00:00.000Z' },
    },
  });
  const changed = await ask('PATCH', '/api/v1/organization', { body: { name: 'Ours' } });
  t.match(changed, { status: 200, json: { name: 'Ours', plan: 'scale' } });
});

t.test("lists the plans in order, with the organization's limits on each", async (t) => {
  const { ask } = await serving(t);
  const { plans } = (await ask('GET', '/api/v1/plans')).json;
  t.same(
    plans.map((plan: { name: string }) => plan.name),
    ['free', 'pro', 'scale', 'enterprise'],
  );
  t.same(plans[0].limits, {
    projects: 1,
    events_per_month: 50_000,
    bytes_per_hour: null,
    retention_days: 14,
  });
});

t.test('creates, reads, updates and deletes a project', async (t) => {
  const { ask } = await serving(t);
  const made = await ask('POST', '/api/v1/projects', { body: { name: 'staging' } });
  t.equal(made.status, 201);
  const { id } = made.json as { id: string };
  t.same(made.json, {
    id,
    name: 'staging',
    retained_traces: 0,
    retention: { days: 14 },
    limits: { events_per_month: null, bytes_per_hour: null },
    created_at: '2026-11-20T00:00:00.000Z',
  });
  const at = made.headers.get('location') ?? '';
  t.same((await ask('GET', at)).json, made.json);
  const changed = await ask('PATCH', at, { body: { name: 'old', retention: { days: 3 } } });
  t.match(changed, { status: 200, json: { name: 'old', retention: { days: 3 } } });
  const back = await ask('PATCH', at, { body: { retention: { days: null } } });
  t.match(back.json, { name: 'old', retention: { days: 14 } });
  await ask('PATCH', at, { body: { limits: { events_per_month: 5 } } });
  const limited = await ask('PATCH', at, { body: { limits: { bytes_per_hour: 1 } } });
  t.same(
    limited.json.limits,
    { events_per_month: 5, bytes_per_hour: 1 },
    'absent fields stay unchanged',
  );
  const free = await ask('PATCH', at, { body: { limits: { events_per_month: null } } });
  t.same(free.json.limits, { events_per_month: null, bytes_per_hour: 1 });
  const gone = await ask('DELETE', at);
  t.same([gone.status, gone.text], [204, '']);
  t.match(await ask('DELETE', at), { status: 404, json: { code: 'unknown_project' } });
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  t.equal(projects.length, 1);
  const last = await ask('DELETE', `/api/v1/projects/${projects[0].id}`);
  t.match(last, { status: 409, json: { code: 'last_project' } });
});

t.test('returns the token of a key once, in an answer that must not be cached', async (t) => {
  const { ask, store, settings } = await serving(t);
  const [{ id }] = (await ask('GET', '/api/v1/projects')).json.projects;
  const path = `/api/v1/projects/${id}/keys`;
  const made = await ask('POST', path, { body: { name: 'ci', permissions: ['ingest:write'] } });
  t.equal(made.status, 201);
  t.equal(made.headers.get('cache-control'), 'no-store');
  const { token, ...key } = made.json as { token: string; id: string };
  t.match(token, /^ws_/);
  t.same((await ask('GET', path)).json, { keys: [key] });
  const revoked = await ask('DELETE', `/api/v1/keys/${key.id}`);
  t.match(revoked, { status: 200, json: { id: key.id, revoked_at: '2026-11-20T00:00:00.000Z' } });
  t.same(
    (await ask('DELETE', `/api/v1/keys/${key.id}`)).json,
    revoked.json,
    'a second revocation has the same answer',
  );
  for (const path of ['/organization', '/projects', '/audit', '/usage', '/status']) {
    t.notMatch((await ask('GET', `/api/v1${path}`)).text, token, path);
  }
  t.notMatch(JSON.stringify([settings.logger.lines, store.entries]), token);
});

t.test('creates a key with both permissions from an empty body', async (t) => {
  const { ask } = await serving(t);
  const [{ id }] = (await ask('GET', '/api/v1/projects')).json.projects;
  const made = await ask('POST', `/api/v1/projects/${id}/keys`);
  t.match(made, { status: 201, json: { permissions: ['ingest:write', 'traces:read'] } });
});

t.test('lists the history of whole periods', async (t) => {
  const { ask, store } = await serving(t);
  const row = { period: '2026-11-20', projectId: 'proj_1', keyId: 'key_1', events: 5, bytes: 50 };
  store.rows.push({ ...row, rejected: { missing_field: 2 } });
  t.same((await ask('GET', '/api/v1/usage')).json, {
    from: '2026-10-22T00:00:00.000Z',
    to: '2026-11-21T00:00:00.000Z',
    by: 'day',
    usage: [
      {
        period: '2026-11-20',
        project_id: 'proj_1',
        key_id: 'key_1',
        events: 5,
        bytes: 50,
        rejected: { missing_field: 2 },
      },
    ],
  });
  const ranges = {
    'by=hour': ['2026-11-18T22:00:00.000Z', '2026-11-20T22:00:00.000Z'],
    'from=2026-11-01&to=2026-11-02': ['2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z'],
    'from=2026-11-01T10:30:00Z&to=2026-11-01T12:00:00.001%2B01:00&by=hour': [
      '2026-11-01T10:00:00.000Z',
      '2026-11-01T12:00:00.000Z',
    ],
  };
  for (const [query, [from, to]] of Object.entries(ranges)) {
    t.match((await ask('GET', `/api/v1/usage?${query}`)).json, { from, to }, query);
  }
  t.same((await ask('GET', '/api/v1/usage?project=proj_2')).json.usage, []);
  for (const query of [
    'from=2026-11-02&to=2026-11-01',
    'from=2026-11-01&to=2026-11-01',
    'from=yesterday',
    'from=2026-02-30',
    'by=week',
    'from=2000-01-01',
    'by=hour&from=2026-01-01',
    'from=2026-11-01&from=2026-11-02',
    'form=2026-11-01',
  ]) {
    const refused = await ask('GET', `/api/v1/usage?${query}`);
    t.match(refused, { status: 400, json: { code: 'invalid_request' } }, query);
  }
});

t.test('an endpoint that other machines reach is logged without TLS and token', async (t) => {
  const [TLS, NO_TOKEN] = [/no TLS/, /no configured token/];
  const cases: [config: object, warnings: RegExp[]][] = [
    [{ endpoint: '127.0.0.1:0', token: '' }, []],
    [{ endpoint: 'localhost:0', token: '' }, []],
    [{ endpoint: '0.0.0.0:0' }, [TLS]],
    [{ endpoint: '0.0.0.0:0', token: '' }, [TLS, NO_TOKEN]],
  ];
  for (const [config, warnings] of cases) {
    const directory = t.testdir();
    const { settings } = await serving(t, { config, directory });
    const logged = settings.logger.lines.filter(({ level }) => level === 'warn');
    t.match(
      logged,
      warnings.map((message) => ({ message })),
    );
    t.equal(logged.length, warnings.length, JSON.stringify(config));
  }
});

t.test('counts rejections by code and period, over all keys', async (t) => {
  const { ask, store } = await serving(t);
  const [{ id }] = (await ask('GET', '/api/v1/projects')).json.projects;
  const row = (period: string, keyId: string, rejected: Record<string, number>) => {
    store.rows.push({ period, projectId: id, keyId, events: 1, bytes: 1, rejected });
  };
  row('2026-11-20T20', 'key_1', { missing_field: 2, rate_limited: 9 });
  row('2026-11-20T19', 'key_1', { missing_field: 1 });
  row('2026-11-20T20', 'key_2', { missing_field: 4 });
  row('2026-11-20T18', 'key_2', {});
  const path = `/api/v1/projects/${id}/rejections/counts`;
  const answer = await ask('GET', `${path}?by=hour&from=2026-11-20T18:00:00Z`);
  t.strictSame(answer.json, {
    ...{ from: '2026-11-20T18:00:00.000Z', to: '2026-11-20T22:00:00.000Z', by: 'hour' },
    codes: [
      { code: 'rate_limited', count: 9, periods: [{ period: '2026-11-20T20', count: 9 }] },
      {
        ...{ code: 'missing_field', count: 7 },
        periods: [
          { period: '2026-11-20T19', count: 1 },
          { period: '2026-11-20T20', count: 6 },
        ],
      },
    ],
  });
  for (const query of ['by=week', 'from=x', 'from=2026-11-21&to=2026-11-20', `project=${id}`]) {
    t.equal((await ask('GET', `${path}?${query}`)).status, 400, query);
  }
});

t.test('pages long listings', async (t) => {
  const { ask, store } = await serving(t);
  const [{ id }] = (await ask('GET', '/api/v1/projects')).json.projects;
  for (const index of [1, 2, 3]) {
    store.refused.push({
      at: Date.UTC(2026, 10, 20) + index,
      projectId: id,
      keyId: 'key_1',
      path: '/api/v1/runs',
      code: 'missing_field',
      reason: 'post[0].id is missing',
      itemId: null,
      client: 'sdk/1.0',
      count: index,
    });
  }
  const path = `/api/v1/projects/${id}/rejections?limit=2`;
  const first = (await ask('GET', path)).json;
  t.match(first.rejections, [{ count: 3, at: '2026-11-20T00:00:00.003Z' }, { count: 2 }]);
  const rest = (await ask('GET', `${path}&cursor=${first.next_cursor}`)).json;
  t.match(rest, {
    rejections: [{ count: 1, item_id: null, client: 'sdk/1.0' }],
    next_cursor: null,
  });
  for (const query of ['limit=0', 'limit=1001', 'limit=a', 'limit=1.5', 'cursor=']) {
    const refused = await ask('GET', `/api/v1/audit?${query}`);
    t.match(refused, { status: 400, json: { code: 'invalid_request' } }, query);
  }
});

t.test('accepts only the admin token', async (t) => {
  const { ask, url, clock } = await serving(t);
  const path = '/api/v1/projects';
  const refused = await ask('GET', path, { token: null });
  t.match(refused, { status: 401, json: { code: 'unauthorized' } });
  t.equal(refused.headers.get('www-authenticate'), 'Bearer');
  t.match(await ask('GET', path, { token: `ws_${'a'.repeat(49)}` }), {
    status: 401,
    json: { code: 'unauthorized', message: /project key/ },
  });
  const others = [TOKEN.slice(0, -1), `${TOKEN}x`, '', 'x'.repeat(8000)];
  for (const token of others) t.equal((await ask('GET', path, { token })).status, 401);
  for (const authorization of [`Basic ${TOKEN}`, TOKEN, `Bearer ${TOKEN} ${TOKEN}`]) {
    const answer = await ask('GET', path, { token: null, headers: { authorization } });
    t.equal(answer.status, 401, authorization);
  }
  t.equal((await ask('GET', path, { token: null, headers: { 'x-api-key': TOKEN } })).status, 401);
  const wire = await dial(url);
  const header = `Authorization: Bearer ${TOKEN}\r\n`;
  wire.send(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${header}${header}\r\n`);
  t.equal((await wire.answer()).status, 401, 'a repeated header');
  wire.close();
  clock.advance(3_600_000);
  const lower = { authorization: `bearer ${TOKEN}` };
  t.equal((await ask('GET', path, { token: null, headers: lower })).status, 200);
});

t.test('throttles wrong tokens of an address, but not the right token', async (t) => {
  const { ask, clock, settings } = await serving(t);
  for (let attempt = 0; attempt < 10; attempt++) {
    t.equal((await ask('GET', '/api/v1/projects', { token: `no${attempt}` })).status, 401);
  }
  const blocked = await ask('GET', '/api/v1/projects', { token: 'no' });
  t.match(blocked, { status: 429, json: { code: 'rate_limited' } });
  t.equal(blocked.headers.get('retry-after'), '6');
  t.equal((await ask('GET', '/api/v1/projects')).status, 200, 'the right token');
  t.equal((await ask('GET', '/api/v1/projects', { token: 'no' })).status, 429);
  t.match(
    settings.logger.lines.filter(({ level }) => level === 'warn'),
    [{ fields: { address: '127.0.0.1' } }],
    'one line says so',
  );
  t.equal((await ask('GET', '/api/v1/projects', { token: null })).status, 401, 'no guess');
  clock.advance(5_999);
  t.equal((await ask('GET', '/api/v1/projects', { token: 'no' })).status, 429);
  clock.advance(1);
  t.equal((await ask('GET', '/api/v1/projects', { token: 'no' })).status, 401);
});

t.test('counts and logs the client that a trusted proxy names', async (t) => {
  for (const [trusted_proxies, client] of [
    [['127.0.0.0/8'], '198.51.100.1'],
    [['10.0.0.0/8'], '127.0.0.1'],
  ] as const) {
    const { ask, settings } = await serving(t, { config: { trusted_proxies } });
    const headers = { 'x-forwarded-for': '198.51.100.1' };
    for (let i = 0; i < 10; i++) await ask('GET', '/api/v1/projects', { token: 'no', headers });
    const lines = settings.logger.lines.filter(({ level }) => level === 'warn');
    t.match(lines, [{ fields: { address: client } }]);
    const blocked = await ask('GET', '/api/v1/projects', { token: 'no' });
    t.equal(blocked.status, client === '127.0.0.1' ? 429 : 401);
    await ask('POST', '/api/v1/projects', { body: { name: 'a' }, headers });
    const { audit } = (await ask('GET', '/api/v1/audit')).json;
    t.equal(audit[0].address, client);
  }
});

t.test('counts the addresses of an IPv6 /64 network as one', async (t) => {
  const clock = fakeClock();
  const access = guardAccess(TOKEN, clock, recordingLogger());
  const attempt = (address: string, token = 'wrong') => {
    try {
      access.check([`Bearer ${token}`], address);
      return 200;
    } catch (error) {
      return (error as ApiError).status;
    }
  };
  for (let host = 1; host <= 10; host++) t.equal(attempt(`2001:db8:1:2::${host}`), 401);
  t.equal(attempt('2001:db8:1:2:a:b:c:d'), 429);
  t.equal(attempt('2001:db8:1:3::1'), 401, 'another network');
  t.equal(attempt('::1', TOKEN), 200);
  clock.set(clock.now() - 86_400_000);
  t.equal(attempt('2001:db8:1:2::1'), 429, 'a clock that goes back adds no attempts');
});

t.test('warns about a remote endpoint without TLS', async (t) => {
  const { settings } = await serving(t, { config: { endpoint: ':0' } });
  t.match(
    settings.logger.lines.filter(({ level }) => level === 'warn'),
    [{ message: /has no TLS/ }],
  );
});

t.test('refuses a request without a token before it reads the body', async (t) => {
  const { url } = await serving(t);
  const wire = await dial(url);
  wire.send(
    'POST /api/v1/projects HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n',
  );
  wire.send('Content-Length: 1000\r\n\r\n');
  t.equal((await wire.answer()).status, 401);
});

t.test('answers malformed requests with a code and a message without values', async (t) => {
  const { ask } = await serving(t);
  const [{ id }] = (await ask('GET', '/api/v1/projects')).json.projects;
  const project = `/api/v1/projects/${id}`;
  const post = (body: unknown) => ({ method: 'POST', path: '/api/v1/projects', body });
  const cases: [what: object, status: number, code: string][] = [
    [{ ...post(undefined), raw: '{"name":' }, 400, 'invalid_json'],
    [{ ...post(undefined), raw: '' }, 400, 'invalid_json'],
    [post(undefined), 400, 'invalid_json'],
    [{ ...post(undefined), raw: Buffer.from([0x22, 0xff, 0x22]) }, 400, 'invalid_json'],
    [{ ...post(undefined), raw: '[]' }, 400, 'invalid_request'],
    [{ ...post(undefined), raw: 'null' }, 400, 'invalid_request'],
    [{ ...post(undefined), raw: '"a"' }, 400, 'invalid_request'],
    [{ ...post(undefined), raw: '['.repeat(60_000) }, 400, 'invalid_json'],
    [{ ...post(undefined), raw: '{"name":"a","__proto__":{}}' }, 400, 'invalid_request'],
    [post({}), 400, 'invalid_request'],
    [post({ name: 'a', nmae: 'b' }), 400, 'invalid_request'],
    [post({ name: 1 }), 400, 'invalid_name'],
    [post({ name: null }), 400, 'invalid_name'],
    [post({ name: '' }), 400, 'invalid_name'],
    [post({ name: '  ' }), 400, 'invalid_name'],
    [post({ name: 'ö'.repeat(201) }), 400, 'invalid_name'],
    [post({ name: '\ud800' }), 400, 'invalid_name'],
    [{ ...post({ name: 'x'.repeat(65_536) }) }, 413, 'body_too_large'],
    [
      { ...post({ name: 'a' }), headers: { 'content-type': 'text/plain' } },
      415,
      'unsupported_content_type',
    ],
    [
      { ...post({ name: 'a' }), headers: { 'content-type': 'nonsense' } },
      415,
      'unsupported_content_type',
    ],
    [
      { ...post({ name: 'a' }), headers: { 'content-encoding': 'gzip' } },
      415,
      'unsupported_encoding',
    ],
    [{ method: 'PATCH', path: project, body: {} }, 400, 'invalid_request'],
    [{ method: 'PATCH', path: project, body: { id: 'proj_x' } }, 400, 'invalid_request'],
    [{ method: 'PATCH', path: project, body: { retention: 5 } }, 400, 'invalid_retention'],
    [
      { method: 'PATCH', path: project, body: { retention: { days: 0 } } },
      400,
      'invalid_retention',
    ],
    [
      { method: 'PATCH', path: project, body: { retention: { days: 1.5 } } },
      400,
      'invalid_retention',
    ],
    [
      { method: 'PATCH', path: project, body: { retention: { days: 15 } } },
      400,
      'invalid_retention',
    ],
    [{ method: 'PATCH', path: project, body: { retention: {} } }, 400, 'invalid_request'],
    [
      { method: 'POST', path: `${project}/keys`, body: { permissions: [] } },
      400,
      'invalid_permissions',
    ],
    [
      { method: 'POST', path: `${project}/keys`, body: { permissions: ['admin'] } },
      400,
      'invalid_permissions',
    ],
    [
      { method: 'POST', path: `${project}/keys`, body: { permissions: 'traces:read' } },
      400,
      'invalid_permissions',
    ],
    [
      { method: 'PATCH', path: '/api/v1/organization', body: { plan: 'gold' } },
      400,
      'unknown_plan',
    ],
    [{ method: 'PATCH', path: '/api/v1/organization', body: { plan: null } }, 400, 'unknown_plan'],
    [{ method: 'DELETE', path: project, body: {} }, 400, 'invalid_request'],
    [{ method: 'GET', path: `${project}?a=b` }, 400, 'invalid_request'],
    [{ method: 'GET', path: '/api/v1/projects/%zz' }, 400, 'invalid_request'],
    [{ method: 'GET', path: '/api/v1/projects/proj_none' }, 404, 'unknown_project'],
    [{ method: 'GET', path: '/api/v1/projects/%00' }, 404, 'unknown_project'],
    [{ method: 'GET', path: `/api/v1/projects/${'x'.repeat(4096)}` }, 404, 'unknown_project'],
    [{ method: 'GET', path: `/api/v1/projects/${'x'.repeat(4097)}` }, 404, 'not_found'],
    [{ method: 'GET', path: '/api/v1/projects/proj_none/keys' }, 404, 'unknown_project'],
    [{ method: 'POST', path: '/api/v1/projects/proj_none/keys', body: {} }, 404, 'unknown_project'],
    [{ method: 'DELETE', path: '/api/v1/keys/key_none' }, 404, 'unknown_key'],
    [{ method: 'GET', path: '/api/v1/nothing' }, 404, 'not_found'],
    [{ method: 'GET', path: '/nothing' }, 404, 'not_found'],
    [{ method: 'GET', path: '/index.html' }, 404, 'not_found'],
    [{ method: 'POST', path: '/', body: {} }, 404, 'not_found'],
    [{ method: 'GET', path: '/api/v1/projects/' }, 404, 'not_found'],
    [{ method: 'PUT', path: project, body: {} }, 405, 'method_not_allowed'],
    [{ method: 'OPTIONS', path: project }, 405, 'method_not_allowed'],
    [{ method: 'GET', path: '/api/v1/keys/key_1' }, 405, 'method_not_allowed'],
  ];
  for (const [asked, status, code] of cases) {
    const { method, path, ...more } = asked as { method: string; path: string };
    const answer = await ask(method, path, more);
    const what = JSON.stringify(asked).slice(0, 120);
    t.match(answer, { status, json: { code, message: /^[A-Zbq].*[.]$/ } }, what);
    t.same(Object.keys(answer.json ?? {}), ['code', 'message'], what);
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff', what);
  }
  const allowed = await ask('PUT', project, { body: {} });
  t.equal(allowed.headers.get('allow'), 'DELETE, GET, HEAD, PATCH');
  const encoded = { body: { name: 'a' }, headers: { 'content-encoding': 'gzip' } };
  const plain = await ask('POST', '/api/v1/projects', encoded);
  t.equal(plain.headers.get('accept-encoding'), 'identity');
  const name = 'ö'.repeat(200);
  t.equal((await ask('POST', '/api/v1/projects', { body: { name } })).status, 201);
  t.equal((await ask('HEAD', project)).status, 200);
  t.equal((await ask('HEAD', project, { token: null })).status, 401);
  const typed = { 'content-type': 'application/json; charset=utf-8' };
  const posted = await ask('POST', '/api/v1/projects', { body: { name: 'a' }, headers: typed });
  t.equal(posted.status, 201);
});

t.test('a message never repeats a value', async (t) => {
  const { ask } = await serving(t);
  const canary = 'ws_canary';
  for (const body of [{ name: 'x', [canary]: 1 }, { name: { a: canary } }, { plan: canary }]) {
    for (const [method, path] of [
      ['POST', '/api/v1/projects'],
      ['PATCH', '/api/v1/organization'],
    ] as const) {
      const answer = await ask(method, path, { body });
      t.equal(answer.status, 400);
      t.notMatch(answer.text, canary);
    }
  }
});

t.test('answers 409 with a remedy if the plan forbids a change', async (t) => {
  const { ask } = await serving(t);
  for (const name of ['b', 'c']) await ask('POST', '/api/v1/projects', { body: { name } });
  const refused = await ask('PATCH', '/api/v1/organization', { body: { plan: 'free' } });
  t.match(refused, {
    status: 409,
    json: { code: 'plan_limit', message: 'Delete 2 projects first.' },
  });
  const free = await serving(t, { plan: 'free' });
  const more = await free.ask('POST', '/api/v1/projects', { body: { name: 'b' } });
  t.match(more, { status: 409, json: { code: 'project_limit' } });
});

t.test('sends headers that keep browsers from caching, framing and sharing answers', async (t) => {
  const { ask } = await serving(t);
  const origin = { origin: 'https://elsewhere.example' };
  for (const path of ['/api/v1/projects', '/api/v1/openapi.json', '/api/v1/nothing']) {
    const { headers } = await ask('GET', path, { headers: origin });
    t.equal(headers.get('access-control-allow-origin'), null);
    t.equal(headers.get('cache-control'), 'no-store');
    t.equal(headers.get('x-content-type-options'), 'nosniff');
    t.equal(headers.get('x-frame-options'), 'DENY');
    t.match(headers.get('content-security-policy'), "default-src 'none'");
  }
  const preflight = await ask('OPTIONS', '/api/v1/projects', { headers: origin });
  t.equal(preflight.status, 403);
});

t.test('refuses a Host or Origin of another site before the token is read', async (t) => {
  const { url } = await serving(t, { config: { allowed_hosts: ['admin.test'] } });
  const own = new URL(url).host;
  const cases: [string, number][] = [
    [`Host: ${own}`, 200],
    ['Host: admin.test', 200],
    ['Host: evil.test', 421],
    [`Host: ${own}\r\nHost: evil.test`, 400],
    [`Host: ${own}\r\nOrigin: http://evil.test`, 403],
    [`Host: ${own}\r\nOrigin: http://${own}`, 200],
  ];
  for (const [headers, status] of cases) {
    const wire = await dial(url);
    const authorization = `Authorization: Bearer ${TOKEN}`;
    wire.send(`GET /api/v1/projects HTTP/1.1\r\n${headers}\r\n${authorization}\r\n\r\n`);
    const answer = await wire.answer();
    t.equal(answer.status, status, headers);
    if (status === 403) t.match(String(answer.body), '"code":"foreign_site"');
    if (status === 421) t.match(String(answer.body), '"code":"misdirected"');
    wire.close();
  }
  const wire = await dial(url);
  wire.send('GET /unknown HTTP/1.1\r\nHost: evil.test\r\n\r\n');
  t.equal((await wire.answer()).status, 421, 'also for a path that is not served');
  wire.close();
});

t.test('answers invalid HTTP in the same form', async (t) => {
  const { url, ask } = await serving(t);
  const long = 'x'.repeat(33_000);
  const cases: [string, number, string][] = [
    ['nonsense\r\n\r\n', 400, 'invalid_request'],
    [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${long}\r\n\r\n`, 431, 'headers_too_large'],
  ];
  for (const [sent, status, code] of cases) {
    const wire = await dial(url);
    wire.send(sent);
    const answer = await wire.answer();
    t.equal(answer.status, status);
    t.match(String(answer.body), `"code":"${code}"`);
    await wire.ended();
  }
  t.equal((await ask('GET', '/api/v1/projects')).status, 200);
});

t.test(
  'answers 503 when the store is unreachable, and logs no values of the request',
  async (t) => {
    const store = fakeStore();
    const { ask, settings } = await serving(t, { store });
    store.fail(new Error('no such table: secrets'));
    const answer = await ask('POST', '/api/v1/projects', { body: { name: 'canary' } });
    t.match(answer, { status: 503, json: { code: 'unavailable' } });
    t.equal(answer.headers.get('retry-after'), '5');
    t.notMatch(answer.text, 'secrets');
    const errors = settings.logger.lines.filter(({ level }) => level === 'error');
    t.equal(errors.length, 1);
    t.notMatch(JSON.stringify(errors), 'canary');
  },
);

t.test('rejects the start if the address is in use', async (t) => {
  const { url } = await serving(t);
  const endpoint = new URL(url).host;
  await t.rejects(serving(t, { config: { endpoint } }), /admin cannot listen on .*EADDRINUSE/);
});

t.test('a stop closes idle connections and the listener', async (t) => {
  const { admin, ask, url } = await serving(t);
  await ask('GET', '/api/v1/projects');
  await admin.shutdown(NO_DEADLINE);
  await t.rejects(dial(url), { code: 'ECONNREFUSED' });
});
