import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { type Ask, asker } from '../extensions/admin/serving.ts';
import { eventually, json, record, send } from './client.ts';
import { type Daemon, startDaemon, type Tree } from './daemon.ts';

t.setTimeout(300_000);

const BATCH = '/api/v1/observations/batch';

function adminToken(daemon: Daemon): string {
  return readFileSync(join(daemon.directory, 'data', 'admin-token'), 'utf8').trim();
}

function adminOf(daemon: Daemon): Ask {
  return asker(daemon.adminBase, adminToken(daemon));
}

/** Sends one event with a key; gives the status. */
async function sendWith(daemon: Daemon, token: string, id: string): Promise<number> {
  const event = { id, trace_id: `t-${id}`, operation: 'finish', kind: 'llm', status: 'success' };
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ events: [{ ...event, inputs: { text: `input of ${id}` } }] });
  return (await send(daemon.base, { method: 'POST', path: BATCH, headers, body })).status;
}

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

t.test('shows tokens once and stores none', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  const [{ id: first }] = (await ask('GET', '/api/v1/projects')).json.projects;
  const tokens: string[] = [];
  for (const name of ['api-1', 'api-2']) {
    const made = await ask('POST', `/api/v1/projects/${first}/keys`, { body: { name } });
    t.equal(made.status, 201);
    tokens.push(made.json.token);
  }
  const byCli = await daemon.createKey('--name', 'cli');
  const plain = (await daemon.cli('keys', 'create', '--project', 'default')).stdout.trim();
  tokens.push(byCli.token, plain);
  for (const [at, token] of tokens.entries()) {
    t.equal(await sendWith(daemon, token, `event-${at}`), 202);
  }
  await ask('DELETE', `/api/v1/keys/${byCli.id}`);
  t.equal(
    await sendWith(daemon, byCli.token, 'late'),
    401,
    'a revoked key is refused without delay',
  );
  const list = await daemon.cli('keys', 'list', '--json');
  t.equal(JSON.parse(list.stdout).keys.length, 5, 'the first key and four more');
  const secrets = [...tokens, adminToken(daemon)];

  const seen: [string, string | Buffer][] = [
    ['stdout', daemon.stdout()],
    ['keys list', list.stdout + list.stderr],
    ['audit list', (await daemon.cli('audit', 'list')).stdout],
    ['metrics', (await send(daemon.metricsBase, { path: '/metrics' })).body],
    ['health', (await send(daemon.health, { path: '/readyz?verbose' })).body],
  ];
  for (const path of [
    ...['organization', 'projects', 'usage', 'audit', 'status', 'openapi.json'],
    ...[`projects/${first}`, `projects/${first}/keys`, `projects/${first}/rejections`],
  ]) {
    seen.push([path, (await ask('GET', `/api/v1/${path}`)).text]);
  }
  for (const path of ['/api/v1/me', '/api/v1/traces']) {
    seen.push([path, (await daemon.call({ path })).body]);
  }
  t.same(await daemon.end('SIGTERM'), { code: 0, signal: null });
  seen.push(['stderr', daemon.stderr()]);
  for (const file of filesBelow(daemon.directory)) {
    if (!file.endsWith('admin-token')) seen.push([file, readFileSync(file)]);
  }
  t.ok(seen.length > 15);
  for (const [where, content] of seen) {
    // The first key is printed once, where the service starts.
    for (const secret of where === 'stdout' ? secrets : [...secrets, daemon.key]) {
      if (Buffer.from(content).includes(secret)) t.fail(`${where} contains a token`);
    }
  }
});

t.test('the admin token cannot ingest, and a project key cannot manage', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  t.equal(await sendWith(daemon, adminToken(daemon), 'x'), 401);
  const refused = await ask('GET', '/api/v1/projects', { token: daemon.key });
  t.match(refused, { status: 401, json: { code: 'unauthorized' } });
});

