import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import t, { type Test } from 'tap';
import { checksOf } from '../../../extensions/sqlite/tenancy/rows.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import { openDatabase } from '../../../src/sqlite/database.ts';
import { UsageLedger } from '../../../src/sqlite/queue/usage-ledger.ts';
import { readUsage } from '../../../src/sqlite/queue/usage-pages.ts';
import { threadFile } from '../../../src/thread/thread.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { sqlitePlace } from '../../helper/places.ts';
import { recordingLogger } from '../../helper/settings.ts';

const OPERATIONS = new URL('../../../extensions/sqlite/open-store.ts', import.meta.url).href;

/** A store with batches of 3 events and 30 bytes: `old` ones whose hour is over, then `fresh` ones. */
async function filled(t: Test, old: number, fresh: number) {
  const place = sqlitePlace(t);
  const { store, finish, close } = await place.open();
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const append = async (count: number): Promise<void> => {
    const usage = { events: 3, bytes: 30 };
    for (let i = 0; i < count; i++) {
      await queue.append(nativeBatch(3, { usage, receivedAt: place.clock.now() }));
    }
  };
  await append(old);
  place.clock.set(place.clock.now() + 3 * HOUR_MS);
  await finish();
  await append(fresh);
  const rows: number[] = [];
  t.same(await store.usage.verify((read) => rows.push(read)), []);
  t.equal(
    rows.at(-1),
    2 * (fresh + Math.min(old, 1)) + old + fresh,
    'counters and checks read the ledger',
  );
  await close();
  const database = await openDatabase<typeof import('../../../extensions/sqlite/operations.ts')>({
    ...{ directory: place.directory, name: 'store', createDirectory: false },
    ...{ minFreeBytes: 0, reserveBytes: 0, operations: threadFile(OPERATIONS, 'operations') },
    ...{ clock: systemClock, logger: recordingLogger() },
  });
  t.teardown(() => database.close());
  return { database, clock: place.clock };
}

t.test('adds up in steps, at one more and one less than a multiple of a step', async (t) => {
  const { database } = await filled(t, 3, 4);
  const expected = { events: 21, bytes: 210, keptEvents: 21, keptBytes: 210 };
  for (const [step, read] of [
    // Batches, then rows of the ledger, then sums by hour.
    [6, [6, 1, 4, 1]],
    [7, [7, 0, 4, 1]],
    [8, [7, 4, 1]],
    [4, [4, 3, 4, 0, 1]],
    [1, [1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 0]],
  ] as const) {
    const noted: number[] = [];
    const checks = await checksOf(database, (rows) => noted.push(rows), step);
    t.match(checks, [expected], `${step}`);
    t.same(noted, read, `${step}`);
  }
});

t.test('reports a ledger row whose events or bytes differ from its batch', async (t) => {
  const place = sqlitePlace(t);
  const { store, close } = await place.open();
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const batches = Array.from({ length: 102 }, () =>
    nativeBatch(3, { usage: { events: 3, bytes: 30 }, receivedAt: place.clock.now() }),
  );
  for (const batch of batches) await queue.append(batch);
  await close();

  const differencesAfter = async (change: string) => {
    const db = new DatabaseSync(join(place.directory, 'store.db'));
    db.exec(change);
    db.close();
    const opened = await place.open();
    const found = await opened.store.usage.verify();
    await opened.close();
    return found;
  };
  const [{ id: one = '' } = {}, { id: other = '' } = {}] = batches;
  const row = (id: string) => `in the row of batch ${id}`;
  // The sum is right, so only the rows show it.
  const moved = `UPDATE usage_ledger SET bytes = CASE batch_id WHEN '${one}' THEN 31 ELSE 29 END
    WHERE batch_id IN ('${one}', '${other}')`;
  t.match(await differencesAfter(moved), [
    { what: row(one), expected: 30, found: 31 },
    { what: row(other), expected: 30, found: 29 },
  ]);
  const exact = `UPDATE usage_ledger SET bytes = 30; UPDATE usage_ledger SET events = 4
    WHERE batch_id = '${one}'`;
  t.match(await differencesAfter(exact), [{ what: /^events in .* row of/, expected: 3, found: 4 }]);
  const all = await differencesAfter('UPDATE usage_ledger SET events = 3, bytes = 31');
  t.equal(all.length, 100, 'one hundred rows are named');
  t.same(await differencesAfter('UPDATE usage_ledger SET bytes = 30'), []);
});

