import t from 'tap';
import { draftOf, NEW_SCORE, scoreOf } from '../../../../ui/views/trace/score-draft.ts';

const SCORE = { id: 's1', observation_id: null, name: ' a ', comment: null, source: 'judge' };

t.test('a stored score goes through its form unchanged', async (t) => {
  for (const value of [0, -1.5, 1e-7, true, false, '', '7', 'true']) {
    const draft = draftOf({ ...SCORE, value, created_at: '2026-11-03T00:00:00Z' });
    t.match(scoreOf(draft), { id: 's1', observation_id: null, name: ' a ', value, comment: null });
  }
});

t.test('a number must be one', async (t) => {
  for (const value of ['', ' ', 'good', '0,8', 'Infinity', 'NaN']) {
    t.throws(() => scoreOf({ ...NEW_SCORE, name: 'a', value }), /give a number/, value);
  }
  t.match(scoreOf({ ...NEW_SCORE, name: ' a ', value: ' 0.8 ' }), { name: 'a', value: 0.8 });
});
