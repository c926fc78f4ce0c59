import t from 'tap';
import { createThread, ThreadLost, threadFile } from '../../../src/thread/thread.ts';

const file = new URL('../../helper/echo-thread.ts', import.meta.url);

t.test('a thread answers in order, and starts anew after it has rested', async (t) => {
  const thread = createThread<unknown, unknown>(file, 1);
  t.teardown(() => thread.close());
  t.same(await Promise.all([thread.ask(1), thread.ask({ two: 2 }), thread.ask('3')]), [
    1,
    { two: 2 },
    '3',
  ]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  t.equal(await thread.ask('again'), 'again');
});

t.test('a failure is that of its request alone', async (t) => {
  const thread = createThread<unknown, unknown>(file);
  t.teardown(() => thread.close());
  const [failed, answered] = await Promise.allSettled([thread.ask('fail'), thread.ask(1)]);
  t.match(failed, { status: 'rejected', reason: { message: /as told/ } });
  t.match(answered, { status: 'fulfilled', value: 1 });
});

t.test('who waits for a thread that ends is told, and the next one gets a new one', async (t) => {
  const thread = createThread<unknown, unknown>(file);
  t.teardown(() => thread.close());
  await t.rejects(thread.ask('end'), ThreadLost);
  t.equal(await thread.ask('next'), 'next');
  const waiting = thread.ask('never');
  const [rejected] = await Promise.allSettled([waiting, thread.close()]);
  t.match(rejected, { status: 'rejected', reason: { name: 'ThreadLost' } });
});

t.test('a large buffer is handed over, not copied', async (t) => {
  const thread = createThread<unknown, Uint8Array>(file);
  t.teardown(() => thread.close());
  const bytes = new Uint8Array(2_000_000).fill(7);
  const copy = await thread.ask(bytes, [bytes.buffer]);
  t.equal(bytes.length, 0);
  t.equal(copy.length, 2_000_000);
});

t.test('a file of the thread stands beside its user, source or compiled', async (t) => {
  t.match(threadFile('file:///a/b.ts', 'c').href, 'file:///a/c.ts');
  t.match(threadFile('file:///a/b.js', 'c').href, 'file:///a/c.js');
});
