import t from 'tap';
import { SCORES_AT_ONCE, SCORES_PER_SECOND, scoreBytes } from '../../../src/read/score-bytes.ts';
import type { NewScore } from '../../../src/store/scores.ts';
import { fakeClock } from '../../helper/clock.ts';

/** The bytes of a row, its id and its name, which count in addition to the value. */
const BESIDE = 130;

function scoreOf(bytes: number, more: Partial<NewScore> = {}): NewScore {
  const value = 'x'.repeat(bytes - BESIDE);
  const nothing = { observationId: null, comment: null, source: null };
  return { id: 'i', name: 'n', value, at: 0, ...nothing, ...more };
}

t.test('a project stores a number of bytes at once, and some each second', (t) => {
  const clock = fakeClock();
  const scores = scoreBytes(clock);
  t.equal(scores.admit('proj_a', scoreOf(SCORES_AT_ONCE - 1)), undefined);
  t.equal(scores.admit('proj_a', scoreOf(SCORES_PER_SECOND)), undefined, 'the last byte');
  const refusal = { code: 'rate_limited', status: 429, retryAfterMs: 1000 };
  t.match(scores.admit('proj_a', scoreOf(BESIDE)), refusal);
  t.equal(scores.admit('proj_b', scoreOf(BESIDE)), undefined, 'another project');
  clock.advance(875);
  t.match(scores.admit('proj_a', scoreOf(BESIDE)), refusal);
  clock.advance(125);
  t.equal(scores.admit('proj_a', scoreOf(BESIDE)), undefined);
  t.end();
});

t.test('every text counts in UTF-8, and a score without texts as a row', (t) => {
  const scores = scoreBytes(fakeClock());
  const texts = { value: 1, observationId: 'ü'.repeat(8_388_608), comment: 'ü'.repeat(4_194_304) };
  t.equal(scores.admit('proj_a', scoreOf(BESIDE, texts)), undefined);
  t.equal(
    scores.admit('proj_a', scoreOf(BESIDE, { source: 'x'.repeat(8_388_608 - 2 * BESIDE) })),
    undefined,
  );
  t.match(scores.admit('proj_a', scoreOf(BESIDE, { value: true })), { code: 'rate_limited' });
  t.end();
});
