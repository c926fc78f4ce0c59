import t from 'tap';
import { ClockWatch } from '../../../extensions/sqlite/clock-watch.ts';
import type { SqliteHousekeepingParts } from '../../../extensions/sqlite/housekeeping.ts';
import { sqliteHousekeeping } from '../../../extensions/sqlite/housekeeping.ts';
import { RetryableError } from '../../../src/model/errors.ts';
import { removalCounters } from '../../../src/store/removals.ts';
import { fakeClock } from '../../helper/clock.ts';
import { recordingLogger, recordingMetrics } from '../../helper/settings.ts';

t.test('a round ends well if the log and the time can only be written later', async (t) => {
  const clock = fakeClock();
  const none = { found: [], next: null };
  const answers: Readonly<Record<string, unknown>> = {
    ...{ 'removal.open': [], 'purge.projects': [], 'purge.due': [], 'purge.orphans': none },
    ...{ 'attachments.goneRefs': none, 'attachments.free': none },
    'purge.others': { updates: [], rejections: [] },
    'purge.traces': { traces: 1, observations: 1, hasMore: false },
    'purge.batches': { removed: [], dead: [], hasMore: false },
  };
  const answer = async (name: string) => answers[name] ?? false;
  let failure: Error | undefined = new RetryableError('disk_full', 'database or disk is full');
  let removals = 0;
  let isTimeRefused = true;
  let times = 0;
  const database = {
    ...{ read: answer, search: answer },
    async write(name: string) {
      if (name !== 'purge.keepTime') return answer(name);
      if (isTimeRefused) throw new RetryableError('disk_full', 'database or disk is full');
      times++;
      return undefined;
    },
    async truncateLog() {
      if (failure !== undefined) throw failure;
      removals++;
      return true;
    },
  };
  const keeper = sqliteHousekeeping({
    ...{ database, clock, logger: recordingLogger(), rejectionsMaxAge: 1 },
    clockWatch: new ClockWatch(clock, recordingLogger(), undefined),
    removed: removalCounters(recordingMetrics()),
  } as unknown as SqliteHousekeepingParts);
  t.teardown(() => keeper.close());
  await keeper.finish();
  failure = new Error('a defect');
  await t.rejects(keeper.finish(), { message: 'a defect' });
  failure = undefined;
  await keeper.finish();
  t.equal(removals, 1);
  t.equal(times, 0);
  isTimeRefused = false;
  await keeper.finish();
  await keeper.finish();
  t.equal(times, 1, 'once an hour');
});
