import t from 'tap';
import { killLoop } from './kill.ts';

t.setTimeout(120_000);

t.test('three kills under load lose no acknowledged item and store none twice', async (t) => {
  const summary = await killLoop(3, (text) => t.comment(text));
  t.equal(summary.problems.slice(0, 10).join('\n'), '');
  t.ok(summary.acknowledged > 0, 'something was acknowledged');
});
