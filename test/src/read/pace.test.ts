import t from 'tap';
import { ACCEPTING_MS, LONGEST_REST_MS, pacing, RESTS } from '../../../src/read/pace.ts';

/** Turns during which the thread is busy for as long as the test says. */
function paced() {
  const state = { now: 0, busy: 0, accepting: false };
  const rests: number[] = [];
  const begun = pacing({
    clock: {
      now: () => state.now,
      after(ms, callback) {
        rests.push(ms);
        callback();
        return () => {};
      },
    },
    busyMs: () => state.busy,
    isAccepting: () => state.accepting,
  });
  const turn = async (busy: number): Promise<number | undefined> => {
    const rest = begun();
    state.busy += busy;
    const resting = rest();
    await resting;
    return resting === undefined ? undefined : rests.at(-1);
  };
  return { state, turn };
}

t.test('a turn rests in proportion to the work of the thread while clients send', async (t) => {
  const { state, turn } = paced();
  t.equal(await turn(8), undefined, 'without clients that send, reads take the whole thread');
  state.accepting = true;
  t.equal(await turn(8), 8 * RESTS);
  t.equal(await turn(0.4), undefined, 'a store with threads of its own leaves this one idle');
  t.equal(await turn(LONGEST_REST_MS / RESTS), LONGEST_REST_MS);
  t.equal(await turn(LONGEST_REST_MS), LONGEST_REST_MS, 'a rest is bounded');
});

t.test('turns rest between the requests of a client that sends', async (t) => {
  const { state, turn } = paced();
  state.accepting = true;
  await turn(1);
  state.accepting = false;
  state.now += ACCEPTING_MS;
  t.equal(await turn(4), 4 * RESTS);
  state.now += 1;
  t.equal(await turn(4), undefined, 'the client sends no more');
});
