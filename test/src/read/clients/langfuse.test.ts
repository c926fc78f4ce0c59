import t from 'tap';
import { clientListener } from '../../../helper/client-listener.ts';

const TRACE = '0123456789abcdef0123456789abcdef';
const SPAN = 'fedcba9876543210';

t.test('names the project of the key, whatever its permission', async (t) => {
  const { store, call } = await clientListener(t, { permissions: ['ingest:write'] });
  const [project] = await store.projects.list();
  const organization = await store.organization.get();
  t.match(await call('GET', '/api/public/projects'), {
    status: 200,
    json: {
      data: [
        {
          ...{ id: project?.id, name: project?.name, metadata: {} },
          organization: { name: organization.name },
          retentionDays: project?.retention.days,
        },
      ],
    },
  });
  const reader = await clientListener(t, { permissions: ['traces:read'], hasStore: false });
  t.match(await reader.call('GET', '/api/public/projects'), {
    json: { data: [{ id: /^proj_/, name: /^proj_/, organization: { id: /^org_/ } }] },
  });
  const none = await clientListener(t, { permissions: [] });
  t.equal((await none.call('GET', '/api/public/projects')).status, 403);
});

t.test('stores a single score, with the id that a span has here', async (t) => {
  const { store, call } = await clientListener(t);
  const [project] = await store.projects.list();
  const created = await call('POST', '/api/public/scores?x=1', {
    ...{ id: 's1', traceId: TRACE, observationId: SPAN, name: 'ok', value: 1 },
    ...{ dataType: 'BOOLEAN', comment: 'fine', source: 'EVAL', environment: 'test', metadata: {} },
  });
  t.match(created, { status: 200, json: { id: 's1' } });
  t.match(await store.scores.list(project?.id ?? '', TRACE), [
    {
      ...{ id: 's1', observationId: `${TRACE}:${SPAN}`, name: 'ok', value: true },
      ...{ comment: 'fine', source: 'EVAL' },
    },
  ]);
  for (const [given, value] of [
    [{ value: 0, dataType: 'BOOLEAN' }, false],
    [{ value: 1 }, 1],
    [{ value: 'good', dataType: 'CATEGORICAL' }, 'good'],
  ] as const) {
    await call('POST', '/api/public/scores', { id: 's2', traceId: 't', name: 'n', ...given });
    t.match(await store.scores.list(project?.id ?? '', 't'), [{ value }]);
  }
  await call('POST', '/api/public/scores', {
    traceId: 'u',
    observationId: 'o',
    name: 'n',
    value: 1,
  });
  t.match(await store.scores.list(project?.id ?? '', 'u'), [{ observationId: 'o' }]);
  for (const [body, message] of [
    [{ name: 'n', value: 1 }, 'The score needs traceId.'],
    [{ sessionId: 's', name: 'n', value: 1 }, /sessionId are not served/],
    [{ traceId: 't', value: 1 }, /name is required/],
    [{ traceId: 't', name: 'n', value: 2, dataType: 'BOOLEAN', id: 7 }, /id must be a text/],
    ['null', /must be an object/],
  ] as const) {
    t.match(await call('POST', '/api/public/scores', body), { status: 400, json: { message } });
  }
});

