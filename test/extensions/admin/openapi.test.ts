import { readFileSync } from 'node:fs';
import { Ajv2020, type AnySchemaObject, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { ControlError } from '../../../src/control/protocol.ts';
import { rawEventId } from '../../../src/model/batch.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { MAX_ID_BYTES } from '../../../src/model/json/id.ts';
import { EXPORT_PARAMETERS } from '../../../src/read/export/request.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { ATTACHMENT } from '../../helper/fake-attachments.ts';
import type { FakeStore } from '../../helper/fake-store.ts';
import { anObservation, aTrace } from '../../helper/fake-traces.ts';
import { READ_LIMITS } from '../../helper/http.ts';
import { aQuery } from '../../helper/query.ts';
import { type Answered, type Ask, type Asked, serving, TOKEN } from './serving.ts';

/**
 * The OpenAPI document is held against the running server: every status it names is asked for, every
 * answer has the shape it says, and nothing else is served.
 */

type Operation = {
  readonly operationId: string;
  readonly security?: readonly object[];
  readonly parameters?: readonly {
    name: string;
    in: string;
    description?: string;
    schema: AnySchemaObject;
  }[];
  readonly requestBody?: { content: Record<string, { schema: AnySchemaObject }> };
  readonly responses: Record<
    string,
    {
      description: string;
      headers?: Record<string, object>;
      content?: Record<string, { schema: AnySchemaObject }>;
    }
  >;
};
type PathItem = Record<string, Operation> & { readonly servers?: readonly object[] };
type Document = {
  readonly openapi: string;
  readonly paths: Record<string, PathItem>;
  readonly components: { readonly schemas: Record<string, AnySchemaObject> };
};

const METHODS = ['get', 'post', 'put', 'patch', 'delete'];

async function described(t: Parameters<typeof serving>[0]) {
  const rig = await serving(t);
  const answer = await rig.ask('GET', '/api/v1/openapi.json', { token: null });
  const document = answer.json as Document;
  const schemaAt = (...steps: string[]): ValidateFunction => {
    const pointer = steps.map((step) => step.replaceAll('~', '~0').replaceAll('/', '~1'));
    return validatorOf(answer.text, `doc#/${pointer.map(encodeURIComponent).join('/')}`);
  };
  return { ...rig, document, schemaAt };
}

/** The validators of each text of a document: all servers of this test have the same one, and compiling costs more than asking. */
const compiled = new Map<string, { ajv: Ajv2020; validators: Map<string, ValidateFunction> }>();

function validatorOf(text: string, ref: string): ValidateFunction {
  let known = compiled.get(text);
  if (known === undefined) {
    known = { ajv: compilerOf(JSON.parse(text)), validators: new Map() };
    compiled.set(text, known);
  }
  const found = known.validators.get(ref) ?? known.ajv.compile({ $ref: ref });
  known.validators.set(ref, found);
  return found;
}

function compilerOf(document: Document): Ajv2020 {
  // Each schema is compiled once, and runs a few times: neither copies of it nor shorter code are worth their time.
  const cheap = { inlineRefs: false, code: { optimize: false } } as const;
  const ajv = new Ajv2020({ strict: true, strictTypes: false, allErrors: true, ...cheap });
  addFormats.default(ajv);
  ajv.addVocabulary(Object.keys(document));
  ajv.addSchema({ $id: 'doc', ...document });
  return ajv;
}

/** Operations of the admin listener; those of the other one name their servers. */
function managed(document: Document): { path: string; method: string; operation: Operation }[] {
  return Object.entries(document.paths)
    .filter(([, item]) => item.servers === undefined)
    .flatMap(([path, item]) =>
      METHODS.flatMap((method) => {
        const operation = item[method];
        return operation === undefined ? [] : [{ path, method, operation }];
      }),
    );
}

type Ids = { project: string; key: string };
type Scene = { ask: Ask; send(more?: Asked, path?: string): Promise<Answered> } & Rig & Ids;
type Rig = Awaited<ReturnType<typeof serving>>;

/** Bodies that the operation takes. */
const BODIES: Record<string, unknown> = {
  updateOrganization: { name: 'Ours' },
  createProject: { name: 'a' },
  updateProject: { name: 'b', retention: { days: 3 }, limits: { events_per_month: 5 } },
  createKey: { name: 'k', permissions: ['traces:read'] },
  createProjectScore: { name: 'quality', value: 0.5 },
  createErasure: { q: 'user:u', dry_run: true },
  signIn: { token: TOKEN },
  replayDeadLetters: { ids: 'all' },
  dropDeadLetters: { queue: 'disk_queue', ids: [1, 2] },
};

/** A request with a wrong credential. */
function guessed(id: string): Asked {
  return id === 'signIn' ? { body: { token: 'wrong' } } : { token: 'wrong', body: BODIES[id] };
}

/** How to bring every operation to each of the statuses it may answer. */
const SCENES: Record<string, (scene: Scene, id: string) => Promise<Answered>> = {
  200: (scene, id) => scene.send({ body: BODIES[id] }),
  201: (scene, id) => scene.send({ body: BODIES[id] }),
  202: (scene, id) => scene.send({ body: BODIES[id] }),
  204: (scene, id) => scene.send({ body: BODIES[id] }),
  400: (scene, id) =>
    id === 'getProjectRawEvent'
      ? scene.ask('GET', '/api/v1/projects/%zz/raw-events/a')
      : scene.send({ body: BODIES.none }, '?unknown=1&limit=0&trace_id=a&trace_id=b'),
  401: (scene, id) => scene.send(guessed(id)),
  404: (scene, id) => {
    if (id === 'listDeadLetters') return scene.send({}, '?queue=none');
    const unknown = id.endsWith('DeadLetters') ? { queue: 'none', ids: 'all' } : BODIES[id];
    return scene.send({ body: unknown }, 'unknown');
  },
  409: async (scene, id) => {
    const { ask, store } = scene;
    if (id === 'deleteProject') {
      const { projects } = (await ask('GET', '/api/v1/projects')).json;
      for (const each of projects) {
        if (each.id !== scene.project) await ask('DELETE', `/api/v1/projects/${each.id}`);
      }
      return scene.send();
    }
    if (id === 'createProjectScore') {
      const { scores_per_trace: most } = READ_LIMITS;
      for (let i = 0; i < most; i++) await scene.send({ body: BODIES[id] });
      return scene.send({ body: BODIES[id] });
    }
    if (id === 'updateOrganization') return scene.send({ body: { plan: 'free' } });
    for (const each of (await store.projects.list()).slice(1)) await store.projects.delete(each.id);
    await ask('PATCH', '/api/v1/organization', { body: { plan: 'free' } });
    return scene.send({ body: BODIES[id] });
  },
  413: (scene) => scene.send({ body: { name: 'x'.repeat(70_000) } }),
  415: (scene) => scene.send({ raw: 'a', headers: { 'content-type': 'text/plain' } }),
  429: async (scene, id) => {
    for (let guess = 0; guess < 10; guess++) await scene.send(guessed(id));
    return scene.send(guessed(id));
  },
  503: (scene, id) => {
    scene.store.fail(new Error('away'));
    scene.failControl(new ControlError('worker_down', 'no worker is running'));
    return scene.send({ body: BODIES[id] });
  },
  504: (scene, id) => {
    scene.store.fail(new RetryableError('query_timeout', 'too slow'));
    return scene.send({ body: BODIES[id] });
  },
};

const [TRACE, OBSERVATION] = ['trace-1', 'o-1'];
const BATCH = nativeBatch(1);

/** A scene of one of the statuses exhausts a limit, so it has a server of its own. */
const EXHAUSTING = new Set(['401', '409', '429']);

/** Gives the first project one trace. */
function hold({ held }: FakeStore): void {
  const inputs = { batchId: BATCH.id, position: 0 };
  held.traces = [aTrace({ id: TRACE, sessionId: 'session-1', userId: 'user-1' })];
  held.observations = [anObservation({ id: OBSERVATION, traceId: TRACE, payload: { inputs } })];
  held.batches = [BATCH];
}

async function signedIn(ask: Ask): Promise<string> {
  await ask('POST', '/api/v1/session', { body: { token: TOKEN } });
  const [session] = (await ask('GET', '/api/v1/sessions/ui')).json.sessions;
  return session.id;
}

async function sceneFor(rig: Rig, method: string, path: string): Promise<Scene> {
  const { ask } = rig;
  const project = (await ask('POST', '/api/v1/projects', { body: { name: 'scene' } })).json.id;
  const key = (await ask('POST', `/api/v1/projects/${project}/keys`, { body: {} })).json.id;
  const [first] = (await ask('GET', '/api/v1/projects')).json.projects;
  hold(rig.store);
  const query = aQuery('user:u');
  const by = { actor: 'admin-token', address: null };
  const asked = { query, isDryRun: false };
  const erasure = await rig.store.erasures.request(first.id, asked, by);
  const session = path.startsWith('/api/v1/sessions/ui') ? await signedIn(ask) : project;
  const ids = { '/api/v1/keys': key, '/api/v1/sessions/ui': session };
  const id = Object.entries(ids).find(([prefix]) => path.startsWith(prefix))?.[1] ?? project;
  return {
    ...rig,
    project,
    key,
    send(more = {}, change = '') {
      const filled = path
        .replace('{project_id}', change === 'unknown' ? 'proj_none' : first.id)
        .replace('{trace_id}', TRACE)
        .replace('{erasure_id}', erasure.id)
        .replace('{session_id}', 'session-1')
        .replace('{user_id}', 'user-1')
        .replace('observations/{id}', `observations/${OBSERVATION}`)
        .replace('{raw_event_id}', rawEventId(BATCH.id, 0))
        .replace('{sha256}', ATTACHMENT)
        .replace('{id}', change === 'unknown' ? 'proj_none' : id);
      const { body, ...rest } = more;
      const asked = body === undefined ? rest : more;
      const needed = filled.endsWith('/facets') ? '?field=user' : '';
      const asking = filled + (change.startsWith('?') ? change : needed);
      return ask(method.toUpperCase(), asking, asked);
    },
  };
}

const OF_REFUSALS = ['WWW-Authenticate', 'Retry-After'];

t.test('every operation answers each documented status in its documented shape', async (t) => {
  const first = await described(t);
  const operations = managed(first.document);
  t.ok(operations.length >= 20);
  const shared = await serving(t);
  for (const { path, method, operation } of operations) {
    for (const status of Object.keys(operation.responses)) {
      const what = `${operation.operationId} ${status}`;
      const rig = EXHAUSTING.has(status) ? await serving(t) : shared;
      const scene = await sceneFor(rig, method, path);
      const play = SCENES[status];
      if (play === undefined) {
        t.fail(`${what} is documented, but no scene of this test produces it`);
        continue;
      }
      const answer = await play(scene, operation.operationId);
      scene.store.fail(undefined);
      scene.failControl(undefined);
      t.equal(String(answer.status), status, `${what} ${answer.text}`);
      const { headers = {}, content } = operation.responses[status] ?? {};
      t.same(
        OF_REFUSALS.filter((name) => answer.headers.has(name)),
        OF_REFUSALS.filter((name) => Object.hasOwn(headers, name)),
        `${what} headers`,
      );
      if (content === undefined) {
        t.equal(answer.text, '', `${what} has no body`);
        continue;
      }
      if (content['application/json'] === undefined) {
        const [type] = (answer.headers.get('content-type') ?? '').split(';');
        t.ok(Object.hasOwn(content, type ?? ''), `${what} ${type}`);
        continue;
      }
      t.match(answer.headers.get('content-type'), 'application/json', what);
      const validate = first.schemaAt(
        ...['paths', path, method, 'responses', status],
        ...['content', 'application/json', 'schema'],
      );
      t.ok(validate(answer.json), `${what}: ${JSON.stringify(validate.errors)}`);
    }
  }
});

t.test('every answered code is documented', async (t) => {
  const { document, schemaAt, ask } = await described(t);
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  const project = `/api/v1/projects/${projects[0].id}`;
  const cases: [method: string, path: string, documented: string, body?: unknown][] = [
    ['POST', '/api/v1/projects', '/api/v1/projects', { name: '' }],
    ['POST', '/api/v1/projects', '/api/v1/projects', 5],
    ['PATCH', project, '/api/v1/projects/{id}', { retention: { days: 0 } }],
    ['PATCH', project, '/api/v1/projects/{id}', { limits: { bytes_per_hour: 0 } }],
    ['POST', `${project}/keys`, '/api/v1/projects/{id}/keys', { permissions: [] }],
    ['PATCH', '/api/v1/organization', '/api/v1/organization', { plan: 'gold' }],
    ['GET', '/api/v1/audit?cursor=x', '/api/v1/audit'],
    ['GET', `${project}/rejections?cursor=x`, '/api/v1/projects/{id}/rejections'],
  ];
  for (const [method, path, documented, body] of cases) {
    const answer = await ask(method, path, body === undefined ? {} : { body });
    const at = ['paths', documented, method.toLowerCase(), 'responses', String(answer.status)];
    t.ok(document.paths[documented], documented);
    const validate = schemaAt(...at, 'content', 'application/json', 'schema');
    t.ok(validate(answer.json), `${path}: ${answer.text}`);
  }
});

t.test('an id of a path that is too long is refused with a documented code', async (t) => {
  const { document, schemaAt, ask } = await described(t);
  for (const { path, method, operation } of managed(document)) {
    if (!path.includes('{')) continue;
    const asked = path.replaceAll(/\{\w+\}/g, 'x'.repeat(MAX_ID_BYTES + 1));
    const answer = await ask(method.toUpperCase(), asked);
    t.equal(answer.status, 404, path);
    const at = ['paths', path, method, 'responses', '404', 'content', 'application/json', 'schema'];
    t.ok(schemaAt(...at)(answer.json), `${operation.operationId} ${answer.text}`);
  }
});

t.test('the document has the headers of refusals by the ingestion listener', async (t) => {
  const { document } = await described(t);
  const headersOf = (path: string, method: string, status: string): string[] =>
    Object.keys(document.paths[path]?.[method]?.responses[status]?.headers ?? {});
  for (const path of ['/api/v1/runs/batch', '/v1/traces']) {
    t.same(headersOf(path, 'post', '401'), ['WWW-Authenticate'], path);
    for (const status of ['402', '409', '429', '503']) {
      t.same(headersOf(path, 'post', status), ['Retry-After'], `${path} ${status}`);
    }
    t.same(headersOf(path, 'post', '413'), [], path);
  }
  t.same(headersOf('/api/v1/traces', 'get', '503'), ['Retry-After']);
  for (const path of ['/v1/traces', '/api/v1/traces/{trace_id}/scores', '/api/v1/projects']) {
    t.same(headersOf(path, 'post', '415'), ['Accept-Encoding'], path);
  }
  t.same(headersOf('/api/v1/traces/{trace_id}/scores', 'post', '409'), [], 'of too many scores');
  const ofRun = document.paths['/api/v1/runs/{id}']?.patch?.responses['404'];
  t.match(ofRun?.description, '`not_found`');
});

t.test('an operation documents the codes that it can answer, and no other', async (t) => {
  const { document } = await described(t);
  const codesOf = (path: string, method = 'post'): string[] =>
    Object.values(document.paths[path]?.[method]?.responses ?? {}).flatMap(({ description }) =>
      [...description.matchAll(/`([a-z_]+)`/g)].map(([, code = '']) => code),
    );
  const events = codesOf('/api/v1/observations/batch');
  t.ok(events.includes('too_many_events') && events.includes('no_event_accepted'));
  t.notOk(
    events.some((code) => /query|cursor|scores/.test(code)),
    'of reading requests',
  );
  t.notOk(codesOf('/api/v1/runs').includes('too_many_events'), 'one run');
  t.notOk(codesOf('/v1/traces').includes('no_event_accepted'), 'a partial success');
  const ofType = document.paths['/v1/traces']?.post?.responses['415']?.description;
  t.match(ofType, '`unsupported_content_type`');

  for (const prefix of ['/api/v1', '/api/v1/projects/{project_id}']) {
    const mistakes = (path: string): string[] =>
      codesOf(prefix + path, 'get').filter((code) => /^invalid_[qc]/.test(code));
    t.same(mistakes('/traces'), ['invalid_query', 'invalid_cursor'], prefix);
    t.same(mistakes('/stats'), ['invalid_query'], prefix);
    t.same(mistakes('/traces/{trace_id}'), ['invalid_cursor'], prefix);
    t.same(mistakes('/export'), ['invalid_query', 'invalid_cursor'], prefix);
    t.same(mistakes('/search'), [], prefix);
    t.ok(codesOf(`${prefix}/traces/{trace_id}/scores`).includes('too_many_scores'), prefix);
  }
});

t.test('the server and the document accept the same bodies', async (t) => {
  const { document, schemaAt, ask } = await described(t);
  const { projects } = (await ask('GET', '/api/v1/projects')).json;
  const candidates: unknown[] = [
    ...[{}, { name: 'a' }, { name: '' }, { name: ' ' }, { name: 1 }, { name: null }, [], null, 'a'],
    ...[{ plan: 'pro' }, { plan: 'no' }, { name: 'a', plan: 'scale' }, { name: 'a', more: 1 }],
    ...[{ retention: { days: 3 } }, { retention: { days: null } }, { retention: { days: 0 } }],
    ...[{ permissions: ['traces:read'] }, { permissions: [] }, { permissions: ['x'] }],
    ...[{ limits: { events_per_month: 1 } }, { limits: {} }, { limits: { bytes_per_hour: null } }],
    ...[{ limits: { events_per_month: 0 } }, { limits: { bytes_per_hour: 1.5 } }, { limits: null }],
    { limits: { retention_days: 1 } },
    ...[{ q: 'user:u' }, { q: 'user:u', dry_run: true }, { q: 1 }, { q: 'a', dry_run: 'yes' }],
    { name: 'ü'.repeat(200) },
    { name: 'ü'.repeat(201) },
  ];
  let taken = 0;
  for (const { path, method, operation } of managed(document)) {
    if (operation.requestBody === undefined) continue;
    const at = ['paths', path, method, 'requestBody', 'content', 'application/json', 'schema'];
    const validate = schemaAt(...at);
    for (const body of candidates) {
      const target = path.replace(/\{(project_)?id\}/, projects[0].id);
      const answer = await ask(method.toUpperCase(), target, { body });
      const isTaken = answer.status < 400;
      if (isTaken) taken++;
      t.equal(isTaken, validate(body), `${operation.operationId} ${JSON.stringify(body)}`);
    }
  }
  t.ok(taken > 8);
});

t.test('every served path is documented', async (t) => {
  const { document, ask } = await described(t);
  for (const [path, item] of Object.entries(document.paths)) {
    if (item.servers !== undefined) continue;
    const asked = path.replaceAll(/\{\w+\}/g, 'none');
    const documented = methodsOf(document, asked);
    for (const method of METHODS) {
      const answer = await ask(method.toUpperCase(), asked);
      t.equal(answer.status !== 405, documented.includes(method), `${method} ${path}`);
      if (answer.status !== 405) continue;
      const allowed = answer.headers.get('allow')?.toLowerCase().split(', ') ?? [];
      t.same(allowed.filter((each) => each !== 'head').sort(), documented.sort(), path);
    }
  }
  for (const path of Object.keys(document.paths)) {
    if (document.paths[path]?.servers === undefined) continue;
    t.equal(
      (await ask('GET', path.replaceAll(/\{\w+\}/g, 'a'))).status,
      404,
      `${path} is not here`,
    );
  }
});

/** The documented methods of all paths that match: `/traces/stream` is also the path of a trace. */
function methodsOf({ paths }: Document, asked: string): string[] {
  const items = Object.entries(paths).filter(([path, { servers }]) => {
    const pattern = new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
    return servers === undefined && pattern.test(asked);
  });
  return METHODS.filter((method) => items.some(([, item]) => item[method] !== undefined));
}

t.test('the document is valid OpenAPI 3.1', async (t) => {
  const { document, schemaAt } = await described(t);
  t.equal(document.openapi, '3.1.0');
  for (const id of Object.keys(document.components.schemas)) {
    t.doesNotThrow(() => schemaAt('components', 'schemas', id), id);
  }
  const ids = Object.values(document.paths).flatMap((item) =>
    METHODS.flatMap((method) => item[method]?.operationId ?? []),
  );
  t.same([...new Set(ids)], ids, 'operation ids are unique');
  const text = JSON.stringify(document);
  for (const [, id = ''] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    t.ok(document.components.schemas[id], id);
  }
  for (const { path, operation } of managed(document)) {
    const parameters = (operation.parameters ?? []).filter((each) => each.in === 'path');
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    t.same(
      parameters.map(({ name }) => name),
      named,
      path,
    );
  }
});

t.test('the examples of docs/admin-api.md match the document', async (t) => {
  const { document, schemaAt } = await described(t);
  const manual = readFileSync('docs/admin-api.md', 'utf8');
  const shown = [...manual.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text = '']) => text);
  const schemas = ['Organization', 'Project', 'CreatedKey', 'Erasure', 'UsageHistory'];
  t.equal(shown.length, schemas.length);
  for (const [at, id] of schemas.entries()) {
    const validate = schemaAt('components', 'schemas', id);
    t.ok(validate(JSON.parse(shown[at] ?? '')), `${id}: ${JSON.stringify(validate.errors)}`);
  }
  for (const { path } of managed(document)) {
    const short = path.replace('/api/v1', '').replaceAll(/\{(\w+)\}/g, ':$1');
    t.match(manual, short === '/organization' ? '$API/organization' : short, `${path} is in it`);
  }
  const errors = readFileSync('docs/errors.md', 'utf8');
  const { Error: error } = document.components.schemas;
  const codes: string[] = error?.properties.code.enum ?? [];
  t.ok(codes.length > 15);
  for (const code of codes) t.match(errors, `\`${code}\``, code);
});

