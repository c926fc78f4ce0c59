import t from 'tap';
import { startWatchdog } from '../../../receivers/bullmq/watchdog.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { workerParts } from '../../helper/worker-parts.ts';

const PROGRESS_MS = 60_000;
const DELIVERY_MS = 300_000;
const STALL_MS = 30_000;
/** The hang is looked for at this interval. */
const CHECK_MS = PROGRESS_MS / 6;

function rig() {
  const clock = fakeClock();
  const logger = recordingLogger();
  const parts = workerParts(clock, logger);
  const state = {
    ...{ running: 0, delivering: 0, backlog: 0 },
    ...{ isResting: false, isRedisAway: false, replaced: 0 },
  };
  const ended: string[] = [];
  const watchdog = startWatchdog({
    ...parts,
    ...{ stallTimeout: STALL_MS, progressTimeout: PROGRESS_MS, deliveryTimeout: DELIVERY_MS },
    concurrency: 2,
    redis: { onState: () => () => {} },
    jobs: {
      async waiting() {
        if (state.isRedisAway) throw new RetryableError('redis_failed', 'away');
        return state.backlog;
      },
    },
    running: () => state.running,
    delivering: () => state.delivering,
    isResting: () => state.isResting,
    replace: () => state.replaced++,
    processEnd: { end: (reason) => void ended.push(reason) },
  });
  const start = (): void => {
    state.running++;
    watchdog.started();
  };
  /** In steps, because a check of the backlog is asynchronous. */
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 1000) {
      clock.advance(Math.min(left, 1000));
      await new Promise(setImmediate);
    }
  };
  return { ...parts, clock, logger, state, ended, watchdog, start, pass };
}

t.test('ends the process at progress_timeout without progress, and names the waits', async (t) => {
  const { start, pass, ended, logger, waits } = rig();
  const work = Promise.withResolvers<void>();
  const wait = waits.within('take', 20_000, () => work.promise).catch(() => {});
  start();
  await pass(PROGRESS_MS - 1);
  t.same(ended, []);
  await pass(1);
  t.same(ended, ['stalled']);
  t.match(logger.lines.at(-1), {
    level: 'error',
    message: /ends with status 75/,
    fields: {
      ...{ jobs: 1, deliveries: 0, quietMs: PROGRESS_MS },
      waits: [{ wait: 'take', lastsMs: PROGRESS_MS, abandoned: true }],
    },
  });
  await pass(PROGRESS_MS);
  t.same(ended, ['stalled'], 'once');
  work.resolve();
  await wait;
});

t.test('needs no Redis to find a hang', async (t) => {
  const { state, start, pass, ended } = rig();
  state.isRedisAway = true;
  start();
  await pass(PROGRESS_MS);
  t.same(ended, ['stalled']);
});

t.test('counts the time from the last progress, not from the last job', async (t) => {
  const { start, pass, ended, progress } = rig();
  start();
  await pass(PROGRESS_MS - CHECK_MS);
  progress.made();
  start();
  await pass(PROGRESS_MS - CHECK_MS);
  t.same(ended, []);
  await pass(CHECK_MS);
  t.same(ended, ['stalled']);
});

t.test('is off while nothing is in flight', async (t) => {
  const { state, start, pass, ended } = rig();
  state.backlog = 5;
  await pass(2 * PROGRESS_MS);
  t.same(ended, []);
  start();
  await pass(PROGRESS_MS - 1);
  t.same(ended, [], 'the time begins with the job');
  await pass(1);
  t.same(ended, ['stalled']);
});

t.test('jobs that are abandoned and retried in turn are no progress', async (t) => {
  const { state, start, pass, ended, progress } = rig();
  for (let left = 0; left < 11; left++) {
    start();
    await pass(3000);
    progress.abandoned();
    state.running--;
    await pass(2000);
  }
  t.same(ended, []);
  start();
  await pass(5000);
  t.same(ended, ['stalled']);
});

t.test('deliveries that are abandoned and taken again are no progress', async (t) => {
  const { state, pass, ended, progress } = rig();
  progress.taken();
  state.delivering = 1;
  await pass(DELIVERY_MS - CHECK_MS);
  progress.abandoned();
  state.delivering = 0;
  await pass(CHECK_MS - 1000);
  progress.taken();
  state.delivering = 1;
  t.same(ended, []);
  await pass(1000);
  t.same(ended, ['stalled']);
});

t.test('is idle 10 s after an abandoned job that does not return', async (t) => {
  for (const [pauseMs, expected] of [
    [10_000, []],
    [9_000, ['stalled']],
  ] as const) {
    const { state, start, pass, ended, progress } = rig();
    start();
    await pass(PROGRESS_MS - CHECK_MS);
    progress.abandoned();
    state.running--;
    await pass(pauseMs);
    start();
    await pass(CHECK_MS);
    t.same(ended, expected);
  }
});

t.test('is off while every exporter rests', async (t) => {
  const { state, start, pass, ended } = rig();
  start();
  state.isResting = true;
  await pass(2 * PROGRESS_MS);
  t.same(ended, []);
  state.isResting = false;
  await pass(PROGRESS_MS);
  t.same(ended, ['stalled']);
});

t.test('gives a delivery delivery_timeout', async (t) => {
  const { state, start, pass, ended } = rig();
  start();
  state.delivering = 1;
  await pass(DELIVERY_MS - 1);
  t.same(ended, []);
  await pass(1);
  t.same(ended, ['stalled']);
});

t.test('notices a delivery without a job', async (t) => {
  const { state, pass, ended } = rig();
  state.delivering = 1;
  await pass(DELIVERY_MS);
  t.same(ended, ['stalled']);
});

t.test('replaces a worker that starts no job at stall_timeout, although others run', async (t) => {
  const { state, start, pass } = rig();
  start();
  state.backlog = 1;
  await pass(STALL_MS - 1);
  t.equal(state.replaced, 0);
  await pass(1);
  t.equal(state.replaced, 1);
});

t.test('keeps a worker that has no room for waiting jobs', async (t) => {
  const { state, start, pass } = rig();
  start();
  start();
  state.backlog = 1;
  await pass(PROGRESS_MS - 1);
  t.equal(state.replaced, 0);
});

t.test('a stopped watchdog does nothing', async (t) => {
  const { start, pass, ended, watchdog, clock } = rig();
  start();
  watchdog.stop();
  await pass(PROGRESS_MS);
  t.same(ended, []);
  t.equal(clock.pending(), 0);
});