t.test('no usage moves to the sums by hour while they are read', async (t) => {
  const { database, clock } = await filled(t, 0, 5);
  const usage = new UsageLedger(database, clock, recordingLogger());
  clock.set(clock.now() + 3 * HOUR_MS);
  let events = 0;
  await usage.holdStill(async () => {
    const moving = (): void => void usage.rollUp();
    await readUsage(database, 2, moving, (sum) => {
      events += sum.events;
    });
  });
  t.equal(events, 15);
  t.notOk(await usage.rollUp(), 'everything is moved afterwards');
  const places: number[] = [];
  await readUsage(
    database,
    10,
    (rows) => places.push(rows),
    () => {},
  );
  t.same(places, [0, 1]);
});

/** An open store with a queue, and a tenant of its first project. */
async function opened(t: Test) {
  const place = sqlitePlace(t);
  const { store, close } = await place.open();
  t.teardown(close);
  const queue = await store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  const [project] = await store.projects.list();
  const { organizationId = '', id: projectId = '' } = project ?? {};
  return { place, store, queue, tenant: aTenant({ organizationId, projectId }) };
}

for (const isRecorded of [false, true]) {
  const when = isRecorded ? 'behind' : 'before';
  t.test(
    `a batch of another file that the store gets ${when} its ledger entry counts once`,
    async (t) => {
      const { place, store, queue, tenant } = await opened(t);
      const usage = { events: 3, bytes: 30 };
      const batch = nativeBatch(3, { tenant, usage, receivedAt: place.clock.now() });
      const reservation = { batchId: batch.id, tenant, usage, at: place.clock.now() };
      const limits = { eventsPerMonth: null, bytesPerHour: null };
      t.match(await store.counters.reserve(reservation, limits), { admitted: true });
      // Another queue has it: only the counters of this store know of its usage.
      store.counters.settle(reservation, true);
      if (isRecorded) t.same(await store.usage.verify(), []);
      await queue.append(batch);
      t.equal((await queue.lease('a', 10, 1e6)).length, 1);
      const counted = { month: { events: 3 }, hour: { bytes: 30 } };
      t.match(await store.counters.read(tenant.organizationId), counted);
      t.same(await store.usage.verify(), []);
      t.match(await store.counters.read(tenant.organizationId), counted);
    },
  );
}

t.test(
  'a batch from a machine whose clock is far ahead counts in the present windows',
  async (t) => {
    const { place, store, queue, tenant } = await opened(t);
    const usage = { events: 3, bytes: 30 };
    const receivedAt = place.clock.now();
    for (const ahead of [0, 400 * 24 * HOUR_MS, 0]) {
      await queue.append(nativeBatch(3, { tenant, usage, receivedAt: receivedAt + ahead }));
    }
    t.match(await store.counters.read(tenant.organizationId), {
      month: { events: 9 },
      hour: { bytes: 90 },
    });
    t.same(await store.usage.verify(), []);
  },
);

t.test(
  'the windows before a clock was far ahead are in force when it is right again',
  async (t) => {
    const { place, store, queue, tenant } = await opened(t);
    const limits = { eventsPerMonth: 6, bytesPerHour: 60 };
    const reserve = (events: number) =>
      store.counters.reserve(
        {
          ...{ batchId: `${Math.random()}`, tenant, at: place.clock.now() },
          usage: { events, bytes: 10 * events },
        },
        limits,
      );
    const append = (events: number) =>
      queue.append(
        nativeBatch(events, {
          ...{ tenant, usage: { events, bytes: 10 * events } },
          receivedAt: place.clock.now(),
        }),
      );
    const right = place.clock.now();
    await append(3);
    place.clock.set(right + 400 * 24 * HOUR_MS);
    await append(4);
    place.clock.set(right + 400 * 24 * HOUR_MS + HOUR_MS);
    await append(4);
    place.clock.set(right);
    const { month, hour } = await store.counters.read(tenant.organizationId);
    t.same([month.events, hour.bytes], [3, 30]);
    t.ok(hour.resetsAt <= right + HOUR_MS);
    await append(2);
    t.match(await reserve(2), { admitted: false, code: 'monthly_limit' });
    t.match(await reserve(1), { admitted: true, at: right });
    place.clock.set(right + HOUR_MS);
    t.match(await store.counters.read(tenant.organizationId), {
      month: { events: 6 },
      hour: { bytes: 0 },
    });
  },
);

