import t from 'tap';
import { repeatsOf } from '../../../src/http/repeats.ts';

t.test('remembers a bounded number of requests in a window', async (t) => {
  const repeats = repeatsOf({ enabled: true, window: 1000, max_entries: 7 });
  const admitted = (project: string, now: number) => {
    let count = 0;
    while (repeats?.admit(project, now) === true) count++;
    return count;
  };
  t.equal(admitted('a', 0), 4, 'as many as are left for others, and one');
  t.equal(admitted('b', 0), 2);
  t.equal(admitted('c', 0), 1);
  t.equal(admitted('d', 999), 0, 'none is left');
  t.equal(admitted('b', 1000), 4, 'in the next window');
  t.equal(admitted('b', 0), 4, 'also after the clock was set back');
});

t.test('remembers the only request of a bound of 1, and none if disabled', async (t) => {
  const one = repeatsOf({ enabled: true, window: 1000, max_entries: 1 });
  t.same([one?.admit('a', 0), one?.admit('b', 0)], [true, false]);
  t.equal(repeatsOf({ enabled: false, window: 1000, max_entries: 1 }), undefined);
});
