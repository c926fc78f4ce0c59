import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import type { SealedBatch } from '../../../../src/model/batch.ts';
import { observe } from '../../../../src/model/formats.ts';
import type { DurableQueue, ItemErasing, QueueDrop } from '../../../../src/queue/queue.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { SqliteQueue } from '../../../../src/sqlite/queue/sqlite-queue.ts';
import { tracedItems, withoutItems } from '../../../../src/store/erasing/items.ts';
import { aTenant, nativeBatch, nativeEvent } from '../../../helper/batches.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

const CANARY = 'canary-93b1f0';

/** Files of the directory that hold the canary. */
function sightings(directory: string): string[] {
  return readdirSync(directory).filter((name) =>
    readFileSync(join(directory, name)).includes(CANARY),
  );
}

/** A batch with an item of a trace to erase, and one of another; `times` makes it large. */
function batchOf(i: number, receivedAt: number, times = 1, projectId = 'proj_test'): SealedBatch {
  const item = (trace: string, text: string): Record<string, unknown> =>
    nativeEvent({ id: `${trace}-${i}`, trace_id: trace, inputs: `${text} `.repeat(times) });
  const events = [item('gone', CANARY), item('kept', 'other')];
  return nativeBatch(events, { receivedAt, tenant: aTenant({ projectId }) });
}

/** Erases the trace `gone`. */
function erasing(until: number): ItemErasing {
  return {
    projectId: 'proj_test',
    until,
    waitMs: 0,
    async rest(batch) {
      const items = tracedItems(batch).filter(({ traceId }) => traceId === 'gone');
      if (items.length === 0) return undefined;
      return withoutItems(batch, new Set(items.map(({ position }) => position)));
    },
  };
}

async function erase(queue: DurableQueue, until: number): Promise<void> {
  for await (const _ of queue.eraseItems?.(erasing(until)) ?? []);
  for await (const _ of queue.sweepErased?.() ?? []);
}

async function directory(t: Test) {
  const path = t.testdir({});
  const clock = fakeClock();
  const storage = await openDirectoryStorage({
    ...{ directory: path, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
    ...{ clock, logger: recordingLogger() },
  });
  t.teardown(() => storage.close());
  const queue = await storage.openQueue({ name: 'q', branches: ['a', 'b'], maxBytes: 1e9 });
  return { path, clock, storage, queue };
}

t.test('erased items leave a directory of queues, and the others are delivered', async (t) => {
  const { path, clock, queue } = await directory(t);
  const now = clock.now();
  await queue.append(batchOf(0, now));
  await queue.append(batchOf(1, now, 400_000));
  await queue.append(
    nativeBatch([nativeEvent({ id: 'gone-2', trace_id: 'gone', inputs: CANARY })]),
  );
  await queue.append(batchOf(3, now + 1));
  // Delivered batches are in free pages of the file.
  await queue.append(batchOf(4, now, 5000));
  const [, , , , last] = await queue.lease('a', 10, 1e9);
  for (const entry of await queue.lease('b', 10, 1e9)) {
    if (entry.seq === last?.seq) await queue.ack('b', [entry]);
    else await queue.deadLetter('b', entry, { code: 'bad', message: CANARY });
  }
  if (last !== undefined) await queue.ack('a', [last]);
  const drops: QueueDrop[] = [];
  queue.onDrop((drop) => drops.push(drop));
  t.not(sightings(path).length, 0);
  await erase(queue, now + 1);
  t.same(sightings(path), []);
  const letters = await queue.deadLetters();
  t.same(
    letters.map(({ items }) => items),
    [1, 1, 1],
  );
  t.match(queue.stats(), { deadLetters: 3, deadLetterItems: 3 });
  t.equal(await queue.replay('all'), 3);
  const left = await queue.lease('b', 10, 1e9);
  t.same(left.flatMap(({ batch }) => observe(batch).map(({ id }) => id)).sort(), [
    'kept-0',
    'kept-1',
    'kept-3',
  ]);
});

t.test('later batches, and those of other projects, keep their items', async (t) => {
  const { clock, queue } = await directory(t);
  const now = clock.now();
  await queue.append(batchOf(0, now + 1));
  await queue.append(batchOf(1, now, 1, 'proj_other'));
  await queue.append(batchOf(2, now));
  await erase(queue, now);
  const left = await queue.lease('a', 10, 1e9);
  t.same(
    left.map(({ batch }) => batch.items),
    [2, 2, 1],
  );
  t.match(queue.stats().branches, [{ items: 5, entries: 3 }, { items: 5 }]);
  await queue.ack('a', left);
  t.match(queue.stats().branches, [{ items: 0, entries: 0 }, { items: 5 }]);
});

t.test('leases no entry that is removed while the body of another one is read', async (t) => {
  const { clock, storage } = await directory(t);
  const [removed, read] = [batchOf(0, clock.now()), batchOf(1, clock.now(), 1000)];
  const cacheBytes = 2 * removed.body.length;
  const options = { name: 'small', branches: ['a'], maxBytes: 1e9, cacheBytes };
  const queue = await storage.openQueue(options);
  await queue.append(removed);
  await queue.append(read);
  const leasing = queue.lease('a', 2, 1e9);
  while (queue.stats().branches[0]?.leased !== 2) await undefined;
  if (!(queue instanceof SqliteQueue)) throw new Error('a directory has another queue');
  const pending = [1, 2, 3].map((branch) => ({ branch, items: 2 }));
  queue.forget([{ seq: 1, bytes: removed.body.length, pending, letters: [] }], 'project_deleted');
  t.same(
    (await leasing).map(({ batch }) => batch.id),
    [read.id],
  );
  t.match(queue.stats().branches, [{ entries: 1, leased: 1 }]);
});

t.test(
  'leases an entry whose items are erased while the body of another one is read',
  async (t) => {
    const { clock, storage } = await directory(t);
    const [kept, read] = [batchOf(0, clock.now()), batchOf(1, clock.now(), 1000)];
    const cacheBytes = 2 * kept.body.length;
    const options = { name: 'small', branches: ['a'], maxBytes: 1e9, cacheBytes };
    const queue = await storage.openQueue(options);
    await queue.append(kept);
    await queue.append(read);
    const leasing = queue.lease('a', 2, 1e9);
    // The lease has taken both entries, and a thread reads the body of the second one.
    while (queue.stats().branches[0]?.leased !== 2) await undefined;
    if (!(queue instanceof SqliteQueue)) throw new Error('a directory has another queue');
    queue.shrink({ seq: 1, isEmpty: false, bytes: 0, pending: [], letters: [] });
    const entries = await leasing;
    t.same(
      entries.map(({ batch }) => batch.id),
      [kept.id, read.id],
    );
    await queue.ack('a', entries);
    t.match(queue.stats().branches, [{ entries: 0, items: 0, leased: 0 }]);
  },
);
