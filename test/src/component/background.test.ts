import t from 'tap';
import type { Steps } from '../../../src/component/background.ts';
import { Background, inSteps } from '../../../src/component/background.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

/** Work that reads its list first, and does one item a step. */
function listed(items: string[]) {
  const done: string[] = [];
  async function* work(): Steps {
    for (const item of items.splice(0)) {
      done.push(item);
      yield;
    }
  }
  return { done, step: inSteps(work) };
}

function background(step: () => Promise<boolean>) {
  const clock = fakeClock();
  const made = new Background({
    ...{ step, betweenMs: 5, clock, logger: recordingLogger(), failure: 'failed' },
  });
  /** Lets as much time pass as the work needs. */
  const pass = async (steps: number): Promise<void> => {
    for (let i = 0; i < steps; i++) {
      clock.advance(5);
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    }
  };
  return { made, pass };
}

t.test('a wake between two steps is followed by another round', async (t) => {
  const items = ['a', 'b'];
  const { done, step } = listed(items);
  const { made, pass } = background(step);
  t.teardown(() => made.close());
  made.wake();
  await pass(1);
  t.same(done, ['a']);
  items.push('c');
  made.wake();
  await pass(9);
  t.same(done, ['a', 'b', 'c']);
});

t.test('a wake during a step is followed by another round', async (t) => {
  const items = ['a'];
  const { done, step } = listed(items);
  const { made, pass } = background(async () => {
    const hasMore = await step();
    if (done.length === 1 && hasMore) {
      items.push('b');
      made.wake();
    }
    return hasMore;
  });
  t.teardown(() => made.close());
  made.wake();
  await pass(9);
  t.same(done, ['a', 'b']);
});

t.test('without a wake a round is the last one', async (t) => {
  let steps = 0;
  const { made, pass } = background(async () => ++steps % 3 !== 0);
  t.teardown(() => made.close());
  made.wake();
  await pass(9);
  t.equal(steps, 3);
  made.wake();
  await made.finish();
  t.equal(steps, 6);
});