t.test('stores a list of scores, and names those that it refuses', async (t) => {
  const { store, call } = await clientListener(t, { scoresPerTrace: 2 });
  const [project] = await store.projects.list();
  const score = (id: string, more: object = {}) => ({
    ...{ id, traceId: TRACE, name: 'n', value: 1, ...more },
  });
  t.same(await call('POST', '/api/public/scores', [score('a'), score('a', { value: 2 })]), {
    ...{ status: 202, json: { message: 'Accepted' } },
  });
  t.match(await store.scores.list(project?.id ?? '', TRACE), [{ id: 'a', value: 2 }]);
  t.same(
    await call('POST', '/api/public/scores', [
      ...[score('b'), 7, score('c'), score('d', { traceId: 'other' })],
    ]),
    {
      status: 207,
      json: {
        ...{ accepted: 2, rejected: 2 },
        errors: [
          { message: 'The score must be an object.' },
          { message: 'The trace has 2 scores, which is the limit.' },
        ],
      },
    },
  );
  t.equal((await call('POST', '/api/public/scores', [])).status, 202);
  const many = (count: number) => Array.from({ length: count }, () => 1);
  t.equal((await call('POST', '/api/public/scores', many(1000))).status, 207);
  t.match(await call('POST', '/api/public/scores', many(1001)), {
    ...{ status: 413, json: { code: 'too_many_events' } },
  });
  const padded = (length: number) => '[]'.padEnd(length);
  t.equal((await call('POST', '/api/public/scores', padded(1_048_576))).status, 202);
  t.equal((await call('POST', '/api/public/scores', padded(1_048_577))).status, 413);
});

t.test('deletes a score', async (t) => {
  const { store, call } = await clientListener(t);
  const [project] = await store.projects.list();
  await call('POST', '/api/public/scores', { id: 's1', traceId: 't', name: 'n', value: 1 });
  t.equal((await call('DELETE', '/api/public/scores/s1')).status, 202);
  t.same(await store.scores.list(project?.id ?? '', 't'), []);
  t.equal((await call('DELETE', '/api/public/scores/s1')).status, 404);
});

t.test('takes scores from a batch of events, and refuses other events one by one', async (t) => {
  const { store, call } = await clientListener(t);
  const [project] = await store.projects.list();
  const event = (id: string, type: string, body: unknown) => ({
    ...{ id, type, timestamp: '2026-01-15T12:00:00Z', body },
  });
  const score = { id: 's1', traceId: TRACE, name: 'n', value: 0.5 };
  const answered = await call('POST', '/api/public/ingestion', {
    batch: [
      event('e1', 'trace-create', { id: TRACE }),
      event('e2', 'score-create', score),
      event('e3', 'score-create', { ...score, traceId: null, sessionId: 's' }),
    ],
    metadata: null,
  });
  t.match(answered, {
    status: 207,
    json: {
      successes: [{ id: 'e2', status: 201 }],
      errors: [
        { id: 'e1', status: 400, message: /\/api\/public\/otel\/v1\/traces/ },
        { id: 'e3', status: 400, message: /sessionId/ },
      ],
    },
  });
  t.match(await store.scores.list(project?.id ?? '', TRACE), [{ id: 's1', value: 0.5 }]);
  for (const body of ['{}', '[]', '{"batch":[7]}']) {
    t.equal((await call('POST', '/api/public/ingestion', body)).status, 400, body);
  }
});

t.test('scores need ingest:write', async (t) => {
  const { call } = await clientListener(t, { permissions: ['traces:read'] });
  for (const [method, path] of [
    ['POST', '/api/public/scores'],
    ['POST', '/api/public/ingestion'],
    ['DELETE', '/api/public/scores/s'],
  ] as const) {
    t.equal((await call(method, path)).status, 403, path);
  }
});

t.test('refuses a body of more than 32,768 values before it is decoded', async (t) => {
  const { call } = await clientListener(t);
  // The body, the list, and the elements behind the first one.
  const list = (length: number) => ({ list: Array(length).fill(1), text: ',[{"\\,'.repeat(9_000) });
  const { parse } = JSON;
  let decoded = 0;
  JSON.parse = (text, reviver) => {
    if (text.includes('"list"')) decoded++;
    return parse(text, reviver);
  };
  try {
    t.match(await call('POST', '/api/public/scores', list(32_765)), { status: 400 });
    t.equal(decoded, 1);
    t.match(await call('POST', '/api/public/scores', list(32_766)), {
      status: 413,
      json: { code: 'body_too_large', message: 'The body has more than 32768 values.' },
    });
    t.equal(decoded, 1);
  } finally {
    JSON.parse = parse;
  }
});