t.test('fifty concurrent changes keep the rules', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  const fifty = (work: (index: number) => ReturnType<Ask>) =>
    Promise.all(Array.from({ length: 50 }, (_, index) => work(index)));
  const second = (await ask('POST', '/api/v1/projects', { body: { name: 'second' } })).json.id;
  const [{ id: first }] = (await ask('GET', '/api/v1/projects')).json.projects;

  const deleted = await fifty((index) =>
    ask('DELETE', `/api/v1/projects/${index % 2 === 0 ? first : second}`),
  );
  t.equal(
    deleted.filter(({ status }) => status === 204).length,
    1,
    'exactly one deletion succeeds',
  );
  t.ok(deleted.every(({ status }) => [204, 404, 409].includes(status)));
  t.equal((await ask('GET', '/api/v1/projects')).json.projects.length, 1);

  t.equal((await ask('PATCH', '/api/v1/organization', { body: { plan: 'free' } })).status, 200);
  const made = await fifty((index) =>
    ask('POST', '/api/v1/projects', { body: { name: `p${index}` } }),
  );
  t.same([...new Set(made.map(({ json }) => json.code))], ['project_limit']);
  t.equal((await ask('GET', '/api/v1/projects')).json.projects.length, 1);

  t.equal((await ask('PATCH', '/api/v1/organization', { body: { plan: 'pro' } })).status, 200);
  const more = await fifty((index) =>
    ask('POST', '/api/v1/projects', { body: { name: `q${index}` } }),
  );
  t.ok(more.every(({ status }) => status === 201));
  const back = await ask('PATCH', '/api/v1/organization', { body: { plan: 'free' } });
  t.match(back, { status: 409, json: { code: 'plan_limit', message: /\b50\b/ } });

  const { audit } = (await ask('GET', '/api/v1/audit?limit=1000')).json;
  const count = (action: string) =>
    audit.filter((entry: { action: string }) => entry.action === action).length;
  t.same([count('project.create'), count('project.delete')], [51, 1], 'every change is audited');
});

t.test('deletes the data of a project and keeps its usage', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  const { id } = (await ask('POST', '/api/v1/projects', { body: { name: 'short' } })).json;
  const { token } = (await ask('POST', `/api/v1/projects/${id}/keys`)).json;
  for (const each of ['a', 'b', 'c']) t.equal(await sendWith(daemon, token, each), 202);
  const shown = await eventually(
    async () => (await ask('GET', `/api/v1/projects/${id}`)).json,
    (project) => project.retained_traces === 3,
    'three retained traces',
  );
  t.equal(shown.retained_traces, 3);
  const used = (await ask('GET', '/api/v1/organization')).json.usage.month.events;
  t.equal(used, 3);
  t.match((await ask('GET', `/api/v1/projects/${id}/usage`)).json, { month: { events: 3 } });

  const unasked = await daemon.cli('projects', 'delete', 'short');
  t.match(unasked, { code: 64, stderr: /--yes/ });
  t.match(await daemon.cli('projects', 'delete', 'short', '--yes'), { code: 0 });
  t.equal(await sendWith(daemon, token, 'd'), 401, 'its key is refused without delay');
  t.equal((await ask('GET', `/api/v1/projects/${id}`)).status, 404);
  t.equal((await ask('GET', '/api/v1/organization')).json.usage.month.events, 3);
  const { usage } = (await ask('GET', `/api/v1/usage?project=${id}`)).json;
  t.match(usage, [{ project_id: id, events: 3 }]);
  t.match(await daemon.cli('usage', 'verify'), { code: 0 });
});

t.test('removes a deleted project from queues of a file_storage', async (t) => {
  const daemon = await startDaemon(t, {
    queue: { initial_interval: '1h', max_interval: '1h' },
    edit: (config) => {
      const { extensions, service } = config as Record<string, Record<string, Tree>>;
      const directory = String(extensions?.sqlite?.directory);
      Object.assign(extensions ?? {}, { file_storage: { directory: `${directory}-queue` } });
      Object.assign(service ?? {}, {
        extensions: ['sqlite', 'file_storage', 'admin', 'health_check'],
      });
      config.connectors = { disk_queue: { storage: 'file_storage', initial_interval: '1h' } };
      config.processors = { ...(config.processors as Tree), quotas: { storage: 'file_storage' } };
      config.exporters = {
        otlphttp: { endpoint: 'http://127.0.0.1:1', sending_queue: { enabled: false } },
      };
      const store = service?.pipelines?.['traces/store'] as Tree;
      Object.assign(store, { processors: [], exporters: ['otlphttp'] });
    },
  });
  const ask = adminOf(daemon);
  const { id } = (await ask('POST', '/api/v1/projects', { body: { name: 'short' } })).json;
  const { token } = (await ask('POST', `/api/v1/projects/${id}/keys`)).json;
  const canary = 'canary-77aa31';
  t.equal(await sendWith(daemon, token, canary), 202);
  const sightings = () =>
    filesBelow(daemon.directory).filter((file) => readFileSync(file).includes(canary)).length;
  t.ok(sightings() > 0, 'the batch waits in the queue');
  t.equal((await ask('DELETE', `/api/v1/projects/${id}`)).status, 204);
  t.equal(
    await eventually(
      async () => sightings(),
      (count) => count === 0,
      'no canary',
    ),
    0,
  );
});

