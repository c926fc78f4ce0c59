import { randomBytes, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeToken } from '../../src/tenancy/token.ts';
import { freePorts } from '../helper/free-ports.ts';
import { EXPORT, EXPORT_LOGS, grpcClient } from '../helper/grpc.ts';
import { servedRoutes } from '../helper/served-routes.ts';
import type { Answer, Call } from './client.ts';
import { eventually, json, list, record, send } from './client.ts';
import type { Daemon } from './daemon.ts';
import { startDaemon, total } from './daemon.ts';

/**
 * Every request of every listener, with every kind of credential. The requests are those that the code serves and those
 * that the OpenAPI document lists, so one without an entry in `RULES` fails the test.
 */

t.setTimeout(300_000);

const EXPORT_METRICS = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export';
const JSON_TYPE = { 'content-type': 'application/json' };
const PARTS_TYPE = { 'content-type': 'multipart/form-data; boundary=b' };
const OF_LANGSMITH = { 'user-agent': 'langsmith-py/0.15.0' };
const WRITE = 'ingest:write';
const READ = 'traces:read';

type Permission = typeof WRITE | typeof READ;

/** The stored data of a project. Its texts have `canary`. */
type Scene = {
  readonly canary: string;
  readonly project: string;
  readonly trace: string;
  readonly sha256: string;
  readonly rawEvent: string;
  readonly score: string;
  readonly feedback: readonly [string, string];
};

type Asking = Pick<Call, 'headers' | 'body'> & {
  /** In place of the parameter of the path. */
  readonly id?: string;
  readonly query?: string;
  /** The answer to the project's own key has data of the project, which no other key may get. */
  readonly shows?: boolean;
  /** Status of the answer to a key of the project that has the permission. */
  readonly status?: number;
};

type Rule = {
  readonly routes: readonly string[];
  /** The key needs any of them; undefined for a request without a key. */
  readonly needs?: readonly Permission[];
  readonly asks: (scene: Scene) => readonly Asking[];
};