t.test(
  'docs/http-api.md has every request and parameter of the document, and no other',
  async (t) => {
    const { document } = await described(t);
    const page = readFileSync('docs/http-api.md', 'utf8');
    const requests = page.slice(page.indexOf('## Requests'), page.indexOf('## Shapes'));
    const sections = new Map(
      requests
        .split('\n### ')
        .slice(1)
        .map((section) => [section.slice(0, section.indexOf('\n')), section]),
    );
    const documented = Object.entries(document.paths)
      .filter(([, item]) => item.servers !== undefined)
      .flatMap(([path, item]) =>
        METHODS.flatMap((method) => {
          const { parameters = [] } = item[method] ?? {};
          const names = parameters.map(({ name }) => name);
          return item[method] === undefined
            ? []
            : [{ at: `${method.toUpperCase()} ${path}`, names }];
        }),
      );
    t.same(
      [...sections.keys()],
      documented.map(({ at }) => at),
    );
    for (const { at, names } of documented) {
      const rows = [...(sections.get(at) ?? '').matchAll(/^\| `([^`]+)` \|/gm)];
      t.same(
        rows.map(([, name]) => name),
        names,
        at,
      );
    }
    const shapes = page.slice(page.indexOf('## Shapes'));
    for (const [, id = ''] of page.matchAll(/\]\(#([a-z]+)\)/g)) {
      t.ok(shapes.toLowerCase().includes(`### ${id}\n`), id);
    }
  },
);

t.test('every parameter of a query of the ingestion listener says what it means', async (t) => {
  const { document } = await described(t);
  const silent = Object.entries(document.paths)
    .filter(([, item]) => item.servers !== undefined)
    .flatMap(([path, item]) =>
      METHODS.flatMap((method) => item[method]?.parameters ?? [])
        .filter((each) => each.in === 'query' && (each.description ?? '') === '')
        .map(({ name }) => `${path} ${name}`),
    );
  t.same(silent, []);
});

t.test('the parameters of an export in the document are those that it takes', async (t) => {
  const { document } = await described(t);
  const { parameters = [] } = document.paths['/api/v1/export']?.get ?? {};
  t.same(parameters.map(({ name }) => name).sort(), [...EXPORT_PARAMETERS].sort());
});
