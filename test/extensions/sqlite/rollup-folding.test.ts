import t from 'tap';
import { foldWaiting } from '../../../extensions/sqlite/traces/rollup-folding.ts';

type Database = Parameters<typeof foldWaiting>[0];

/** A project with deltas, of which each step adds one. Every step is followed by another write. */
function written(first: number, newest: number) {
  const waiting = { first, newest };
  const folded: number[] = [];
  const search = (async () => ({
    ...{ project: 'p', changes: '[]', rest: null },
    ...{ from: waiting.first, upTo: waiting.first, newest: waiting.newest },
  })) as unknown as Database['search'];
  const write = (async () => {
    folded.push(waiting.first++);
    waiting.newest++;
  }) as Database['write'];
  return { database: { search, write }, folded };
}

t.test('adds what waits now, and leaves later changes to the background', async (t) => {
  const { database, folded } = written(-1, 2);
  for await (const _ of foldWaiting(database, 'p'));
  t.same(folded, [-1, 0, 1, 2]);
});

t.test('ends without changes', async (t) => {
  const search = (async () => null) as unknown as Database['search'];
  const write = (async () => t.fail('nothing to add')) as Database['write'];
  for await (const _ of foldWaiting({ search, write }, 'p'));
});
