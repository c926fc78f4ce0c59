import t from 'tap';
import { dividesPair } from '../../../src/model/surrogates.ts';

t.test('a cut divides a pair only between its halves', async (t) => {
  const text = 'a\u{1f600}b';
  const divided = Array.from({ length: text.length + 2 }, (_, at) => dividesPair(text, at));
  t.same(divided, [false, false, true, false, false, false]);
  t.equal(dividesPair('\ud800', 1), true, 'the other half is lost already');
  t.equal(dividesPair('\udbff', 1), true);
  t.equal(dividesPair('\udc00', 1), false);
  t.equal(dividesPair('\ud7ff', 1), false);
});