const RULES: readonly Rule[] = [
  { routes: ['GET /api/v1/info', 'GET /info'], asks: () => [{}] },
  reading('/traces', () => [{ shows: true }]),
  // The stream has no end.
  reading('/traces/stream', () => []),
  reading('/traces/:trace_id', ({ trace }) => [
    { id: trace, query: 'payloads=true', shows: true },
    { id: trace, query: 'fields=tree', shows: true },
  ]),
  reading('/traces/:trace_id/otlp', ({ trace }) => [{ id: trace, shows: true }]),
  reading('/traces/:trace_id/scores', ({ trace }) => [{ id: trace, shows: true }]),
  {
    routes: ['POST /api/v1/traces/:trace_id/scores'],
    needs: [WRITE],
    asks: ({ trace, score }) => [
      { id: trace, status: 201, headers: JSON_TYPE, body: '{"name":"other","value":1}' },
      { id: trace, status: 201, headers: JSON_TYPE, body: aScore(score) },
    ],
  },
  {
    routes: ['GET /api/v1/sessions'],
    needs: [READ],
    asks: () => [{ shows: true }, { headers: OF_LANGSMITH }],
  },
  {
    routes: ['GET /api/v1/sessions/:session_id'],
    needs: [READ],
    asks: ({ canary }) => [{ id: `session-${canary}`, shows: true }],
  },
  reading('/users', () => [{ shows: true }]),
  reading('/users/:user_id', ({ canary }) => [{ id: `user-${canary}`, shows: true }]),
  reading('/stats', () => [
    {
      query: 'group_by=name&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&step=1h',
      shows: true,
    },
  ]),
  reading('/facets', () => [
    { query: 'field=name&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z', shows: true },
  ]),
  reading('/search', () => [{}]),
  reading('/observations/:id', ({ trace }) => [{ id: trace, shows: true }]),
  reading('/attachments/:sha256', ({ sha256 }) => [{ id: sha256, shows: true }]),
  reading('/raw-events/:raw_event_id', ({ rawEvent }) => [{ id: rawEvent, shows: true }]),
  reading('/export', () => [
    { query: 'of=observations&payloads=true', shows: true },
    { query: 'format=otlp', shows: true },
    { query: 'format=csv', shows: true },
  ]),
  { routes: ['GET /api/v1/me'], needs: [READ], asks: () => [{ shows: true }] },
  {
    routes: ['GET /api/public/projects'],
    needs: [WRITE, READ],
    asks: () => [{ shows: true }],
  },
  {
    routes: ['POST /api/public/scores'],
    needs: [WRITE],
    asks: ({ trace, score }) => [
      {
        headers: JSON_TYPE,
        body: JSON.stringify({ traceId: trace, id: score, name: 'n', value: 1 }),
      },
    ],
  },
  {
    routes: ['POST /api/public/ingestion'],
    needs: [WRITE],
    asks: ({ trace }) => {
      const body = { traceId: trace, name: 'n', value: 1 };
      const event = { id: 'e', type: 'score-create', timestamp: '2026-01-01T00:00:00Z', body };
      return [{ status: 207, headers: JSON_TYPE, body: JSON.stringify({ batch: [event] }) }];
    },
  },
  {
    routes: ['GET /api/v1/feedback', 'GET /feedback'],
    needs: [READ],
    asks: ({ trace }) => [{ query: `run=${trace}`, shows: true }],
  },
  {
    routes: ['GET /api/v1/feedback/:id', 'GET /feedback/:id'],
    needs: [READ],
    asks: ({ feedback }) => [{ id: feedback[0], shows: true }],
  },
  {
    routes: ['POST /api/v1/feedback', 'POST /feedback'],
    needs: [WRITE],
    asks: ({ trace, feedback }) => [
      {
        headers: JSON_TYPE,
        body: JSON.stringify({ id: feedback[0], run_id: trace, key: 'k', score: 1 }),
      },
    ],
  },
  {
    routes: ['PATCH /api/v1/feedback/:id', 'PATCH /feedback/:id'],
    needs: [WRITE],
    asks: ({ feedback }) => [{ id: feedback[1], headers: JSON_TYPE, body: '{"score":0}' }],
  },
  {
    routes: ['GET /api/v1/runs/:id', 'GET /runs/:id'],
    needs: [READ],
    asks: ({ trace }) => [{ id: trace, shows: true }],
  },
  {
    routes: ['POST /api/v1/runs/query', 'POST /runs/query'],
    needs: [READ],
    asks: ({ trace }) => [
      { headers: JSON_TYPE, body: JSON.stringify({ trace }), shows: true },
      { headers: JSON_TYPE, body: JSON.stringify({ id: [trace] }), shows: true },
    ],
  },
  {
    routes: ['GET /api/v2/runs/:id', 'GET /v2/runs/:id'],
    needs: [READ],
    asks: ({ trace }) => [
      { id: trace, query: 'selects=INPUTS&selects=OUTPUTS&selects=NAME', shows: true },
      { id: trace },
    ],
  },
  {
    routes: ['POST /api/v2/runs/query', 'POST /v2/runs/query'],
    needs: [READ],
    asks: ({ trace }) =>
      [{ trace_id: trace }, { ids: [trace] }, {}].map((asked) => ({
        headers: JSON_TYPE,
        body: JSON.stringify({
          ...{ ...asked, selects: ['INPUTS', 'OUTPUTS', 'NAME'] },
          min_start_time: '2000-01-01T00:00:00Z',
        }),
        shows: true,
      })),
  },
  {
    routes: ['POST /api/v2/traces/query', 'POST /v2/traces/query'],
    needs: [READ],
    asks: ({ trace }) =>
      [{ trace_ids: [trace] }, {}].map((asked) => ({
        headers: { ...JSON_TYPE, accept: 'text/event-stream' },
        body: JSON.stringify({
          ...{ ...asked, selects: ['INPUTS', 'OUTPUTS', 'NAME'] },
          min_start_time: '2000-01-01T00:00:00Z',
        }),
        shows: true,
      })),
  },
  {
    routes: ['GET /api/v2/traces/:id/runs', 'GET /v2/traces/:id/runs'],
    needs: [READ],
    asks: ({ trace }) => [{ id: trace, query: 'selects=INPUTS&selects=NAME', shows: true }],
  },
  {
    routes: ['POST /api/v2/threads/query', 'POST /v2/threads/query'],
    needs: [READ],
    asks: () => [
      { headers: JSON_TYPE, body: '{"min_start_time":"2000-01-01T00:00:00Z"}', shows: true },
    ],
  },
  {
    routes: ['GET /api/v2/threads/:id/traces', 'GET /v2/threads/:id/traces'],
    needs: [READ],
    asks: ({ canary }) => [
      { id: `session-${canary}`, query: 'selects=INPUTS_PREVIEW&selects=NAME', shows: true },
    ],
  },
  {
    routes: ['GET /sessions'],
    needs: [READ],
    asks: () => [{}],
  },
  { routes: ['GET /sessions/:id'], needs: [READ], asks: () => [{ id: 'no-project', status: 404 }] },
  {
    routes: ['POST /api/v1/observations/batch'],
    needs: [WRITE],
    asks: () => [
      { status: 202, headers: JSON_TYPE, body: JSON.stringify({ events: [anEvent()] }) },
    ],
  },
  {
    routes: ['POST /api/v1/runs', 'POST /runs'],
    needs: [WRITE],
    asks: () => [
      { status: 202, headers: JSON_TYPE, body: JSON.stringify(aRun(randomUUID(), 'n')) },
    ],
  },
  {
    routes: ['PATCH /api/v1/runs/:id', 'PATCH /runs/:id'],
    needs: [WRITE],
    asks: () => [{ id: randomUUID(), status: 202, headers: JSON_TYPE, body: '{"name":"n"}' }],
  },
  {
    routes: ['POST /api/v1/runs/batch', 'POST /runs/batch'],
    needs: [WRITE],
    asks: () => {
      const body = JSON.stringify({ post: [aRun(randomUUID(), 'n')], patch: [] });
      return [{ status: 202, headers: JSON_TYPE, body }];
    },
  },
  {
    routes: ['POST /api/v1/runs/multipart', 'POST /runs/multipart'],
    needs: [WRITE],
    asks: () => {
      const id = randomUUID();
      const body = parts({ [`post.${id}`]: JSON.stringify(aRun(id, 'n')) });
      return [{ status: 202, headers: PARTS_TYPE, body }];
    },
  },
  ...['traces', 'logs', 'metrics'].map((signal) => ({
    routes: ['/api/public/otel/v1/', '/v1/', '/api/v1/otel/v1/', '/otel/v1/', '/api/otel/v1/']
      .flatMap((path) => [`${path}${signal}`, `${path}${signal}/`])
      .map((path) => `POST ${path}`),
    needs: [WRITE] as const,
    asks: () => [
      { headers: JSON_TYPE, body: '{}' },
      { headers: { 'content-type': 'application/x-protobuf' }, body: '' },
    ],
  })),
  removing('/api/public/scores/:id', 202, ({ score }) => score),
  removing('/api/v1/feedback/:id', 200, ({ feedback }) => feedback[0]),
  removing('/feedback/:id', 200, ({ feedback }) => feedback[1]),
];

