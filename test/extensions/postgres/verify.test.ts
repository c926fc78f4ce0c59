import t, { type Test } from 'tap';
import { sumNew } from '../../../extensions/postgres/tenancy/ledger-sums.ts';
import { recordUsage } from '../../../extensions/postgres/tenancy/usage.ts';
import { ledgerChecks, windowDifferences } from '../../../extensions/postgres/tenancy/verify.ts';
import { HOUR_MS } from '../../../src/model/usage-window.ts';
import { aTenant, nativeBatch } from '../../helper/batches.ts';
import { postgresPlace } from '../../helper/postgres-place.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';

const server = await postgresDatabases(t);
const UNLIMITED = { eventsPerMonth: null, bytesPerHour: null };

async function opened(t: Test) {
  const place = await postgresPlace(server);
  const open = await place.open();
  t.teardown(() => open.close());
  const [project] = await open.store.projects.list();
  if (project === undefined) throw new Error('there is no project');
  const tenant = aTenant({ organizationId: project.organizationId, projectId: project.id });
  const queue = await open.store.openQueue({ name: 'q', branches: ['a'], maxBytes: 1e9 });
  /** Appends batches of 3 events and 30 bytes each. */
  const append = async (count: number): Promise<void> => {
    const usage = { events: 3, bytes: 30 };
    const receivedAt = place.clock.now();
    const batches = Array.from({ length: count }, () =>
      nativeBatch(3, { usage, tenant, receivedAt }),
    );
    await Promise.all(batches.map((batch) => queue.append(batch)));
  };
  return { ...open, clock: place.clock, tenant, append };
}

/** Notes the rows that each step has read. */
function steps() {
  const read: number[] = [];
  return { read, progress: (rows: number) => void read.push(rows) };
}

t.test('adds up in steps, at one more and one less than a multiple of a step', async (t) => {
  const { pools, append } = await opened(t);
  await append(4);
  await sumNew(pools.housekeeping);
  await append(3);
  const expected = { events: 21, bytes: 210, keptEvents: 21, keptBytes: 210 };
  for (const [step, read] of [
    // Batches, then rows that are not summed up, then sums by hour.
    [6, [6, 1, 3, 1]],
    [7, [7, 0, 3, 1]],
    [8, [7, 3, 1]],
    [3, [3, 3, 1, 3, 0, 1]],
  ] as const) {
    const noted = steps();
    t.match(await ledgerChecks(pools.verify, noted.progress, step), [expected], `${step}`);
    t.same(noted.read, read);
  }
});

t.test('finds usage that the ledger lacks, whatever the step', async (t) => {
  const { store, postgres, append } = await opened(t);
  await append(5);
  await postgres.query(
    'UPDATE usage_ledger SET events = 1 WHERE batch_id = (SELECT min(batch_id) FROM usage_ledger)',
  );
  const rows: number[] = [];
  const found = await store.usage.verify((read) => rows.push(read));
  t.match(found, [{ what: /^events in the ledger of proj_/, expected: 15, found: 13 }]);
  t.same(rows.at(-1), 10, 'progress is the sum of all steps');
});

t.test('compares the windows without Redis with ledger and reservations', async (t) => {
  const { store, postgres, pools, clock, tenant, append } = await opened(t);
  const reservation = {
    ...{ batchId: 'reserved', tenant, usage: { events: 5, bytes: 50 } },
    at: clock.now(),
  };
  await store.counters.reserve(reservation, UNLIMITED);
  await recordUsage(postgres, [
    { batchId: 'old', tenant, usage: { events: 7, bytes: 70 }, at: clock.now() - 800 * HOUR_MS },
  ]);
  t.same(await windowDifferences(pools.verify, () => {}, 1), []);
  await sumNew(pools.housekeeping);
  t.same(await windowDifferences(pools.verify, () => {}, 1), [], 'after usage is summed up');
  await postgres.query("UPDATE usage_windows SET events = 6, bytes = 51 WHERE project = ''");
  t.same(await windowDifferences(pools.verify, () => {}, 2), [
    { what: 'events of the organization', expected: 5, found: 6 },
    { what: 'bytes of the organization', expected: 50, found: 51 },
  ]);
  await append(1);
});

t.test('is not misled by batches and sums that come while it reads', async (t) => {
  const { pools, postgres, append } = await opened(t);
  await append(20);
  let begun = 0;
  const working: Promise<unknown>[] = [];
  const found = await ledgerChecks(
    pools.verify,
    () => {
      begun++;
      working.push(append(2), sumNew(pools.housekeeping, 3));
    },
    4,
  );
  await Promise.all(working);
  t.ok(begun > 5);
  t.match(found, [{ events: 60, bytes: 600, keptEvents: 60, keptBytes: 600 }], 'one moment');
  const { rows } = await postgres.query('SELECT sum(events)::bigint AS events FROM all_usage');
  t.match(rows, [{ events: 60 + begun * 6 }], 'nothing waited for it');
});
