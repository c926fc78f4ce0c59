import { EventEmitter } from 'node:events';
import t from 'tap';
import { watchState } from '../../../extensions/redis/state-watch.ts';
import type { RedisClient } from '../../../src/redis/redis.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

/** A watch over a client that a test answers for. */
function watching() {
  const clock = fakeClock();
  const answers: PromiseWithResolvers<string>[] = [];
  const info = (): Promise<string> => {
    const answer = Promise.withResolvers<string>();
    answers.push(answer);
    return answer.promise;
  };
  const client = Object.assign(new EventEmitter(), { status: 'ready', info });
  const parts = { clock, logger: recordingLogger(), address: undefined };
  return { clock, answers, watch: watchState(client as unknown as RedisClient, parts) };
}

/** Lets a check ask, or read its answer. */
const soon = () => new Promise(setImmediate);

function refusal(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

t.test('the refusal of a command counts for 5 s after the last one', async (t) => {
  const { clock, watch } = watching();
  watch.failed(refusal('OOM command not allowed'));
  clock.advance(3_000);
  watch.failed(refusal('OOM command not allowed'));
  clock.advance(5_000);
  t.equal(watch.state().refuses, 'Redis is full.');
  clock.advance(1);
  t.equal(watch.state().refuses, undefined);
});

t.test('checks every 30 s, and every 2 s while Redis does not answer', async (t) => {
  const { clock, answers, watch } = watching();
  const checked = watch.check();
  await soon();
  answers.at(-1)?.resolve('aof_enabled:1\r\nmaxmemory_policy:noeviction\r\n');
  await checked;
  t.match(watch.state(), {
    ...{ connected: true, appendOnly: true, maxmemoryPolicy: 'noeviction' },
  });
  clock.advance(29_999);
  await soon();
  t.equal(answers.length, 1);
  clock.advance(1);
  await soon();
  t.equal(answers.length, 2);
  answers.at(-1)?.reject(new Error('time-out'));
  await soon();
  t.equal(watch.state().connected, false);
  clock.advance(1_999);
  await soon();
  t.equal(answers.length, 2);
  clock.advance(1);
  await soon();
  t.equal(answers.length, 3);
});

t.test('a watch that stops during a check checks no more', async (t) => {
  const { clock, answers, watch } = watching();
  const checked = watch.check();
  await soon();
  watch.stop();
  answers.at(-1)?.resolve('');
  await checked;
  t.equal(clock.pending(), 0);
});
