import fc from 'fast-check';
import t from 'tap';
import { fairTurns } from '../../../src/component/fair-turns.ts';
import { NO_DEADLINE } from '../../helper/http.ts';
import { until } from '../../helper/until.ts';

/** Turns whose work ends when the test says so. */
function held(places: number) {
  const turns = fairTurns(places);
  const started: string[] = [];
  const finish = new Map<string, () => void>();
  const take = (name: string, signal: AbortSignal = NO_DEADLINE): Promise<string> =>
    turns.take(name.split(' ')[0] ?? '', signal, () => {
      started.push(name);
      return new Promise((resolve) => finish.set(name, () => resolve(name)));
    });
  const end = async (name: string): Promise<void> => {
    await until(() => finish.has(name));
    finish.get(name)?.();
  };
  return { turns, started, take, end };
}

t.test('projects take turns, whatever number of reads each has', async (t) => {
  const { turns, started, take, end } = held(1);
  const names = ['a 1', 'a 2', 'a 3', 'a 4', 'b 1', 'c 1', 'b 2'];
  const taken = names.map((name) => take(name));
  t.equal(turns.waiting, 6);
  const order = ['a 1', 'a 2', 'b 1', 'c 1', 'a 3', 'b 2', 'a 4'];
  for (const name of order) await end(name);
  t.same(await Promise.all(taken), names);
  t.same(started, order);
  t.same([turns.running, turns.waiting], [0, 0]);
});

t.test(
  'the place of a turn stays taken until its rest has ended, and its result does not wait',
  async (t) => {
    const { promise: rested, resolve: rest } = Promise.withResolvers<void>();
    const turns = fairTurns(1, () => () => rested);
    t.equal(await turns.take('a', NO_DEADLINE, async () => 'first'), 'first');
    const failed = turns.take('b', NO_DEADLINE, async () => {
      throw new Error('the statement failed');
    });
    t.same([turns.running, turns.waiting], [1, 1]);
    rest();
    await t.rejects(failed, { message: 'the statement failed' });
    await until(() => turns.running === 0);
  },
);

t.test('a project takes all places but one', async (t) => {
  const { turns, started, take, end } = held(3);
  const taken = ['a 1', 'a 2', 'a 3', 'b 1', 'b 2'].map((name) => take(name));
  t.same(started, ['a 1', 'a 2', 'b 1']);
  await end('a 1');
  await until(() => started.length === 4);
  t.equal(started[3], 'a 3');
  for (const name of ['a 2', 'b 1', 'a 3', 'b 2']) await end(name);
  await Promise.all(taken);
  t.equal(turns.running, 0);
});

t.test('an aborted read gives up its wait, and never runs', async (t) => {
  const { turns, started, take, end } = held(1);
  const first = take('a 1');
  const abort = new AbortController();
  const gone = take('a 2', abort.signal);
  const last = take('a 3');
  abort.abort();
  await t.rejects(gone, { name: 'AbortError' });
  await t.rejects(take('b 1', abort.signal), { name: 'AbortError' });
  await end('a 1');
  await end('a 3');
  await Promise.all([first, last]);
  t.same(started, ['a 1', 'a 3']);
  t.equal(turns.waiting, 0);
});

t.test('work that fails gives its turn back', async (t) => {
  const turns = fairTurns(1);
  const failing = turns.take('a', NO_DEADLINE, () => Promise.reject(new Error('no')));
  await t.rejects(failing, { message: 'no' });
  t.equal(await turns.take('a', NO_DEADLINE, async () => 1), 1);
});

t.test('every read runs once, never more at once than there are places', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 40 }),
      async (places, projects) => {
        const turns = fairTurns(places);
        let running = 0;
        let most = 0;
        const done = await Promise.all(
          projects.map((project, i) =>
            turns.take(project, NO_DEADLINE, async () => {
              most = Math.max(most, ++running);
              await new Promise(setImmediate);
              running--;
              return i;
            }),
          ),
        );
        t.ok(most <= places);
        t.same(
          done,
          projects.map((_, i) => i),
        );
        t.same([turns.running, turns.waiting], [0, 0]);
      },
    ),
    { numRuns: 50 },
  );
});
