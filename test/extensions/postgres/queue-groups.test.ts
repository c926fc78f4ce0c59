import type { Test } from 'tap';
import t from 'tap';
import { openQueues } from '../../../extensions/postgres/queue/storage.ts';
import { systemClock } from '../../../src/component/clock.ts';
import { nativeBatch } from '../../helper/batches.ts';
import { migratedDatabase } from '../../helper/migrated-database.ts';
import { postgresDatabases } from '../../helper/postgres-server.ts';
import { databaseOf, migrated } from '../../helper/queue-database.ts';
import { recordingLogger } from '../../helper/settings.ts';
import { until } from '../../helper/until.ts';

const server = await postgresDatabases(t);
const GROUP_MS = 150;
const UNBOUNDED_MS = 1e9;
const ANY_SIZE = 1e9;

/** Texts of statements; reading bodies has no statement of the queue. */
const TAKE = 'taken AS';
const END = 'ended AS';
const BODIES = 'bodies';

/**
 * Two queues of a process whose statements a test can hold: `hold` takes a text of the statement, and `letGo` sends
 * what was held.
 */
async function rig(t: Test, groupMs = GROUP_MS) {
  const postgres = await migrated(await migratedDatabase(server));
  t.teardown(() => postgres.close());
  const database = databaseOf(postgres);
  const logger = recordingLogger();
  let held: string | undefined;
  let isAnswerHeld = false;
  /** Statements with the text that are not held. */
  let passing = 0;
  let fails = false;
  let gate = Promise.withResolvers<void>();
  async function holding<T>(text: string, work: () => Promise<T>): Promise<T> {
    const isHeld = held !== undefined && text.includes(held) && passing-- <= 0;
    if (isHeld && fails) throw new Error('the connection broke');
    if (isHeld && !isAnswerHeld) await gate.promise;
    const result = await work();
    if (isHeld && isAnswerHeld) await gate.promise;
    return result;
  }
  const query: typeof database.query = (text, values) =>
    holding(text, () => database.query(text, values));
  const readBatches: typeof database.readBatches = (ids) =>
    holding(BODIES, () => database.readBatches(ids));
  const gated = { ...database, query, readBatches };
  const storage = await openQueues(gated, systemClock, logger, groupMs);
  t.teardown(() => storage.crash());
  const open = (name: string, branches: readonly string[]) =>
    storage.openQueue({ name, branches, maxBytes: 1e9 });
  return {
    logger,
    database: postgres,
    storage,
    /** The queue `work` of another process. */
    async other(branches = ['a']) {
      const another = await openQueues(database, systemClock, recordingLogger());
      t.teardown(() => another.crash());
      return another.openQueue({ name: 'work', branches, maxBytes: 1e9 });
    },
    open,
    from: await open('from', ['jobs']),
    work: await open('work', ['a']),
    hold(text: string, more: { readonly answer?: boolean; readonly after?: number } = {}) {
      held = text;
      isAnswerHeld = more.answer ?? false;
      passing = more.after ?? 0;
      gate = Promise.withResolvers();
    },
    /** Fails what `hold` would hold. */
    fail(text: string, more: { readonly after?: number } = {}) {
      held = text;
      passing = more.after ?? 0;
      fails = true;
    },
    async letGo() {
      held = undefined;
      gate.resolve();
      // The held statement, and everything that its result leads to.
      for (let left = 20; left > 0; left--) await postgres.query('SELECT 1');
    },
  };
}

t.test('a take that never ends does not hold up later takes', async (t) => {
  const { from, work, hold, letGo, logger } = await rig(t);
  const [first, second] = [nativeBatch(1), nativeBatch(1)];
  await from.append(first);
  await from.append(second);
  hold(TAKE);
  await t.rejects(work.take('from', first.id, ['a']), /take in work did not end within 150 ms/);
  t.match(
    logger.lines.filter(({ level }) => level === 'error'),
    [{ fields: { wait: 'take in work', boundMs: GROUP_MS, calls: 1 } }],
  );
  hold('no statement');
  const taken = await work.take('from', second.id, ['a']);
  t.equal(taken.get('a')?.batch.id, second.id);
  await letGo();
});