function reading(path: string, asks: Rule['asks']): Rule {
  return { routes: [`GET /api/v1${path}`], needs: [READ], asks };
}

function removing(path: string, status: number, idOf: (scene: Scene) => string): Rule {
  const asks = (scene: Scene) => [{ id: idOf(scene), status }];
  return { routes: [`DELETE ${path}`], needs: [WRITE], asks };
}

function anEvent(): object {
  const id = randomUUID();
  return { id, trace_id: id, operation: 'finish', kind: 'llm', status: 'ok' };
}

function aRun(id: string, name: string): Record<string, unknown> {
  const times = { start_time: '2026-01-01T00:00:00Z', end_time: '2026-01-01T00:00:01Z' };
  const order = `20260101T000000000000Z${id}`;
  return { id, trace_id: id, dotted_order: order, name, run_type: 'llm', ...times };
}

function aScore(id: string): string {
  return JSON.stringify({ id, name: 'quality', value: 0.1 });
}

function parts(named: Readonly<Record<string, string>>): string {
  const pieces = Object.entries(named).map(
    ([name, text]) => `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${text}\r\n`,
  );
  return `${pieces.join('')}--b--\r\n`;
}

/** Sends a trace with a session, a user, an attachment, a score and feedback, and waits until it is stored. */
async function filled(daemon: Daemon, project: string, token: string): Promise<Scene> {
  const canary = randomBytes(8).toString('hex');
  const [trace, score] = [randomUUID(), randomUUID()];
  const feedback = [randomUUID(), randomUUID()] as const;
  const run = {
    ...aRun(trace, `name-${canary}`),
    inputs: { question: `asks ${canary}` },
    outputs: { answer: `answer ${canary}` },
    extra: { metadata: { session_id: `session-${canary}`, user_id: `user-${canary}` } },
  };
  const headers = { 'x-api-key': token };
  const post = async (path: string, type: Call['headers'], body: string): Promise<Answer> => {
    const call = { method: 'POST', path, headers: { ...headers, ...type }, body };
    const answer = await send(daemon.base, call);
    if (answer.status >= 300) throw new Error(`POST ${path} was answered ${answer.status}`);
    return answer;
  };
  const file = { [`attachment.${trace}.file`]: `file ${canary}` };
  const whole = parts({ [`post.${trace}`]: JSON.stringify(run), ...file });
  const sent = record(
    list(record(json(await post('/runs/multipart', PARTS_TYPE, whole))).results)[0],
  );
  const path = `/api/v1/traces/${trace}`;
  const comment = `comment ${canary}`;
  await post(
    `${path}/scores`,
    JSON_TYPE,
    JSON.stringify({ id: score, name: 'q', value: 1, comment }),
  );
  for (const id of feedback) {
    const given = { id, run_id: trace, key: id, score: 1, comment };
    await post('/feedback', JSON_TYPE, JSON.stringify(given));
  }
  const stored = await eventually(
    () => send(daemon.base, { path: `${path}?payloads=true`, headers }),
    ({ status }) => status === 200,
    'the stored trace',
  );
  const observation = record(list(record(json(stored)).observations)[0]);
  const attachment = record(list(observation.attachments)[0]);
  const sha256 = String(attachment.url).split('/').at(-1) ?? '';
  return { canary, project, trace, sha256, rawEvent: String(sent.raw_event_id), score, feedback };
}

