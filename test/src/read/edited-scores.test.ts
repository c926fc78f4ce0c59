import t from 'tap';
import { offer } from '../../../src/component/capability.ts';
import type { ScoreEditor } from '../../../src/store/scores.ts';
import { SCORE_EDITOR } from '../../../src/store/scores.ts';
import { clientListener } from '../../helper/client-listener.ts';

const adding = (end: string): ScoreEditor => ({
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
