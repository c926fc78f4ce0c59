import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { StallWatch } from '../../../src/sqlite/stall-watch.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger } from '../../helper/settings.ts';

function watching() {
  const clock = fakeClock();
  const disk: { completed: number | undefined } = { completed: 7 };
  const watch = new StallWatch({
    ...{ file: 'test.db', clock, logger: recordingLogger() },
    completedWrites: () => disk.completed,
  });
  const seconds = async (count: number, writes: number) => {
    for (let i = 0; i < count; i++) {
      if (disk.completed !== undefined) disk.completed += writes;
      clock.advance(1000);
      await setImmediate();
    }
  };
  return { watch, disk, seconds };
}

t.test('a disk that completes writes is slow, and not away, for a minute', async (t) => {
  const { watch, seconds } = watching();
  watch.sent();
  await seconds(60, 3);
  t.equal(watch.trouble, undefined);
  await seconds(1, 3);
  t.equal(watch.trouble, 'A write to the files has not ended for 60 s.');
  watch.answered();
  t.equal(watch.trouble, undefined);
});

t.test('a disk is away when it completes no write for 10 s', async (t) => {
  const { watch, seconds } = watching();
  watch.sent();
  await seconds(15, 3);
  await seconds(10, 0);
  t.equal(watch.trouble, undefined);
  await seconds(1, 0);
  t.match(watch.shortage(), { code: 'storage_failed' });
});

t.test(
  'a write that does not end is enough where the disk does not count its writes',
  async (t) => {
    const { watch, disk, seconds } = watching();
    disk.completed = undefined;
    watch.sent();
    await seconds(10, 0);
    t.equal(watch.trouble, undefined);
    await seconds(1, 0);
    t.equal(watch.trouble, 'A write to the files has not ended for 10 s.');
  },
);