function callOf(route: string, ask: Asking, headers: Call['headers']): Call {
  const [method = '', path = ''] = route.split(' ');
  const target = path.replace(/:\w+/g, encodeURIComponent(ask.id ?? 'none'));
  return {
    ...{ method, path: ask.query === undefined ? target : `${target}?${ask.query}` },
    ...{ headers: { ...ask.headers, ...headers }, body: ask.body },
  };
}

/** Each request of the rules. A route without one, as the stream of traces, is asked without parameters. */
function requestsOf(scene: Scene): { route: string; rule: Rule; ask: Asking }[] {
  return RULES.flatMap((rule) => {
    const asks = rule.asks(scene);
    const some = asks.length === 0 ? [{}] : asks;
    return rule.routes.flatMap((route) => some.map((ask) => ({ route, rule, ask })));
  });
}

function shown({ route, answer }: { readonly route: string; readonly answer: Answer }): string {
  return `${route} ${answer.status} ${answer.body.subarray(0, 300)}`;
}

function adminTokenOf({ directory }: Daemon): string {
  return readFileSync(join(directory, 'data', 'admin-token'), 'utf8').trim();
}

/** A running daemon with data in one project, and keys of it and of others. */
async function prepared(t: Parameters<typeof startDaemon>[0]) {
  const [port = 0] = await freePorts(1);
  const many = { per_minute: 1_000_000, burst: 1_000_000 };
  const daemon = await startDaemon(t, {
    config: {
      // Each wrong admin token comes from another address.
      extensions: { admin: { trusted_proxies: ['127.0.0.1/32'] } },
      receivers: { otlp: { protocols: { grpc: { endpoint: `127.0.0.1:${port}` } } } },
      processors: { quotas: { edge: { failed_authentications: many } } },
    },
  });
  const admin = async (method: string, path: string, body?: object): Promise<Answer> => {
    const headers = { ...JSON_TYPE, authorization: `Bearer ${adminTokenOf(daemon)}` };
    const sent = body === undefined ? undefined : JSON.stringify(body);
    return await send(daemon.adminBase, { method, path, headers, body: sent });
  };
  const project = async (name: string): Promise<string> =>
    String(record(json(await admin('POST', '/api/v1/projects', { name }))).id);
  const key = (of: string, ...permissions: Permission[]): Promise<{ id: string; token: string }> =>
    daemon.createKey('--project', of, ...permissions.flatMap((one) => ['--permission', one]));
  const [own, other, deleted] = [
    await project('own'),
    await project('other'),
    await project('old'),
  ];
  const [whole, foreign, lost] = [await key(own), await key(other), await key(deleted)];
  const [writer, reader, revoked] = [await key(own, WRITE), await key(own, READ), await key(own)];
  const scene = await filled(daemon, own, whole.token);
  await admin('DELETE', `/api/v1/keys/${revoked.id}`);
  await admin('DELETE', `/api/v1/projects/${deleted}`);
  return { daemon, admin, scene, port, whole, foreign, lost, writer, reader, revoked };
}

