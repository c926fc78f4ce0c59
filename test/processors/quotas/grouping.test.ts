import t from 'tap';
import { callsByName } from '../../../processors/quotas/grouping.ts';

/** Groups of at most 3 calls, each of which a test ends. */
function grouping() {
  const groups: { name: string; calls: readonly number[]; end: (error?: Error) => void }[] = [];
  const call = callsByName<number, string>(3, async (name, calls) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const end = (error?: Error) => (error === undefined ? resolve() : reject(error));
    groups.push({ name, calls, end });
    await promise;
    return calls.map((each) => `${name} ${each}`);
  });
  const at = (index: number) => {
    const group = groups[index];
    if (group === undefined) throw new Error(`there is no group ${index}`);
    return group;
  };
  return { call, groups, at };
}

const turn = () => new Promise(setImmediate);

t.test('calls of one turn share a group, by name and up to the maximum', async (t) => {
  const { call, groups, at } = grouping();
  const results = Promise.all([1, 2, 3, 4].map((each) => call('a', each)));
  const other = call('b', 5);
  await turn();
  t.match(groups, [
    { name: 'a', calls: [1, 2, 3] },
    { name: 'b', calls: [5] },
  ]);
  at(0).end();
  at(1).end();
  t.equal(await other, 'b 5');
  await turn();
  t.same(at(2).calls, [4]);
  at(2).end();
  t.same(await results, ['a 1', 'a 2', 'a 3', 'a 4']);
});

t.test('calls that arrive while a group is in flight form the next one', async (t) => {
  const { call, at } = grouping();
  const first = call('a', 1);
  await turn();
  const later = [call('a', 2), call('a', 3)];
  at(0).end();
  await first;
  await turn();
  t.same(at(1).calls, [2, 3]);
  at(1).end();
  t.same(await Promise.all(later), ['a 2', 'a 3']);
});

t.test('a group that fails fails the calls behind it, and no later one', async (t) => {
  const { call, at, groups } = grouping();
  const failed = Promise.allSettled([call('a', 1), turn().then(() => call('a', 2))]);
  await turn();
  await turn();
  t.equal(groups.length, 1);
  at(0).end(new Error('it is away'));
  for (const result of await failed) t.match(result, { reason: { message: 'it is away' } });
  const next = call('a', 3);
  await turn();
  at(1).end();
  t.equal(await next, 'a 3');
});
