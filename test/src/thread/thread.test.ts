import { mock } from 'node:test';
import t from 'tap';
import { createThread, ThreadLost, threadFile } from '../../../src/thread/thread.ts';

const file = new URL('../../helper/echo-thread.ts', import.meta.url);

t.test('answers in order', async (t) => {
  const thread = createThread<unknown, unknown>(file);
  t.teardown(() => thread.close());
  t.same(await Promise.all([thread.ask(1), thread.ask({ two: 2 }), thread.ask('3')]), [
    1,
    { two: 2 },
    '3',
  ]);
});

t.test('ends an idle thread, and starts a new one for the next request', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  const thread = createThread<unknown, unknown>(file, 1000);
  t.teardown(() => thread.close());
  const first = await thread.ask('thread id');
  mock.timers.tick(999);
  t.equal(await thread.ask('thread id'), first, 'still the same thread');
  mock.timers.tick(1000);
  t.not(await thread.ask('thread id'), first);
});

t.test('rejects only the request that failed', async (t) => {
  const thread = createThread<unknown, unknown>(file);
  t.teardown(() => thread.close());
  const [failed, answered] = await Promise.allSettled([thread.ask('fail'), thread.ask(1)]);
  t.match(failed, { status: 'rejected', reason: { message: /as requested/ } });
  t.match(answered, { status: 'fulfilled', value: 1 });
});

t.test(
  'rejects pending requests of a thread that ends, and starts a new one for the next',
  async (t) => {
    const thread = createThread<unknown, unknown>(file);
    t.teardown(() => thread.close());
    await t.rejects(thread.ask('end'), ThreadLost);
    t.equal(await thread.ask('next'), 'next');
    const waiting = thread.ask('never');
    const [rejected] = await Promise.allSettled([waiting, thread.close()]);
    t.match(rejected, { status: 'rejected', reason: { name: 'ThreadLost' } });
  },
);

t.test('moves a large buffer instead of copying it', async (t) => {
  const thread = createThread<unknown, Uint8Array>(file);
  t.teardown(() => thread.close());
  const bytes = new Uint8Array(2_000_000).fill(7);
  const copy = await thread.ask(bytes, [bytes.buffer]);
  t.equal(bytes.length, 0);
  t.equal(copy.length, 2_000_000);
});

t.test('finds the module of a thread next to its user, as source or compiled', async (t) => {
  t.match(threadFile('file:///a/b.ts', 'c').href, 'file:///a/c.ts');
  t.match(threadFile('file:///a/b.js', 'c').href, 'file:///a/c.js');
});
