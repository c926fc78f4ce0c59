import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Test } from 'tap';
import t from 'tap';
import { RepeatedRequest } from '../../../../src/model/errors.ts';
import { wholeAnswer, wholeBatchOf } from '../../../../src/model/request-context.ts';
import type { DirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { openDirectoryStorage } from '../../../../src/sqlite/queue/directory-storage.ts';
import { answered, aTenant, nativeBatch } from '../../../helper/batches.ts';
import type { FakeClock } from '../../../helper/clock.ts';
import { fakeClock } from '../../../helper/clock.ts';
import { recordingLogger } from '../../../helper/settings.ts';

/** Kept answers and recent requests of a queue on disk, while the clock of the machine is wrong. */

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const WINDOW = 10 * MINUTE;
const tenant = aTenant();
const REQUEST_HASH = Buffer.alloc(32, 1);

/** A directory of queues, opened with a clock that a test sets. */
async function place(t: Test) {
  const directory = t.testdir({});
  const clock = fakeClock();
  let storage: DirectoryStorage;
  async function open() {
    storage = await openDirectoryStorage({
      ...{ directory, createDirectory: true, minFreeBytes: 0, reserveBytes: 0 },
      ...{ clock, logger: recordingLogger() },
    });
    const queue = await storage.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
    return { ...sender(queue), crash: storage.crash, close: storage.close, tidy: storage.tidy };
  }
  t.teardown(() => storage.close());
  /** Rows of the log of recent requests, and of answers to keys. */
  function kept(): number {
    const db = new DatabaseSync(join(directory, 'queue.db'));
    const tables = ['recent_requests', 'recent_groups', 'idempotency'];
    const counts = tables.map((table) => db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.n);
    db.close();
    return counts.reduce<number>((sum, count) => sum + Number(count), 0);
  }
  return { directory, clock, open, kept, opened: await open() };
}

function sender(queue: Awaited<ReturnType<DirectoryStorage['openQueue']>>) {
  return {
    /** Sends a request without an `Idempotency-Key`; resolves with the batch whose answer it gets. */
    async send(tag: string): Promise<string> {
      const batch = nativeBatch(1, { tenant });
      const given = { key: `\0${tag}`, requestHash: REQUEST_HASH, keptFor: WINDOW };
      const context = answered({ ...wholeAnswer(batch.id), ...given, isUnclaimed: true });
      try {
        await queue.append(batch, context);
        return batch.id;
      } catch (error) {
        if (!(error instanceof RepeatedRequest)) throw error;
        return wholeBatchOf(error.answer) ?? '';
      }
    },
    /** Sends a request with a key, and ends its claim. Resolves with the state of the claim. */
    async sendKeyed(key: string): Promise<string> {
      const claim = await queue.idempotency.claim(tenant, key, REQUEST_HASH);
      if (claim.state !== 'new') return claim.state;
      const batch = nativeBatch(1, { tenant });
      await queue.append(
        batch,
        answered({ ...wholeAnswer(batch.id), key, requestHash: REQUEST_HASH }),
      );
      claim.release();
      return claim.state;
    },
  };
}

/** How the clock is set. */
const JUMPS: Record<string, (clock: FakeClock) => void> = {
  'set ahead': (clock) => clock.misset(clock.now() + 400 * DAY),
  'set back': (clock) => clock.misset(clock.now() - 400 * DAY),
  'set ahead and back': (clock) => {
    clock.misset(clock.now() + 400 * DAY);
    clock.advance(MINUTE);
    clock.misset(clock.now() - 400 * DAY);
  },
};

for (const [how, jump] of Object.entries(JUMPS)) {
  t.test(`the window of a request is the same if the clock is ${how}`, async (t) => {
    const { clock, opened, kept } = await place(t);
    const first = await opened.send('k');
    const begun = clock.uptime();
    jump(clock);
    await opened.tidy();
    clock.advance(WINDOW - (clock.uptime() - begun) - 1);
    t.equal(await opened.send('k'), first);
    clock.advance(1);
    t.not(await opened.send('k'), first, 'an identical later request is a new one');
    clock.advance(WINDOW);
    await opened.tidy();
    t.equal(kept(), 0);
  });

  t.test(`an answer to a key is kept for a day if the clock is ${how}`, async (t) => {
    const { clock, opened, kept } = await place(t);
    t.equal(await opened.sendKeyed('k'), 'new');
    const begun = clock.uptime();
    jump(clock);
    await opened.tidy();
    clock.advance(DAY - (clock.uptime() - begun) - 1);
    t.equal(await opened.sendKeyed('k'), 'replay');
    clock.advance(1);
    t.equal(await opened.sendKeyed('k'), 'new');
    clock.advance(DAY);
    await opened.tidy();
    t.equal(kept(), 0);
  });

  t.test(`a start goes on if the clock is ${how} before it`, async (t) => {
    const { clock, opened, open } = await place(t);
    const first = await opened.send('k');
    t.equal(await opened.sendKeyed('k'), 'new');
    jump(clock);
    await opened.tidy();
    await opened.crash();
    clock.set(clock.now() + MINUTE);
    const after = await open();
    t.equal(await after.send('k'), first);
    t.equal(await after.sendKeyed('k'), 'replay');
    await after.close();
    clock.set(clock.now() + WINDOW);
    const later = await open();
    t.not(await later.send('k'), first, 'the time without a process counts');
  });
}

t.test(
  'requests expire that were accepted while the clock was ahead since the start',
  async (t) => {
    const { clock, opened, open } = await place(t);
    await opened.close();
    clock.misset(clock.now() + 400 * DAY);
    const ahead = await open();
    const first = await ahead.send('k');
    await ahead.sendKeyed('k');
    clock.misset(clock.now() - 400 * DAY);
    t.equal(await ahead.send('k'), first, 'a retry');
    clock.advance(WINDOW);
    t.not(await ahead.send('k'), first);
    clock.advance(DAY);
    t.equal(await ahead.sendKeyed('k'), 'new');
  },
);

t.test('requests expire whose clock was set back while no process ran', async (t) => {
  const { clock, opened, open } = await place(t);
  const first = await opened.send('k');
  await opened.sendKeyed('k');
  await opened.tidy();
  await opened.close();
  clock.misset(clock.now() - 400 * DAY);
  const after = await open();
  t.equal(await after.send('k'), first, 'a retry');
  clock.advance(WINDOW);
  t.not(await after.send('k'), first);
  clock.advance(DAY);
  t.equal(await after.sendKeyed('k'), 'new');
});

t.test('answers far ahead of a version that kept no time expire within a day', async (t) => {
  const { directory, clock, opened, open, kept } = await place(t);
  await opened.sendKeyed('k');
  await opened.close();
  const db = new DatabaseSync(join(directory, 'queue.db'));
  db.exec('DELETE FROM queue_time');
  db.prepare('UPDATE idempotency SET expires_at = expires_at + ?').run(400 * DAY);
  db.close();
  const after = await open();
  await after.tidy();
  t.equal(await after.sendKeyed('k'), 'replay');
  clock.set(clock.now() + DAY);
  await after.tidy();
  t.equal(kept(), 0);
});

t.test('the time is kept soon after the clock was set', async (t) => {
  const { clock, opened, open } = await place(t);
  await opened.tidy();
  const first = await opened.send('k');
  clock.misset(clock.now() + 400 * DAY);
  t.equal(await opened.send('k'), first);
  clock.advance(1);
  await new Promise((resolve) => setImmediate(resolve));
  await opened.close();
  const after = await open();
  t.equal(await after.send('k'), first);
});
