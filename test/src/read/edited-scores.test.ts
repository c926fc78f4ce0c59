import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { Listener } from '../../../src/http/listener.ts';
import type { ScoreEditor } from '../../../src/store/scores.ts';
import { SCORE_EDITOR } from '../../../src/store/scores.ts';
import { STORE } from '../../../src/store/store.ts';
import { aTenant } from '../../helper/batches.ts';
import { clientListener } from '../../helper/client-listener.ts';
import { freePort } from '../../helper/free-ports.ts';
import { testListeners, USUAL_LIMITS, urlOf } from '../../helper/http.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { createSink, sinkPipeline } from '../../helper/sink.ts';

const adding = (end: string, id = `adding${end}`): ScoreEditor => ({
  id,
  edit: async (scores) => scores.map((score) => ({ ...score, comment: `${score.comment}${end}` })),
});

t.test('every editor of the pipeline edits scores before they are stored', async (t) => {
  const { call, store } = await clientListener(t, {
    offers: [offer(SCORE_EDITOR, adding('-a')), offer(SCORE_EDITOR, adding('-b'))],
  });
  const [project] = await store.projects.list();
  const named = { id: 's', name: 'k', value: 1 };
  const feedback = { id: 's', key: 'k', score: 1 };
  const event = (id: string, traceId: string) => {
    return { id, type: 'score-create', body: { ...named, traceId, comment: id } };
  };
  const requests = [
    ['POST', '/api/v1/traces/t0/scores', { ...named, comment: '0' }, 201],
    ['POST', '/api/public/scores', { ...named, traceId: 't1', comment: '1' }, 200],
    ['POST', '/api/public/scores', [{ ...named, traceId: 't2', comment: '2' }, {}], 207],
    ['POST', '/api/public/ingestion', { batch: [{}, event('3', 't3'), event('4', 't4')] }, 207],
    ['POST', '/feedback', { ...feedback, run_id: 't5', comment: '5' }, 200],
  ] as const;
  for (const [method, path, body, status] of requests) {
    t.equal((await call(method, path, body)).status, status, path);
  }
  for (let i = 0; i < 6; i++) {
    t.match(await store.scores.list(project?.id ?? '', `t${i}`), [{ comment: `${i}-a-b` }]);
  }
  const changed = await call('PATCH', '/feedback/s', { comment: 'new' });
  t.match(changed.json, { comment: 'new-a-b' });
});

t.test('an update of feedback edits only the texts that it gives', async (t) => {
  const seen: unknown[] = [];
  const edit = async (text: string | null) => (text === null ? null : `<${text}>`);
  const { call, store } = await clientListener(t, {
    offers: [
      offer(SCORE_EDITOR, {
        id: 'seeing',
        edit: async (scores) => {
          seen.push(...scores.map(({ name, value, source }) => ({ name, value, source })));
          return Promise.all(
            scores.map(async (score) => ({
              ...score,
              comment: await edit(score.comment),
              value: typeof score.value === 'string' ? `<${score.value}>` : score.value,
            })),
          );
        },
      }),
    ],
  });
  const [project] = await store.projects.list();
  const stored = async () => (await store.scores.list(project?.id ?? '', 't'))[0];
  const feedback = { id: 's', key: 'k', run_id: 't', value: 'v', feedback_source: { type: 'm' } };
  await call('POST', '/feedback', { ...feedback, comment: 'a' });
  t.match(await stored(), { comment: '<a>', value: '<v>', name: 'k', source: 'm' });
  for (const [body, comment, value] of [
    [{}, '<a>', '<v>'],
    [{ score: 1 }, '<a>', 1],
    [{ value: 'w' }, '<a>', '<w>'],
    [{ correction: { b: 1 } }, '<a>\n<Correction: {"b":1}>', '<w>'],
    [{ comment: '' }, '<>', '<w>'],
    [{ comment: null }, null, '<w>'],
  ] as const) {
    const answer = await call('PATCH', '/feedback/s', body);
    t.equal(answer.status, 200, JSON.stringify(body));
    t.match(await stored(), { comment, value, name: 'k', source: 'm' });
  }
  t.same(
    seen.slice(1).filter((one) => JSON.stringify(one).match(/"k"|"m"|<v>/)),
    [],
    'the editors see no stored text',
  );
});

t.test('the editors of all receivers at an address that have the store edit scores', async (t) => {
  const { store, close } = await sqlitePlace(t).open();
  const [project] = await store.projects.list();
  const tenant = aTenant({ projectId: project?.id ?? '' });
  const listeners = testListeners();
  const address = `127.0.0.1:${await freePort()}`;
  const [ofStore, ofOther] = [offer(STORE, store), offer(STORE, { ...store })];
  const entrances = [
    [],
    [ofStore],
    [ofOther, offer(SCORE_EDITOR, adding('-other'))],
    [ofStore, offer(SCORE_EDITOR, adding('-a', 'same')), offer(SCORE_EDITOR, adding('-b'))],
    [offer(SCORE_EDITOR, adding('-none'))],
    [ofStore, offer(SCORE_EDITOR, adding('-a', 'same')), offer(SCORE_EDITOR, adding('-c'))],
  ].map((offers) => {
    return { pipeline: sinkPipeline(createSink(), { offers, tenant }), fallback: undefined };
  });
  const bound: Listener[] = [];
  for (const entrance of entrances) {
    const listener = await listeners.bind(address, USUAL_LIMITS, entrance);
    await listener.open();
    bound.push(listener);
  }
  t.teardown(async () => {
    for (const listener of bound) await listener.close(AbortSignal.abort());
    await listeners.close();
    await close();
  });
  const [first] = bound;
  const call = (method: string, path: string, body?: object) => {
    const url = first === undefined ? '' : urlOf(first) + path;
    const headers = { 'content-type': 'application/json' };
    return fetch(url, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  };
  const comments = async (traceId: string) =>
    (await store.scores.list(tenant.projectId, traceId)).map(({ comment }) => comment);
  const score = { name: 'k', value: 1, comment: 'c' };
  t.equal((await call('POST', '/api/v1/traces/t/scores', score)).status, 201);
  t.same(await comments('t'), ['c-a-b-c']);
  const listed = await call('GET', '/api/v1/traces/t/scores');
  t.match(await listed.json(), { scores: [{ comment: 'c-a-b-c' }] });
  const feedback = { id: 'f', key: 'k', score: 1, run_id: 'u', comment: 'c' };
  t.equal((await call('POST', '/feedback', feedback)).status, 200);
  t.equal((await call('PATCH', '/feedback/f', { comment: 'd' })).status, 200);
  t.same(await comments('u'), ['d-a-b-c']);
  t.equal((await call('DELETE', '/feedback/f')).status, 200);
  t.same(await comments('u'), []);
  const runs = await call('POST', '/runs/query', { session: [tenant.projectId] });
  t.equal(runs.status, 200, 'a request that reads with POST has the same store');
});