t.test('the usage of the hour stays when a clock was set ahead in steps', async (t) => {
  const { place, store, queue, tenant } = await opened(t);
  const right = place.clock.now();
  const append = (events: number) =>
    queue.append(
      nativeBatch(events, {
        ...{ tenant, usage: { events, bytes: 10 * events } },
        receivedAt: place.clock.now(),
      }),
    );
  await append(3);
  for (const days of [1, 2, 40, 400]) {
    place.clock.set(right + days * 24 * HOUR_MS);
    await append(4);
  }
  place.clock.set(right + 24 * HOUR_MS);
  t.match(await store.counters.read(tenant.organizationId), { hour: { bytes: 40 } });
  place.clock.set(right);
  await append(2);
  t.match(await store.counters.read(tenant.organizationId), { hour: { bytes: 50 } });
  t.same(await store.usage.verify(), []);
});

t.test('the counts of a month stay when a clock was ahead across its end', async (t) => {
  const nextMonth = Date.UTC(2030, 5, 1);
  const NO_LIMITS = { eventsPerMonth: null, bytesPerHour: null };
  // A clock that drifts ahead by an hour at a time makes no jump that the windows before it are kept for.
  const days = (...all: number[]) => all.map((day) => 24 * day);
  for (const ahead of [[-3, -2, -1, 0, 1], days(400), days(3, 40), days(3, 40, 70)]) {
    const { database, clock } = await filled(t, 0, 1);
    const usage = new UsageLedger(database, clock, recordingLogger());
    let batches = 0;
    const countAt = (hour: number, projectId: string) => {
      clock.set(nextMonth + hour * HOUR_MS);
      const [tenant, batchId] = [aTenant({ projectId }), `${batches++}`];
      const reservation = { batchId, tenant, usage: { events: 1, bytes: 1 }, at: clock.now() };
      t.match(usage.reserve(reservation, NO_LIMITS), { admitted: true });
    };
    const eventsAt = (hour: number) => {
      clock.set(nextMonth + hour * HOUR_MS);
      const { organizationId } = aTenant();
      return [undefined, 'a', 'b'].map((id) => usage.read(organizationId, id).month.events);
    };
    for (const hour of [-6, -5, -4]) countAt(hour, 'a');
    countAt(-4, 'b');
    t.same(eventsAt(-4), [4, 3, 1]);
    for (const hour of ahead) countAt(hour, 'a');
    t.notOk(await usage.rollUp());
    const inMonth = ahead.filter((hour) => hour < 0).length;
    t.same(eventsAt(-4), [4 + inMonth, 3 + inMonth, 1]);
    countAt(-3, 'a');
    t.same(eventsAt(-3), [5 + inMonth, 4 + inMonth, 1]);
    t.same(eventsAt(0), [0, 0, 0], 'the next month begins once');
    await usage.close();
  }
});

t.test('the usage of a month stays when a clock is set back by hours', async (t) => {
  const { place, store, queue, tenant } = await opened(t);
  const month = Date.UTC(2030, 4, 1);
  async function appendAt(hour: number): Promise<void> {
    place.clock.set(month + hour * HOUR_MS);
    const usage = { events: 1, bytes: 10 };
    await queue.append(nativeBatch(1, { tenant, usage, receivedAt: place.clock.now() }));
  }
  async function usageAt(hour: number): Promise<unknown> {
    place.clock.set(month + hour * HOUR_MS);
    const { month: ofMonth, hour: ofHour } = await store.counters.read(tenant.organizationId);
    return [ofMonth.events, ofHour.bytes];
  }
  await appendAt(-100);
  for (const hour of [100, 101, 102, 103]) await appendAt(hour);
  t.same(await usageAt(100), [4, 0], 'after a pause that began in the month before');
  for (const hour of [101, 102, 103]) await appendAt(hour);
  t.same(await usageAt(100), [7, 0], 'of usage in each hour');
  t.same(await usageAt(101), [7, 0]);
});
