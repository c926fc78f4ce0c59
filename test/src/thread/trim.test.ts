import { readFileSync } from 'node:fs';
import t from 'tap';
import { collectGarbage } from '../../../src/thread/idle-memory.ts';
import {
  FIRST_LOOK_MS,
  GROWTH,
  LOAD_MICROS,
  LOOK_MS,
  LOOKS_AFTER_LOAD,
  MOST_PASSED,
  SHORT_PAUSE_HEAP,
  startTrimming,
  trimProcess,
  WORTH_IT,
} from '../../../src/thread/trim.ts';
import { fakeClock } from '../../helper/clock.ts';

const START = 100 * 1_048_576;

/** A process whose unexplained memory the test sets, with trims that return `returned` bytes. */
function trimming() {
  const clock = fakeClock();
  const state = {
    resident: START,
    returned: WORTH_IT,
    trims: 0,
    collections: 0,
    fails: false,
    cpu: 0,
    load: 1_000,
    heapUsed: SHORT_PAUSE_HEAP,
    afterCollection: Number.POSITIVE_INFINITY,
    keepsCode: false,
  };
  const end = startTrimming({
    after: clock.after,
    unexplained: () => state.resident,
    cpuMicros: () => state.cpu,
    heapUsed: () => state.heapUsed,
    collect() {
      state.collections++;
      state.resident = Math.min(state.resident, state.afterCollection);
    },
    keepsCode: () => state.keepsCode,
    async trim() {
      state.trims++;
      if (state.fails) throw new Error('the C library has no malloc_trim');
      state.resident -= state.returned;
    },
  });
  /** Passes the time of some looks, each with its trim. */
  async function pass(looks: number): Promise<void> {
    for (let n = 0; n < looks; n++) {
      state.cpu += state.load;
      clock.advance(LOOK_MS);
      await new Promise(setImmediate);
    }
  }
  return { clock, state, end, pass, start: () => clock.advance(FIRST_LOOK_MS - LOOK_MS) };
}

t.test('a process is trimmed after its start, and when it has grown', async (t) => {
  const { clock, state, end, pass } = trimming();
  clock.advance(FIRST_LOOK_MS - 1);
  t.equal(state.trims, 0);
  clock.advance(1);
  await pass(3);
  t.equal(state.collections, 1);
  t.equal(state.trims, 1, 'memory that does not grow is not trimmed again');
  const low = state.resident;
  t.equal(low, START - WORTH_IT);

  state.resident = low + GROWTH - 1;
  await pass(2);
  t.equal(state.trims, 1);
  state.resident = low + GROWTH;
  await pass(1);
  t.equal(state.trims, 2);
  end();
  state.resident = 10 * START;
  await pass(2);
  t.equal(state.trims, 2);
  t.equal(clock.pending(), 0);
});

t.test('trims that return little become rare', async (t) => {
  const { state, end, pass, start } = trimming();
  t.teardown(end);
  start();
  state.returned = WORTH_IT - 1;
  const pauses: number[] = [];
  for (let n = 0; n < 9; n++) {
    const before = state.trims;
    let looks = 0;
    for (; state.trims === before; looks++) {
      state.resident += GROWTH;
      await pass(1);
    }
    pauses.push(looks - 1);
  }
  t.same(pauses, [0, 1, 3, 7, 15, 31, MOST_PASSED, MOST_PASSED, MOST_PASSED]);
  state.returned = WORTH_IT;
  state.resident += 2 * GROWTH;
  await pass(MOST_PASSED + 1);
  const before = state.trims;
  state.resident += 2 * GROWTH;
  await pass(1);
  t.equal(state.trims, before + 1, 'a trim that is worth it ends the pauses');
});

