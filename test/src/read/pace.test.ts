import t from 'tap';
import { ACCEPTING_MS, LONGEST_REST_MS, pacing, RESTS } from '../../../src/read/pace.ts';

/** Turns that take as long as the test says, and rests that end at once unless `endsRests` is false. */
function paced(endsRests = true) {
  const state = { now: 0, accepting: false, cancelled: 0 };
  const rests: number[] = [];
  const pace = pacing({
    clock: {
      now: () => state.now,
      uptime: () => state.now,
      after(ms, callback) {
        rests.push(ms);
        if (endsRests) queueMicrotask(callback);
        return () => void state.cancelled++;
      },
    },
    isAccepting: () => state.accepting,
  });
  const turn = async (ms: number): Promise<number | undefined> => {
    const rest = pace.begun();
    state.now += ms;
    const resting = rest();
    await resting;
    return resting === undefined ? undefined : rests.at(-1);
  };
  return { state, turn, pace };
}

t.test('a turn rests in proportion to its length while clients send', async (t) => {
  const { state, turn } = paced();
  t.equal(await turn(8), undefined, 'without clients that send, reads do not rest');
  state.accepting = true;
  t.equal(await turn(8), 8 * RESTS);
  t.equal(await turn(0), undefined);
  t.equal(await turn(LONGEST_REST_MS / RESTS), LONGEST_REST_MS);
  t.equal(await turn(LONGEST_REST_MS), LONGEST_REST_MS, 'a rest is bounded');
  t.equal(await turn(-5), undefined, 'a clock that was set back makes no rest');
});

t.test('turns rest between the requests of a client that sends', async (t) => {
  const { state, turn } = paced();
  state.accepting = true;
  await turn(1);
  state.accepting = false;
  t.equal(await turn(ACCEPTING_MS), LONGEST_REST_MS);
  t.equal(await turn(1), undefined, 'the client sends no more');
  state.accepting = true;
  await turn(1);
  state.accepting = false;
  state.now -= 86_400_000;
  t.equal(await turn(1), undefined, 'the clock was set back');
});

t.test('closing ends the rests, and cancels their timers', async (t) => {
  const { state, turn, pace } = paced(false);
  state.accepting = true;
  const turns = [turn(1), turn(2)];
  pace.close();
  t.same(await Promise.all(turns), [2 * RESTS, 2 * RESTS]);
  t.equal(state.cancelled, 2);
});