t.test('every request that the code serves has a rule', async (t) => {
  const served = await servedRoutes();
  const ruled = RULES.flatMap(({ routes }) => routes);
  t.same([...served.http].sort(), [...ruled].sort());
  t.same([...served.grpc].sort(), [EXPORT, EXPORT_LOGS, EXPORT_METRICS].sort());
});

t.test('each request with each credential', async (t) => {
  const { daemon, admin, scene, port, whole, foreign, lost, writer, reader, revoked } =
    await prepared(t);
  const signIn = { token: adminTokenOf(daemon) };
  const session = async (): Promise<string> => {
    const [set = ''] = (await admin('POST', '/api/v1/session', signIn)).headers['set-cookie'] ?? [];
    return set.split(';', 1)[0] ?? '';
  };
  const [live, ended] = [await session(), await session()];
  const page = { origin: daemon.adminBase, 'x-tracectl-ui': '1' };
  const leave = { method: 'DELETE', path: '/api/v1/session', headers: { ...page, cookie: ended } };
  t.equal((await send(daemon.adminBase, leave)).status, 204);
  const none: Readonly<Record<string, Call['headers']>> = {
    'no credential': {},
    'an unknown key': { 'x-api-key': makeToken() },
    'no key': { authorization: 'Bearer none' },
    'a revoked key': { 'x-api-key': revoked.token },
    'a key of a deleted project': { authorization: `Bearer ${lost.token}` },
    'two keys': { 'x-api-key': whole.token, authorization: `Bearer ${foreign.token}` },
    'the id of another project': {
      authorization: `Basic ${Buffer.from(`${scene.project}:${foreign.token}`).toString('base64')}`,
    },
    'the admin token': { authorization: `Bearer ${adminTokenOf(daemon)}` },
    'a session of the web UI': { ...page, cookie: live },
  };
  const secrets = [scene.canary, scene.project, whole.token, whole.id, writer.id, reader.id];
  const keepsSecrets = (answer: Answer): boolean =>
    secrets.every((secret) => !answer.body.includes(secret));

  await t.test('no request is answered without a valid key', async (t) => {
    for (const [name, headers] of Object.entries(none)) {
      const closed = requestsOf(scene).filter(({ rule }) => rule.needs !== undefined);
      // Together, because the store is asked for unknown keys once in 50 ms.
      const answers = await Promise.all(
        closed.map(async ({ route, ask }) => ({
          route,
          answer: await send(daemon.base, callOf(route, ask, headers)),
        })),
      );
      const wrong = answers.filter(({ answer }) => {
        const challenge = answer.headers['www-authenticate'];
        return answer.status !== 401 || challenge !== 'Bearer' || !keepsSecrets(answer);
      });
      t.same(wrong.map(shown), [], name);
    }
  });

  await t.test('a key without the permission is refused with 403', async (t) => {
    const wrong: string[] = [];
    for (const { route, rule, ask } of requestsOf(scene)) {
      if (rule.needs?.length !== 1) continue;
      const { token } = rule.needs.includes(WRITE) ? reader : writer;
      const answer = await send(daemon.base, callOf(route, ask, { 'x-api-key': token }));
      const isRefused = answer.status === 403 && keepsSecrets(answer);
      if (!isRefused) wrong.push(shown({ route, answer }));
    }
    t.same(wrong, []);
  });

  await t.test('a key of another project gets no data and changes none', async (t) => {
    const wrong: string[] = [];
    for (const { route, ask, rule } of requestsOf(scene)) {
      if (rule.asks(scene).length === 0) continue;
      const answer = await send(daemon.base, callOf(route, ask, { 'x-api-key': foreign.token }));
      const isServed = answer.status < 300 || answer.status === 404;
      if (!isServed || !keepsSecrets(answer)) wrong.push(shown({ route, answer }));
    }
    t.same(wrong, []);
    const path = `/api/v1/traces/${scene.trace}/scores`;
    const kept = await send(daemon.base, { path, headers: { 'x-api-key': reader.token } });
    const scores = list(record(json(kept)).scores).map(record);
    t.equal(scores.length, 3);
    for (const score of scores)
      t.match(score, { value: 1, comment: `comment ${scene.canary}` }, 'the score is as it was');
  });

  await t.test('a key with only the permission is served', async (t) => {
    const wrong: string[] = [];
    for (const { route, rule, ask } of requestsOf(scene)) {
      if (rule.asks(scene).length === 0) continue;
      const { token } = rule.needs?.includes(WRITE) === true ? writer : reader;
      const headers = rule.needs === undefined ? {} : { 'x-api-key': token };
      const answer = await send(daemon.base, callOf(route, ask, headers));
      const isServed = answer.status === (ask.status ?? 200);
      const isShown = ask.shows !== true || !keepsSecrets(answer);
      if (!isServed || !isShown) wrong.push(shown({ route, answer }));
    }
    t.same(wrong, []);
  });

  await t.test('the OpenAPI document names the credentials of each request', async (t) => {
    const document = record(json(await admin('GET', '/api/v1/openapi.json')));
    const listed = operationsOf(document).filter(({ isOfIngestion }) => isOfIngestion);
    t.ok(listed.length > 20);
    for (const { route, isOpen, statuses } of listed) {
      const rule = RULES.find(({ routes }) => routes.includes(route));
      t.equal(rule?.needs === undefined, isOpen, `${route} has a rule, and its security`);
      if (!isOpen) for (const status of ['401', '403']) t.ok(statuses.includes(status), route);
    }
  });

  await t.test('no request of the admin API is answered without token or session', async (t) => {
    const document = record(json(await admin('GET', '/api/v1/openapi.json')));
    const managing = operationsOf(document).filter(({ isOfIngestion }) => !isOfIngestion);
    const open = managing.filter(({ isOpen }) => isOpen).map(({ route }) => route);
    t.same(open.sort(), ['GET /api/v1/openapi.json', 'POST /api/v1/session']);
    const credentials: Readonly<Record<string, Call['headers']>> = {
      'no credential': {},
      'a wrong token': { authorization: 'Bearer wrong' },
      'a key of the project': { authorization: `Bearer ${whole.token}` },
      'the token as a key': { 'x-api-key': adminTokenOf(daemon) },
      'an ended session': { ...page, cookie: ended },
      'an unknown session': { ...page, cookie: `${live.slice(0, -4)}AAAA` },
      'a session beside a wrong token': { ...page, cookie: live, authorization: 'Bearer wrong' },
    };
    let address = 0;
    for (const [name, headers] of Object.entries(credentials)) {
      const wrong: string[] = [];
      for (const { route, isOpen } of managing) {
        if (isOpen) continue;
        address++;
        const from = { 'x-forwarded-for': `198.51.${address >> 8}.${address & 255}` };
        const call = callOf(route, { id: scene.project }, { ...headers, ...from });
        const answer = await send(daemon.adminBase, call);
        if (answer.status !== 401 || !keepsSecrets(answer)) wrong.push(shown({ route, answer }));
      }
      t.same(wrong, [], name);
    }
    for (const { route } of managing.filter(({ isOpen }) => !isOpen)) {
      if (route.startsWith('GET')) continue;
      const call = callOf(route, { id: scene.project }, { cookie: live });
      t.equal((await send(daemon.adminBase, call)).status, 403, `${route} from another page`);
    }
  });

  await t.test('a call over gRPC needs ingest:write', async (t) => {
    const client = grpcClient(t, `http://127.0.0.1:${port}`);
    for (const path of [EXPORT, EXPORT_LOGS, EXPORT_METRICS]) {
      const codeOf = async (metadata: Readonly<Record<string, string>>): Promise<number> =>
        (await client.call(Buffer.alloc(0), { path, metadata })).code;
      for (const [name, headers] of Object.entries(none)) {
        const metadata = Object.fromEntries(Object.entries(headers ?? {}));
        t.equal(await codeOf(metadata), 16, `${path} with ${name}`);
      }
      t.equal(await codeOf({ 'x-api-key': reader.token }), 7);
      t.equal(await codeOf({ 'x-api-key': writer.token }), 0);
    }
  });

  await t.test('health and metrics show no data', async (t) => {
    for (const path of ['/livez', '/readyz', '/readyz?verbose'])
      t.ok(keepsSecrets(await send(daemon.health, { path })), path);
    const answer = await send(daemon.metricsBase, { path: '/metrics' });
    t.equal(answer.status, 200);
    for (const secret of [scene.canary, whole.token, foreign.token, adminTokenOf(daemon)])
      t.notOk(answer.body.includes(secret));
  });

  t.ok(total(await daemon.metrics(), 'tracectl_receiver_accepted_items_total') > 0);
  t.ok(daemon.running());
});

type Described = {
  readonly route: string;
  readonly isOfIngestion: boolean;
  /** No credential is needed. */
  readonly isOpen: boolean;
  readonly statuses: readonly string[];
};

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

/** The operations of the document, of both listeners. */
function operationsOf(document: Record<string, unknown>): Described[] {
  return Object.entries(record(document.paths)).flatMap(([path, item]) => {
    const isOfIngestion = record(item).servers !== undefined;
    const named = Object.entries(record(item)).filter(([name]) => METHODS.includes(name));
    return named.map(([method, value]) => {
      const { security, responses } = record(value);
      const isOpen = Array.isArray(security) && security.length === 0;
      const route = `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`;
      return { route, isOfIngestion, isOpen, statuses: Object.keys(record(responses)) };
    });
  });
}