t.test('a load that falls to half is followed by a trim', async (t) => {
  const { state, end, pass, start } = trimming();
  t.teardown(end);
  state.load = LOAD_MICROS;
  start();
  await pass(1);
  state.returned = 0;
  for (let n = 0; n < 40; n++) {
    state.resident += GROWTH;
    await pass(1);
  }
  const before = state.trims;
  state.load = LOAD_MICROS / 2 + 1;
  await pass(4);
  t.equal(state.trims, before, 'a little less load is no reason');
  state.load = LOAD_MICROS / 2;
  await pass(1);
  t.equal(state.trims, before + 1, 'what the last trim found in use may be free now');
  state.load = 0;
  await pass(LOOKS_AFTER_LOAD - 1);
  t.equal(state.trims, before + 1, 'so little work is no load');
  await pass(1);
  t.equal(state.trims, before + 2, 'threads that worked have ended');
  await pass(4);
  t.equal(state.trims, before + 2);
});

t.test(
  'a load that falls to half is followed by a collection, unless the heap is large or its code is worth more',
  async (t) => {
    for (const [heapUsed, keepsCode, collections] of [
      [SHORT_PAUSE_HEAP, false, 1],
      [SHORT_PAUSE_HEAP + 1, false, 0],
      [SHORT_PAUSE_HEAP, true, 0],
    ] as const) {
      const { state, end, pass, start } = trimming();
      state.load = LOAD_MICROS;
      Object.assign(state, { heapUsed, keepsCode });
      start();
      await pass(4);
      t.equal(state.collections, 0, 'a process with a load is not collected');
      state.load = LOAD_MICROS / 2;
      await pass(1);
      t.equal(state.collections, collections);
      await pass(4);
      t.equal(state.collections, collections, 'a load ends once');
      end();
    }
  },
);

t.test('the first look collects what the start left, unless there is a load', async (t) => {
  for (const [load, collections] of [
    [LOAD_MICROS - 1, 1],
    [LOAD_MICROS, 0],
  ] as const) {
    const { state, end, pass, start } = trimming();
    state.cpu = 10 * LOAD_MICROS;
    state.load = load;
    start();
    await pass(1);
    t.equal(state.collections, collections);
    t.equal(state.trims, 1);
    end();
  }
});

t.test('a collection at the end of a load comes before its trim', async (t) => {
  const { state, end, pass, start } = trimming();
  t.teardown(end);
  state.load = LOAD_MICROS;
  start();
  await pass(1);
  const { trims } = state;
  // Without the trim's own threshold there is nothing to return.
  state.afterCollection = GROWTH - 1;
  state.load = 0;
  await pass(1);
  t.equal(state.trims, trims, 'the trim looks at what the collection left');
  const { collections } = state;
  await pass(2);
  t.equal(state.collections, collections, 'a load ends once, also without a trim');
});

t.test('a process without load is trimmed only when it grows', async (t) => {
  const { state, end, pass, start } = trimming();
  t.teardown(end);
  state.load = LOAD_MICROS - 1;
  start();
  await pass(1);
  state.load = 0;
  await pass(4);
  t.equal(state.trims, 1);
});

t.test('a process that cannot be trimmed is left alone', async (t) => {
  const { clock, state, pass, start } = trimming();
  start();
  state.fails = true;
  await pass(3);
  t.equal(state.trims, 1);
  t.equal(clock.pending(), 0);
});

t.test('returns the memory between blocks in use', async (t) => {
  if (!hasGlibc()) {
    await t.rejects(trimProcess(), 'other C libraries have no such function');
    return;
  }
  // A trim does not keep a process alive.
  const alive = setInterval(() => {}, 1_000);
  t.teardown(() => clearInterval(alive));
  const kept: Buffer[] = [];
  let freed: Buffer[] = [];
  for (let n = 0; n < 2_000; n++) {
    freed.push(Buffer.allocUnsafeSlow(40_000).fill(1));
    kept.push(Buffer.allocUnsafeSlow(9_000).fill(1));
  }
  const before = process.memoryUsage.rss();
  freed = [];
  for (let n = 0; n < 20 && before - process.memoryUsage.rss() < 40_000_000; n++) {
    collectGarbage();
    await trimProcess();
  }
  t.ok(before - process.memoryUsage.rss() >= 40_000_000, 'half of the freed 80 MB is returned');
  t.equal(kept.length, 2_000);
});

function hasGlibc(): boolean {
  return readFileSync('/proc/self/maps', 'utf8').includes('/libc.so.6');
}
