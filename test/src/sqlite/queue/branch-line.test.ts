import t from 'tap';
import { BranchLine } from '../../../../src/sqlite/queue/branch-line.ts';
import { fakeClock } from '../../../helper/clock.ts';

t.test('an entry that was removed while it was leased does not come back', async (t) => {
  for (const delay of [0, 1000]) {
    const clock = fakeClock();
    const start = { branch: 'a', number: 1, entries: 0, items: 0, lastSeq: 0 };
    const line = new BranchLine(start, clock);
    line.append({ seq: 1, project: 'p', items: 3, bytes: 10, receivedAt: 0, attempts: 0 });
    const entry = line.take();
    if (entry === undefined) throw new Error('the line has no entry');
    line.remove(1, 3);
    line.release(entry, clock.now() + delay);
    clock.advance(delay);
    t.equal(line.take(), undefined, `released for ${delay} ms`);
    t.equal(line.entries, 0);
    t.equal(clock.pending(), 0);
  }
});