t.test('commands print the answers of the API', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  const same = async (path: string, ...command: string[]) => {
    const run = await daemon.cli(...command, '--json');
    t.equal(run.code, 0, run.stderr);
    t.same(JSON.parse(run.stdout), (await ask('GET', `/api/v1/${path}`)).json, path);
  };
  const made = JSON.parse((await daemon.cli('projects', 'create', 'b', '--json')).stdout);
  t.match(await daemon.cli('projects', 'rename', 'b', 'c'), {
    code: 0,
    stdout: /Renamed proj_\w+ to c/,
  });
  const limits = ['--events-per-month', '7', '--bytes-per-hour', '1MiB'];
  const args = ['projects', 'update', 'c', '--retention-days', '3', ...limits];
  t.match(await daemon.cli(...args), { code: 0, stdout: /Updated proj_/ });
  t.match((await ask('GET', `/api/v1/projects/${made.id}`)).json, {
    retention: { days: 3 },
    limits: { events_per_month: 7, bytes_per_hour: 2 ** 20 },
  });
  const free = [
    'projects',
    'update',
    'c',
    '--retention-days',
    'plan',
    '--events-per-month',
    'none',
  ];
  t.match(JSON.parse((await daemon.cli(...free, '--json')).stdout), {
    retention: { days: 400 },
    limits: { events_per_month: null, bytes_per_hour: 2 ** 20 },
  });
  await same('plans', 'organization', 'plans');
  await same('projects', 'projects', 'list');
  await same(`projects/${made.id}/rejections`, 'rejections', 'list', '--project', 'c');
  await same('organization', 'usage');
  await same('organization', 'organization', 'show');
  await same('usage?by=hour', 'usage', 'history', '--by', 'hour');
  await same('audit', 'audit', 'list');
  const filter = ['--action', 'project.update', '--project', 'c', '--from', '2020-01-01'];
  await same(
    `audit?action=project.update&project=${made.id}&from=2020-01-01`,
    ...['audit', 'list', ...filter],
  );
  const table = (await daemon.cli('projects', 'list')).stdout;
  t.match(table, /^ID +NAME +RETAINED TRACES +RETENTION +EVENTS\/MONTH +BYTES\/HOUR +CREATED\n/);
  t.match(await daemon.cli('projects', 'update', 'c'), { code: 64 });
  t.match(await daemon.cli('projects', 'update', 'c', '--events-per-month', '0'), { code: 64 });
  t.match(await daemon.cli('organization', 'update', '--plan', 'free'), {
    code: 1,
    stderr: /^error: /,
  });
  t.match(await daemon.cli('projects', 'rename', 'none', 'x'), { code: 1 });
  t.match(await daemon.cli('usage', 'history', '--from', 'yesterday'), { code: 64 });
  t.match(await daemon.cli('usage', 'history', '--by', 'week'), { code: 64 });
  t.match(await daemon.cli('audit', 'list', '--from', 'yesterday'), { code: 64 });
  t.match(await daemon.cli('rejections', 'list', '--limit', 'x'), { code: 64 });
});

t.test('the admin token and the commands read what a key has sent', async (t) => {
  const daemon = await startDaemon(t);
  const ask = adminOf(daemon);
  const [{ id: project }] = (await ask('GET', '/api/v1/projects')).json.projects;
  t.equal(await sendWith(daemon, daemon.key, 'read-1'), 202);
  const traces = `/api/v1/projects/${project}/traces`;
  await eventually(
    () => ask('GET', `${traces}/t-read-1`),
    ({ status }) => status === 200,
    'the trace is stored',
  );
  const listed = await ask('GET', `${traces}?q=${encodeURIComponent('id:t-read*')}`);
  t.match(listed.json, { traces: [{ id: 't-read-1' }], next_cursor: null });
  const wrong = await ask('GET', `${traces}?q=modle:a`);
  t.match(wrong, { status: 400, json: { code: 'invalid_query', position: 0 } });
  const shown = await ask('GET', `${traces}/t-read-1?payloads=true`);
  t.match(shown.json.observations, [{ inputs: { text: 'input of read-1' } }]);
  const { audit } = (await ask('GET', '/api/v1/audit')).json;
  t.match(audit[0], {
    ...{ action: 'payloads.read', actor: 'admin-token', address: '127.0.0.1' },
    ...{ subject: project, details: { trace: 't-read-1' } },
  });

  const lines = await daemon.cli('traces', 'id:t-read-1', '--project', 'default');
  t.match(JSON.parse(lines.stdout), { id: 't-read-1' }, 'one line of JSON in a pipe');
  t.equal((await daemon.cli('traces', 'id:none')).stdout, '');
  const tree = await daemon.cli('trace', 't-read');
  t.match(tree.stdout, /trace t-read-1 [\s\S]*read-1/, 'the first characters name a trace');
  const whole = await daemon.cli('trace', 't-read-1', '--json');
  t.same(JSON.parse(whole.stdout), (await ask('GET', `${traces}/t-read-1`)).json);
  const mistaken = await daemon.cli('traces', 'modle:a');
  t.match(mistaken, { code: 64, stderr: /Unknown field "modle" at character 1/ });
  const missing = await daemon.cli('trace', 'none');
  t.match(missing, { code: 1, stderr: 'There is no such trace' });
});

