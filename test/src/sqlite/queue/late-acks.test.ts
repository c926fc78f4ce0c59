import type { Test } from 'tap';
import t from 'tap';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { leaseAll } from '../../../contract/queue.ts';
import { nativeBatch } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

/** Acknowledgements that may be written with a later call. */

const HOUR = 3_600_000;

function place(t: Test) {
  const directory = t.testdir({});
  return async () => {
    const storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock: fakeClock(), logger: recordingLogger() },
    });
    t.teardown(() => storage.close());
    const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    return { storage, queue };
  };
}

t.test('an acknowledgement that may wait is written with the next append', async (t) => {
  const open = place(t);
  const { storage, queue } = await open();
  await queue.append(nativeBatch(1));
  const acked = queue.ack('a', await leaseAll(queue, 'a'), HOUR);
  t.equal(queue.stats().branches[0]?.entries, 0, 'the entry counts no more');
  const next = nativeBatch(1);
  await Promise.all([queue.append(next), acked]);
  await storage.crash();
  const after = await open();
  t.same(
    (await leaseAll(after.queue, 'a')).map(({ batch }) => batch.id),
    [next.id],
  );
});

t.test('a crash before that repeats the delivery, and a close does not', async (t) => {
  const open = place(t);
  const first = await open();
  const batch = nativeBatch(1);
  await first.queue.append(batch);
  const lost = first.queue.ack('a', await leaseAll(first.queue, 'a'), HOUR);
  lost.catch(() => undefined);
  await first.storage.crash();
  const second = await open();
  const again = await leaseAll(second.queue, 'a');
  t.same(
    again.map((entry) => entry.batch.id),
    [batch.id],
  );
  const saved = second.queue.ack('a', again, HOUR);
  await second.storage.close();
  await saved;
  t.same(await leaseAll((await open()).queue, 'a'), []);
});
