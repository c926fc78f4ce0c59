import type { Test } from 'tap';
import t from 'tap';
import { summarizing } from '../../../extensions/sqlite/traces/summarizing.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

type Call = Parameters<typeof summarizing>[0];

/** Summarizes a trace whose summary costs `spentMs` of work in each round. */
function rig(t: Test, spentMs: number) {
  const clock = fakeClock();
  let isStale = true;
  let rounds = 0;
  const search = (async (name: string) => {
    if (name === 'traces.nextStale') {
      const n = isStale ? 1 : null;
      if (isStale) rounds++;
      isStale = false;
      return n;
    }
    // Another search had the thread for a minute.
    clock.set(clock.now() + 60_000);
    const trace = { terms: { unindexed: 0 } };
    return { trace, changes: 1, project: 'p', traceId: 't', spentMs };
  }) as Call['search'];
  const write = (async () => {}) as Call['write'];
  const made = summarizing(
    { search, write },
    { leftOut() {} },
    { wake() {} },
    { publish() {} },
    clock,
    recordingLogger(),
  );
  t.teardown(() => made.close());
  return {
    rounds: () => rounds,
    async pass(ms: number): Promise<void> {
      clock.advance(ms);
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
    },
    write(): void {
      isStale = true;
      made.wake();
    },
  };
}

t.test(
  'the rest before a round follows the work of the last one, and not how long it waited',
  async (t) => {
    const { rounds, pass, write } = rig(t, 40);
    await pass(0);
    // The end of the round is a step of its own, after the pause between steps.
    await pass(5);
    t.equal(rounds(), 1);

    write();
    await pass(799);
    t.equal(rounds(), 1, 'it rests 20 times the work of 40 ms');
    await pass(1);
    t.equal(rounds(), 2);
  },
);

t.test('rests for a minute at most, however many traces a round had', async (t) => {
  const { rounds, pass, write } = rig(t, 3_600_000);
  await pass(0);
  await pass(5);
  write();
  await pass(59_999);
  t.equal(rounds(), 1);
  await pass(1);
  t.equal(rounds(), 2);
});