t.test('the document describes the ingestion listener', async (t) => {
  const daemon = await startDaemon(t);
  const document = (await adminOf(daemon)('GET', '/api/v1/openapi.json')).json;
  const ajv = new Ajv2020({ strictTypes: false, logger: false });
  addFormats.default(ajv);
  ajv.addVocabulary(Object.keys(document));
  ajv.addSchema({ $id: 'doc', ...document });
  const holds = (schema: string, value: unknown, what: string) => {
    const validate = ajv.compile({ $ref: `doc#/components/schemas/${schema}` });
    t.ok(validate(value), `${what}: ${JSON.stringify(validate.errors)}`);
  };

  const printed = [...daemon.stdout().matchAll(/^ {4}(POST|PATCH) (\S+)$/gm)];
  t.ok(printed.length >= 6);
  for (const [, method = '', path = ''] of printed) {
    const item = document.paths[path.replaceAll(/:(\w+)/g, '{$1}')];
    t.ok(item?.[method.toLowerCase()], `${method} ${path}`);
  }
  const ask = asker(daemon.base);
  const key = { 'x-api-key': daemon.key };
  for (const [path, item] of Object.entries<Record<string, unknown>>(document.paths)) {
    if (item.servers === undefined) continue;
    for (const method of ['get', 'post', 'patch'].filter((each) => item[each] !== undefined)) {
      const filled = path.replaceAll(/\{\w+\}/g, 'x');
      const answer = await ask(method.toUpperCase(), filled, { token: null, headers: key });
      t.notMatch(answer.text, 'Nothing is served', `${method} ${path}`);
      const documented = (item[method] as { responses: object }).responses;
      t.ok(String(answer.status) in documented, `${method} ${path} answers ${answer.status}`);
    }
  }

  const event = { id: 'e', trace_id: 'tr', operation: 'finish', kind: 'llm', status: 'success' };
  const body = JSON.stringify({ events: [{ ...event, inputs: { a: 1 } }, {}] });
  const headers = { 'content-type': 'application/json' };
  const sent = await daemon.call({ method: 'POST', path: BATCH, headers, body });
  holds('ObservationEvent', event, 'an event');
  holds('Envelope', json(sent), 'an envelope');
  const refused = await daemon.call({ method: 'POST', path: BATCH, headers, body: '{}' });
  holds('Envelope', json(refused), 'a refusal');
  const trace = await eventually(
    () => daemon.call({ path: '/api/v1/traces/tr?payloads=true' }),
    ({ status }) => status === 200,
    'the trace',
  );
  holds('TraceDetail', json(trace), 'a trace');
  const tree = await daemon.call({ path: '/api/v1/traces/tr?fields=tree' });
  holds('TraceDetail', json(tree), 'the tree of a trace');
  t.match(json(tree), { observations: [{ id: 'e', input_bytes: 7, counted: false }] });
  const rawId = record((record(json(sent)).results as unknown[])[0]).raw_event_id;
  for (const [schema, path] of [
    ['Traces', '/api/v1/traces'],
    ['Observation', '/api/v1/observations/e'],
    ['RawEvent', `/api/v1/raw-events/${String(rawId)}`],
    ['Me', '/api/v1/me'],
    ['Info', '/api/v1/info'],
  ] as const) {
    holds(schema, json(await daemon.call({ path })), path);
  }
  const otlp = { method: 'POST', path: '/v1/traces', headers };
  holds('ExportTraceServiceResponse', json(await daemon.call({ ...otlp, body: '{}' })), 'OTLP');
  const span = { traceId: 'zz', spanId: 'yy', name: 'broken' };
  const spans = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans: [span] }] }] });
  const partial = await daemon.call({ ...otlp, body: spans });
  holds('ExportTraceServiceResponse', json(partial), 'a partial success');
  holds('RpcStatus', json(await daemon.call({ ...otlp, body: '{' })), 'an OTLP refusal');
});