for (const [name, held, isAnswer] of [
  ['whose answer is late', TAKE, true],
  ['whose bodies are late', BODIES, false],
] as const) {
  t.test(`an abandoned take ${name} leaves no lease`, async (t) => {
    const { from, work, other, hold, letGo, database } = await rig(t);
    const batch = nativeBatch(1);
    await from.append(batch);
    hold(held, { answer: isAnswer });
    await t.rejects(work.take('from', batch.id, ['a']), { code: 'wait_timeout' });
    await letGo();
    // The process knows of no lease in the end.
    await until(() => work.stats().branches.every(({ leased }) => leased === 0));
    // As the search for orphans does it, which needs two looks.
    await database.query('UPDATE queue_entries SET holder = NULL, due = 0');
    const again = await (await other()).lease('a', 10, ANY_SIZE);
    t.same(
      again.map(({ batch: { id } }) => id),
      [batch.id],
      'the batch waits in the branch of the exporter',
    );
  });
}

t.test('an abandoned take releases what a part of its group took', async (t) => {
  const { from, work, other, hold, letGo } = await rig(t);
  const batch = nativeBatch(1);
  await from.append(batch);
  hold(TAKE, { after: 1 });
  const results = await Promise.allSettled([
    work.take('from', batch.id, ['a']),
    work.take('elsewhere', 'another batch', ['a']),
  ]);
  const abandoned = { status: 'rejected', reason: { code: 'wait_timeout' } };
  t.match(results, [abandoned, abandoned]);
  await letGo();
  const again = await (await other()).lease('a', 10, ANY_SIZE);
  t.same(
    again.map(({ batch: { id } }) => id),
    [batch.id],
    'another process can lease it at once',
  );
});

t.test('a part of a group that fails takes nothing from the calls of another part', async (t) => {
  const { from, work, fail } = await rig(t);
  const batch = nativeBatch(1);
  await from.append(batch);
  fail(TAKE, { after: 1 });
  const [first] = await Promise.allSettled([
    work.take('from', batch.id, ['a']),
    work.take('elsewhere', batch.id, ['a']),
  ]);
  const branches = first.status === 'fulfilled' ? [...first.value.keys()] : first.reason;
  t.same(branches, ['a']);
});

t.test('of two takes of one batch the one whose queue has it gets it', async (t) => {
  const { from, open } = await rig(t);
  const work = await open('two branches', ['a', 'b']);
  const batch = nativeBatch(1);
  await from.append(batch);
  const taken = await Promise.all([
    work.take('elsewhere', batch.id, ['b']),
    work.take('from', batch.id, ['a']),
  ]);
  t.same(
    taken.map((entries) => [...entries.keys()]),
    [[], ['a']],
  );
});

t.test('each of two takes of one batch in two queues gets its own leases', async (t) => {
  const { from, open, other, hold, letGo, database } = await rig(t, UNBOUNDED_MS);
  const also = await open('also', ['jobs']);
  const work = await open('work', ['a', 'b']);
  const elsewhere = await other(['a', 'b']);
  const batch = nativeBatch(1);
  await from.append(batch);
  await also.append(batch);
  hold(TAKE, { after: 1 });
  const both = Promise.all([
    work.take('from', batch.id, ['a']),
    work.take('also', batch.id, ['b']),
  ]);
  // Another process delivers the batch in the branch that the first take does not lease.
  const ofFirst = `SELECT 1 FROM queue_entries e JOIN queue_branches b ON b.id = e.branch WHERE b.branch = 'b'`;
  await until(async () => (await database.query(ofFirst)).rows.length === 1);
  await elsewhere.ack('b', await elsewhere.lease('b', 1, ANY_SIZE));
  await letGo();
  const branches = (await both).map((entries) => [...entries.keys()]);
  t.same(branches, [['a'], ['b']]);
});

t.test('an acknowledgement that never ends is written again, once', async (t) => {
  const { work, hold, letGo, storage } = await rig(t);
  await work.append(nativeBatch(1));
  const leased = await work.lease('a', 1, ANY_SIZE);
  hold(END);
  const ack = work.ack('a', leased);
  await new Promise((resolve) => setTimeout(resolve, GROUP_MS + 50));
  await letGo();
  await ack;
  await storage.refresh();
  t.match(work.stats(), { branches: [{ entries: 0, items: 0 }], bytes: 0 });
});
