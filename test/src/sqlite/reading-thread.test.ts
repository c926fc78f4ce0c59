import t from 'tap';
import { ReadingThread } from '../../../src/sqlite/reading-thread.ts';
import type { ThreadClient } from '../../../src/sqlite/thread-client.ts';
import { fakeClock } from '../../helper/clock.ts';

const IDLE_MS = 15_000;

/** Reading threads whose calls end when the test says so. */
function reading() {
  const clock = fakeClock();
  const seen = { started: 0, closed: 0, killed: 0 };
  const waiting: (() => void)[] = [];
  const start = async (): Promise<ThreadClient> => {
    seen.started++;
    return {
      call: ([name]) => new Promise((resolve) => waiting.push(() => resolve(name))),
      isEnded: false,
      opening: {
        ...{ corrupt: undefined, migrated: undefined, mended: undefined, log: undefined },
        reserveUsed: false,
      },
      async close() {
        seen.closed++;
      },
      async kill() {
        seen.killed++;
      },
    };
  };
  const answer = async () => {
    await new Promise(setImmediate);
    for (const each of waiting.splice(0)) each();
  };
  return { clock, seen, answer, start, thread: new ReadingThread(start, clock, IDLE_MS) };
}

t.test('a thread starts with the first call and serves the later ones', async (t) => {
  const { thread, seen, answer } = reading();
  t.equal(seen.started, 0);
  const calls = [thread.call(['a']), thread.call(['b'])];
  await answer();
  t.same(await Promise.all(calls), ['a', 'b']);
  t.equal(seen.started, 1);
});

t.test(
  'a thread without a call for a whole interval ends; the next call starts another',
  async (t) => {
    const { thread, seen, answer, clock } = reading();
    const first = thread.call(['a']);
    await answer();
    await first;
    clock.advance(IDLE_MS);
    await answer();
    t.equal(seen.closed, 0, 'the call was in this interval');
    clock.advance(IDLE_MS - 1);
    await answer();
    t.equal(seen.closed, 0);
    clock.advance(1);
    await answer();
    t.equal(seen.closed, 1);
    const next = thread.call(['b']);
    await answer();
    t.equal(await next, 'b');
    t.equal(seen.started, 2);
  },
);

t.test('a thread with a call in progress does not end', async (t) => {
  const { thread, seen, answer, clock } = reading();
  const call = thread.call(['a']);
  await new Promise(setImmediate);
  clock.advance(10 * IDLE_MS);
  t.equal(seen.closed, 0);
  await answer();
  t.equal(await call, 'a');
});

t.test('closing and killing end the thread once, and one that ends already', async (t) => {
  const { thread, seen, clock } = reading();
  await thread.start();
  clock.advance(2 * IDLE_MS);
  await thread.close();
  await thread.close();
  t.match(seen, { started: 1, closed: 1 });
  const other = reading();
  await other.thread.start();
  await other.thread.kill();
  await other.thread.kill();
  t.match(other.seen, { closed: 0, killed: 1 });
  await new ReadingThread(other.start, clock, IDLE_MS).close();
  t.equal(other.seen.started, 1, 'no thread starts in order to end');
});

t.test('a call whose thread cannot start is rejected, and the next one tries again', async (t) => {
  const { clock, start, answer } = reading();
  let attempts = 0;
  const thread = new ReadingThread(
    async () => {
      if (++attempts === 1) throw new Error('no memory');
      return start();
    },
    clock,
    IDLE_MS,
  );
  await t.rejects(thread.call(['a']), { message: 'no memory' });
  const next = thread.call(['b']);
  await answer();
  t.equal(await next, 'b');
  await thread.close();
});
